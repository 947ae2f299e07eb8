/* SPDX-License-Identifier: MIT */
/*
 * renewal.c - when to ask for a certificate or a list, and what comes of it.
 *
 * The address of the CA's daemon is in the identity directory. A name is resolved as any other, on
 * a thread of its own; the call is a registration thread's (renewal_call.c). When it is done the
 * identity is loaded anew, as if somebody had put the file there.
 */
#include "daemon/peer/connect/renewal.h"
#include "common/uri.h"
#include "daemon/base/audit.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/offload.h"
#include "daemon/base/resolve.h"
#include "daemon/peer/connect/renewal_call.h"
#include "daemon/state/identity.h"
#include "pki/join_client.h"
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RENEWAL_OWNER (UINT64_MAX - 9) /* of offload jobs: no uid */
#define RENEWAL_FIRST_NS NSEC_PER_SEC
#define RENEWAL_SAY_NS (3600 * NSEC_PER_SEC)

struct renewal {
    struct offload_job job;
    struct peers *peers; /* NULL: they have stopped */
    struct timer timer;
    struct lookup *resolving;
    bool calling;        /* the thread has call, why and rc */
    uint64_t cert_at_ns; /* no certificate is asked for before */
    uint64_t list_at_ns; /* when the list is asked for next */
    uint64_t say_at_ns;  /* a failure is not logged again before */
    struct renewal_call call;
    int rc;
    struct error why;
};

static void renewal_wait(struct renewal *r, uint64_t span_ns) {
    struct state *st = r->peers->state;
    (void)timer_set(&st->timers, &r->timer, clock_after(state_now(st), span_ns));
}

static void renewal_drop_call(struct renewal *r) {
    if (r->call.addresses)
        freeaddrinfo(r->call.addresses);
    r->call = (struct renewal_call){0};
}

/* ---- what comes of it ---------------------------------------------------------------------- */

static const char *renewal_what(const struct renewal *r) {
    return r->call.list_only ? "the list of revoked certificates" : "the next certificate";
}

static void renewal_failed(struct renewal *r, const struct error *why) {
    uint64_t now = state_now(r->peers->state);
    if (now >= r->say_at_ns) {
        LOG(WARNING, ("%s is not got from %s, and will be asked for again: %s", renewal_what(r),
                      r->call.where[0] ? r->call.where : "the CA here", why->text));
        r->say_at_ns = clock_after(now, RENEWAL_SAY_NS);
    }
    renewal_drop_call(r);
    renewal_wait(r, RENEWAL_AGAIN_NS);
}

static void renewal_came(struct renewal *r) {
    struct state *st = r->peers->state;
    struct error why;
    uint64_t now = state_now(st);
    if (!r->call.list_only) /* near the CA's own end the next is old at once */
        r->cert_at_ns = clock_after(now, RENEWAL_SAY_NS);
    if (!r->call.list_only)
        AUDIT(ADMIN, "identity.renewed", audit_nobody(), audit_nothing(),
              ("%s has its next certificate", st->node_name));
    r->list_at_ns = clock_after(now, RENEWAL_LIST_NS); /* each answer has it */
    r->say_at_ns = 0;
    renewal_drop_call(r);
    (void)identity_reload(st, false, &why);
    renewal_wait(r, RENEWAL_LOOK_NS);
}

static void renewal_done(struct offload_job *job) {
    struct renewal *r = container_of(job, struct renewal, job);
    r->calling = false;
    if (!r->peers) {
        renewal_drop_call(r);
        free(r);
    } else if (r->rc) {
        renewal_failed(r, &r->why);
    } else {
        renewal_came(r);
    }
}

/* ---- asking -------------------------------------------------------------------------------- */

static void renewal_run(struct offload_job *job) {
    struct renewal *r = container_of(job, struct renewal, job);
    r->rc = renewal_call(&r->call, &r->why);
}

static void renewal_post(struct renewal *r) {
    struct state *st = r->peers->state;
    r->calling = true;
    r->job.owner = RENEWAL_OWNER;
    r->job.reply_to = st->mailbox;
    r->job.run = renewal_run;
    r->job.done = renewal_done;
    offload_post(st->offload, &r->job);
}

static void renewal_resolved(void *arg, const struct error *result, struct addrinfo *found) {
    struct renewal *r = arg;
    r->resolving = NULL;
    r->call.addresses = found;
    if (result->code)
        renewal_failed(r, result);
    else
        renewal_post(r);
}

static void renewal_ask(struct renewal *r, const char *host, uint16_t port) {
    struct peers *ps = r->peers;
    struct error why;
    if (!ps->resolver)
        ps->resolver = resolver_new(ps->state->mailbox, getaddrinfo);
    if (ps->resolver)
        r->resolving = resolver_ask(ps->resolver, host, port, PEER_NOBODY, renewal_resolved, r);
    if (r->resolving)
        return;
    error_set(&why, RDMAD_E_NOMEM, "out of memory to look its name up");
    renewal_failed(r, &why);
}

/* What is due, if anything is. */
static bool renewal_is_due(const struct renewal *r, const struct pki_identity *id,
                           bool *list_only) {
    uint64_t now = state_now(r->peers->state);
    *list_only = (int64_t)time(NULL) < pki_renewal_time(id) || now < r->cert_at_ns;
    return !*list_only || (!id->is_ca && now >= r->list_at_ns);
}

/* False: there is nobody to ask. */
static bool renewal_begin(struct renewal *r, const struct pki_identity *id, bool list_only) {
    struct pki_error err;
    char host[RDMAD_HOST_MAX + 1];
    uint16_t port;
    r->call = (struct renewal_call){.list_only = list_only};
    snprintf(r->call.dir, sizeof(r->call.dir), "%s", id->dir);
    if (id->is_ca) {
        renewal_post(r);
        return true;
    }
    if (join_client_address(id->dir, r->call.where, sizeof(r->call.where), &err) ||
        rdmad_hostport_parse(r->call.where, host, &port))
        return false;
    renewal_ask(r, host, port);
    return true;
}

static void renewal_looks(struct timer *timer, uint64_t now_ns) {
    struct renewal *r = container_of(timer, struct renewal, timer);
    const struct pki_identity *id = identity_of(r->peers->state);
    bool list_only;
    (void)now_ns;
    if (!id || !renewal_is_due(r, id, &list_only) || !renewal_begin(r, id, list_only))
        renewal_wait(r, RENEWAL_LOOK_NS);
}

/* ---- its life ------------------------------------------------------------------------------ */

int renewal_new(struct peers *ps, struct error *err) {
    struct renewal *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for renewals");
    r->peers = ps;
    timer_init(&r->timer, renewal_looks);
    ps->renewal = r;
    if (identity_of(ps->state))
        renewal_wait(r, RENEWAL_FIRST_NS);
    return 0;
}

void renewal_look(struct peers *ps) {
    if (!ps->renewal->calling && !ps->renewal->resolving)
        renewal_wait(ps->renewal, RENEWAL_FIRST_NS);
}

void renewal_free(struct peers *ps) {
    struct renewal *r = ps->renewal;
    ps->renewal = NULL;
    if (!r)
        return;
    timer_unset(&ps->state->timers, &r->timer);
    if (r->resolving)
        lookup_cancel(r->resolving);
    r->peers = NULL;
    if (r->calling) {
        __atomic_store_n(&r->call.given_up, true, __ATOMIC_RELAXED);
        return;
    }
    renewal_drop_call(r);
    free(r);
}
