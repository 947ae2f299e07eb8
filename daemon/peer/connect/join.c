/* SPDX-License-Identifier: MIT */
/*
 * join.c - the connections of those that join, and what their requests may cost.
 */
#include "daemon/peer/connect/join.h"
#include "daemon/base/audit.h"
#include "daemon/base/clock.h"
#include "daemon/base/offload.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/tls.h"
#include "daemon/peer/control/transport.h"
#include "daemon/state/identity.h"
#include "pki/context.h"
#include "pki/join_server.h"
#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define JOIN_OWNER (UINT64_MAX - 8) /* of offload jobs: no uid */
#define JOIN_SOURCES 64u            /* that were refused lately and are remembered */
#define JOIN_RECORDS_MAX 64u        /* of one request, which fits into one */

enum join_stage { JOIN_ASKING, JOIN_ANSWERING, JOIN_TELLING };

/* On whose account a connection is: a node's, by its certificate, or else a stranger's, by his
 * address. Other users of a node have its address, too, and no certificate. */
struct joiner {
    char name[RDMAD_NAME_MAX + 1]; /* of its certificate; "": it has shown none */
    struct in6_addr source;
};

struct join {
    struct offload_job job;
    struct list node;
    struct joins *joins; /* NULL: they have stopped */
    enum join_stage stage;
    struct transport *way; /* NULL: it is gone, and the thread still has the request */
    struct joiner who;
    char address[INET6_ADDRSTRLEN + 8];
    struct timer patience;
    unsigned records;
    struct join_server server;
    X509 *shown;
    /* of the job */
    char dir[PKI_PATH_MAX];
    int rc;
    struct join_bytes reply;
    struct join_outcome outcome;
};

struct refused {
    struct joiner who;
    unsigned count;
    uint64_t since_ns;
};

struct joins {
    struct peers *peers;
    struct list all;
    struct refused refused[JOIN_SOURCES];
};

/* ---- who was refused lately ---------------------------------------------------------------- */

static bool join_is_stranger(const struct joiner *who) {
    return !who->name[0];
}

static bool join_same(const struct joiner *a, const struct joiner *b) {
    if (!join_is_stranger(a) || !join_is_stranger(b))
        return strcmp(a->name, b->name) == 0;
    return memcmp(&a->source, &b->source, sizeof(a->source)) == 0;
}

static struct refused *join_refused_of(struct joins *js, const struct joiner *who) {
    uint64_t now = state_now(js->peers->state);
    for (unsigned i = 0; i < JOIN_SOURCES; i++) {
        struct refused *r = &js->refused[i];
        if (r->count && clock_left(r->since_ns, now) > JOIN_WINDOW_NS)
            r->count = 0;
        if (r->count && join_same(&r->who, who))
            return r;
    }
    return NULL;
}

/* In the place of the one that is over first, when there is none left. */
static void join_note_refusal(struct joins *js, const struct joiner *who) {
    struct refused *r = join_refused_of(js, who);
    if (!r) {
        r = &js->refused[0];
        for (unsigned i = 1; i < JOIN_SOURCES && r->count; i++)
            if (!js->refused[i].count || js->refused[i].since_ns < r->since_ns)
                r = &js->refused[i];
        *r = (struct refused){.who = *who, .since_ns = state_now(js->peers->state)};
    }
    r->count++;
}

/* ---- its end ------------------------------------------------------------------------------- */

static void join_free(struct join *j) {
    join_server_fini(&j->server);
    join_bytes_free(&j->reply);
    X509_free(j->shown);
    free(j);
}

/* It is none of them any more. */
static void join_leave(struct join *j) {
    if (!j->joins)
        return;
    timer_unset(&j->joins->peers->state->timers, &j->patience);
    list_remove(&j->node);
    j->joins = NULL;
}

/* One that the thread still has keeps its place: what becomes of it is to be known. */
static void join_close(struct join *j) {
    if (j->way)
        transport_close(j->way);
    j->way = NULL;
    if (j->stage == JOIN_ANSWERING)
        return;
    join_leave(j);
    join_free(j);
}

static void join_say_refusal(const struct join *j, const char *cause, const char *text) {
    AUDIT(REFUSED, cause, audit_peer(j->who.name, j->address), audit_nothing(),
          ("whoever joins from %s: %s", j->address, text));
}

static void join_refuse(struct join *j, const char *cause, const char *text) {
    join_say_refusal(j, cause, text);
    if (j->joins)
        join_note_refusal(j->joins, &j->who);
}

static void join_late(struct timer *timer, uint64_t now_ns) {
    struct join *j = container_of(timer, struct join, patience);
    (void)now_ns;
    if (j->stage == JOIN_ASKING)
        join_refuse(j, "join.late", "it has not asked for anything in time");
    join_close(j);
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void join_compute(struct offload_job *job) {
    struct join *j = container_of(job, struct join, job);
    j->rc = join_server_answer(&j->server, j->dir, j->shown, (int64_t)time(NULL), &j->reply,
                               &j->outcome);
}

static void join_audit(struct join *j) {
    const struct join_outcome *o = &j->outcome;
    char until[PKI_DATE_TEXT];
    if (o->code) {
        const char *cause = o->asked == JOIN_TOKEN ? "join.refused" : "join.renewal_refused";
        if (o->ours)
            join_say_refusal(j, cause, o->text);
        else
            join_refuse(j, cause, o->text);
    } else if (o->asked != JOIN_LIST) {
        AUDIT(ADMITTED, o->asked == JOIN_TOKEN ? "join.granted" : "join.renewed",
              audit_peer(o->name, j->address), audit_nothing(),
              ("node %s at %s has a certificate until %s%s", o->name, j->address,
               pki_date_text(o->not_after, until),
               j->way ? "" : "; its connection ended before it was sent"));
    }
}

/* All of it at once: it is small, and what the socket does not take waits in the transport. */
static bool join_tell(struct join *j) {
    for (size_t at = 0; at < j->reply.size;) {
        size_t n = j->reply.size - at;
        n = n < TLS_PLAIN_MAX ? n : TLS_PLAIN_MAX;
        if (!transport_write(j->way, j->reply.data + at, n))
            return false;
        at += n;
    }
    return j->reply.size > 0;
}

static void join_computed(struct offload_job *job) {
    struct join *j = container_of(job, struct join, job);
    j->stage = JOIN_TELLING;
    join_audit(j);
    if (!j->way || j->rc || !join_tell(j))
        join_close(j);
}

static void join_answer(struct join *j) {
    struct state *st = j->joins->peers->state;
    j->stage = JOIN_ANSWERING;
    transport_read_pause(j->way);
    snprintf(j->dir, sizeof(j->dir), "%s", identity_dir(st));
    j->job.owner = JOIN_OWNER;
    j->job.reply_to = st->mailbox;
    j->job.run = join_compute;
    j->job.done = join_computed;
    offload_post(st->offload, &j->job);
}

/* ---- the request --------------------------------------------------------------------------- */

/* JOIN_MORE, 0 (whole), or why it is over. */
static int join_open(struct join *j, struct pki_error *wrong) {
    uint8_t bytes[4096];
    struct error err;
    int n, rc = JOIN_MORE;
    if (++j->records > JOIN_RECORDS_MAX)
        return pki_fail(wrong, RDMAD_E_PROTOCOL, "it asks in too many pieces");
    if (transport_open_record(j->way, &err))
        return pki_fail(wrong, err.code, "%s", err.text);
    while (rc == JOIN_MORE &&
           (n = evbuffer_remove(transport_input(j->way), bytes, sizeof(bytes))) > 0)
        rc = join_server_take(&j->server, bytes, (size_t)n, wrong);
    return rc;
}

static void join_heard(void *arg) {
    struct join *j = arg;
    struct pki_error wrong;
    int rc = JOIN_MORE;
    while (j->stage == JOIN_ASKING && rc == JOIN_MORE && transport_has_record(j->way))
        rc = join_open(j, &wrong);
    if (j->stage != JOIN_ASKING || rc == JOIN_MORE)
        return;
    if (rc == 0) {
        join_answer(j);
        return;
    }
    join_refuse(j, "join.malformed", wrong.text);
    join_close(j);
}

/* The reply has gone: that was all. */
static void join_drained(void *arg) {
    struct join *j = arg;
    if (j->stage == JOIN_TELLING)
        join_close(j);
}

static void join_ended(void *arg, bool closed, int system_error) {
    (void)closed;
    (void)system_error;
    join_close(arg);
}

static const struct transport_calls join_calls = {
    .heard = join_heard, .drained = join_drained, .ended = join_ended};

/* ---- a new one ----------------------------------------------------------------------------- */

/* Of who's kind, and among them its own. */
static void join_places_of(const struct joins *js, const struct joiner *who, unsigned *kind,
                           unsigned *own) {
    *kind = *own = 0;
    list_for_each (node, &js->all) {
        const struct joiner *other = &list_entry(node, struct join, node)->who;
        *kind += join_is_stranger(other) == join_is_stranger(who);
        *own += join_same(other, who);
    }
}

/* NULL: there is room, else why not. */
static const char *join_why_not(struct joins *js, const struct joiner *who) {
    const struct refused *r = join_refused_of(js, who);
    unsigned kind, own;
    join_places_of(js, who, &kind, &own);
    if (r && r->count >= JOIN_REFUSALS)
        return "it was refused too often within a minute, and is not heard until that is over";
    if (kind >= JOIN_PLACES / 2 || (own && own >= (JOIN_PLACES / 2 - kind + own) / 2))
        return "others join at the moment; it may come again in some seconds";
    return NULL;
}

static struct join *join_new(struct joins *js, struct peer *p, const struct joiner *who) {
    struct state *st = js->peers->state;
    struct join *j = calloc(1, sizeof(*j));
    if (!j)
        return NULL;
    timer_init(&j->patience, join_late);
    if (timer_set(&st->timers, &j->patience, clock_after(state_now(st), JOIN_PATIENCE_NS))) {
        free(j);
        return NULL;
    }
    join_server_init(&j->server);
    j->joins = js;
    j->who = *who;
    memcpy(j->address, p->address, sizeof(j->address));
    j->shown = SSL_get1_peer_certificate(tls_ssl(transport_tls(p->way)));
    j->way = p->way;
    p->way = NULL;
    list_append(&js->all, &j->node);
    return j;
}

void join_take(struct peer *p) {
    struct joins *js = p->peers->joins;
    struct joiner who = {.source = p->source};
    memcpy(who.name, p->certificate.name, sizeof(who.name));
    const char *why_not = join_why_not(js, &who);
    struct join *j = why_not ? NULL : join_new(js, p, &who);
    struct error why;
    error_set(&why, j ? RDMAD_OK : RDMAD_E_LIMIT, "%s", why_not ? why_not : "it joins");
    if (why_not)
        AUDIT(REFUSED, "join.limit", audit_peer(p->certificate.name, p->address), audit_nothing(),
              ("whoever joins from %s: %s", p->address, why_not));
    p->audited = true;
    peer_end(p, &why);
    if (!j)
        return;
    transport_begin(j->way, false, &join_calls, j);
    join_heard(j);
}

/* ---- all of them --------------------------------------------------------------------------- */

int joins_new(struct peers *ps, struct error *err) {
    ps->joins = calloc(1, sizeof(*ps->joins));
    if (!ps->joins)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for those that join");
    ps->joins->peers = ps;
    list_init(&ps->joins->all);
    return 0;
}

void joins_free(struct peers *ps) {
    if (!ps->joins)
        return;
    list_for_each_safe (node, &ps->joins->all) {
        struct join *j = list_entry(node, struct join, node);
        join_leave(j);
        join_close(j);
    }
    free(ps->joins);
    ps->joins = NULL;
}
