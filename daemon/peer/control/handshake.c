/* SPDX-License-Identifier: MIT */
/*
 * handshake.c - the queue of handshakes, and what becomes of each.
 *
 * While a thread computes, the TLS connection is the job's alone; what comes meanwhile waits in the
 * transport. A peer that ends then leaves the job behind, which frees itself when it is done.
 */
#include "daemon/peer/control/handshake.h"
#include "daemon/base/audit.h"
#include "daemon/base/clock.h"
#include "daemon/base/offload.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/tls.h"
#include "daemon/peer/control/transport.h"
#include "daemon/peer/control/turn.h"
#include "daemon/peer/wire/wire.h"
#include "daemon/state/identity.h"
#include "pki/context.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define HANDSHAKE_OWNER (UINT64_MAX - 7) /* of offload jobs: no uid */
#define HANDSHAKE_BYTES_MAX 65536u       /* that may wait of one; certificates are bounded alike */
#define HANDSHAKE_REST 2u                /* times what the one before has taken */
#define HANDSHAKE_STEPS_FIRST 8u         /* of one that answers, which come before other's first */

struct handshake {
    struct offload_job job;
    struct list node;    /* QUEUED */
    struct peers *peers; /* NULL: they have stopped */
    struct peer *peer;   /* NULL: it has ended */
    struct tls *tls;
    unsigned steps;    /* that were computed: the other end has had something of us */
    bool replied;      /* and has said something to it */
    bool paused;       /* it is not read, for what waits is as much as one may have */
    uint64_t identity; /* the number of that with which it began */
    /* of the job */
    uint8_t in[HANDSHAKE_BYTES_MAX];
    size_t size, used;
    enum tls_step step;
    struct tls_failure failure;
    uint64_t took_ns;
};

static void handshakes_go_on(struct peers *ps);

static void handshake_discard(struct handshake *h) {
    tls_free(h->tls);
    free(h);
}

/* ---- what becomes of it -------------------------------------------------------------------- */

static void handshake_fail(struct peer *p, const struct tls_failure *failure) {
    struct error why;
    error_set(&why, failure->why.code, "%s %s: %.380s",
              p->outgoing ? "the daemon at" : "whoever connects from", p->address,
              failure->why.text);
    AUDIT(REFUSED, failure->cause, audit_peer("", p->address), audit_object("peer", p->id),
          ("no peer: %s", why.text));
    p->audited = true;
    peer_end(p, &why);
}

static void handshake_no_memory(struct peer *p) {
    struct error why;
    error_set(&why, RDMAD_E_NOMEM, "out of memory for a handshake");
    peer_end(p, &why);
}

/* It says something in clear. A daemon without identity is told in its own words. */
static void handshake_in_clear(struct peer *p) {
    struct peer_msg m = {.type = PEER_MSG_BYE, .bye.code = RDMAD_E_PERM};
    struct tls_failure failure = {.cause = "tls.plain"};
    uint8_t frame[PEER_WIRE_MAX];
    if (p->outgoing) {
        error_set(&failure.why, RDMAD_E_PERM,
                  "it does not speak TLS: it has no identity (rdmactl cluster join there), or is "
                  "no rdmad");
    } else {
        error_set(&failure.why, RDMAD_E_PERM,
                  "it speaks in clear: it has no identity (rdmactl cluster join there), or is no "
                  "rdmad");
        snprintf(m.bye.text, sizeof(m.bye.text),
                 "%.64s talks TLS only, and this daemon has no identity: rdmactl cluster join "
                 "gives it one",
                 p->peers->state->node_name);
        (void)transport_write_raw(p->way, frame, peer_wire_encode(&m, frame));
    }
    handshake_fail(p, &failure);
}

/* Whether the other end is somebody with whom we talk, also if another identity was loaded since.
 */
static int handshake_judge(const struct handshake *h, struct pki_peer *who,
                           struct pki_error *wrong) {
    const struct state *st = h->peers->state;
    SSL *ssl = tls_ssl(h->tls);
    int rc = pki_established(ssl, who, wrong);
    if (!rc && h->identity != identity_number(st))
        rc = pki_check(identity_of(st), SSL_get0_peer_certificate(ssl),
                       SSL_get_peer_cert_chain(ssl), wrong);
    return rc;
}

/* The handshake is done. */
static void handshake_open(struct peer *p) {
    struct handshake *h = p->handshake;
    struct tls_failure failure = {.cause = "tls.certificate"};
    struct pki_error wrong;
    struct pki_peer who;
    if (handshake_judge(h, &who, &wrong)) {
        error_set(&failure.why, wrong.code, "%s", wrong.text);
        handshake_fail(p, &failure);
        return;
    }
    memcpy(p->certificate.name, who.name, sizeof(p->certificate.name));
    p->certificate.until = who.not_after;
    p->certificate.good_until = who.until;
    p->joins = who.protocol == PKI_JOIN;
    if (!transport_secure(p->way, h->tls)) {
        handshake_no_memory(p);
        return;
    }
    h->tls = NULL;
    p->handshake = NULL;
    handshake_discard(h);
    p->secured = true;
    p->peers->ops->open(p);
    if (!p->ending)
        turn_heard(p); /* what it has sent behind the handshake */
    if (p->closed_there && !p->ending && list_empty(&p->turn_node))
        peer_end(p, &p->closed_why);
}

static bool handshake_write(struct peer *p) {
    uint8_t bytes[4096];
    size_t n;
    while ((n = tls_output(p->handshake->tls, bytes, sizeof(bytes))))
        if (!transport_write_raw(p->way, bytes, n))
            return false;
    return true;
}

/* Some of what waited was taken: there is room for more. */
static void handshake_read_on(struct peer *p) {
    struct handshake *h = p->handshake;
    if (!h->paused || transport_unread(p->way) >= HANDSHAKE_BYTES_MAX)
        return;
    h->paused = false;
    if (!transport_read_on(p->way))
        handshake_no_memory(p);
}

static void handshake_stepped(struct peer *p) {
    struct handshake *h = p->handshake;
    h->steps++;
    transport_skip(p->way, h->used);
    handshake_read_on(p);
    if (p->ending)
        return;
    if (!handshake_write(p))
        handshake_no_memory(p);
    else if (h->step == TLS_BROKEN)
        handshake_fail(p, &h->failure);
    else if (h->step == TLS_OPEN)
        handshake_open(p);
    else
        handshake_heard(p);
}

/* ---- on its thread ------------------------------------------------------------------------- */

static uint64_t handshake_cpu_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static void handshake_run(struct offload_job *job) {
    struct handshake *h = container_of(job, struct handshake, job);
    uint64_t began = handshake_cpu_ns();
    h->step = tls_shake(h->tls, h->in, h->size, &h->used, &h->failure);
    h->took_ns = handshake_cpu_ns() - began;
}

static void handshake_done(struct offload_job *job) {
    struct handshake *h = container_of(job, struct handshake, job);
    struct peers *ps = h->peers;
    struct peer *p = h->peer;
    uint64_t took_ns = h->took_ns;
    if (ps) {
        ps->shakes = NULL;
        ps->shake_after_ns = clock_after(state_now(ps->state), HANDSHAKE_REST * took_ns);
    }
    if (p && !p->ending)
        handshake_stepped(p);
    else if (!p)
        handshake_discard(h);
    if (ps)
        handshakes_go_on(ps);
}

/* ---- the queue ----------------------------------------------------------------------------- */

static void handshake_post(struct handshake *h) {
    struct peers *ps = h->peers;
    h->size = transport_peek(h->peer->way, h->in, sizeof(h->in));
    h->job.owner = HANDSHAKE_OWNER;
    h->job.reply_to = ps->state->mailbox;
    h->job.run = handshake_run;
    h->job.done = handshake_done;
    ps->shakes = h;
    offload_post(ps->state->offload, &h->job);
}

static void handshakes_go_on(struct peers *ps) {
    struct list *node;
    if (ps->shakes)
        return;
    if (list_empty(&ps->shake_dialled) && list_empty(&ps->shake_answered) &&
        list_empty(&ps->shake_accepted))
        return;
    if (state_now(ps->state) < ps->shake_after_ns &&
        timer_set(&ps->state->timers, &ps->shake_timer, ps->shake_after_ns) == 0)
        return;
    node = list_pop(&ps->shake_dialled);
    if (!node)
        node = list_pop(&ps->shake_answered);
    if (!node)
        node = list_pop(&ps->shake_accepted);
    handshake_post(list_entry(node, struct handshake, node));
}

static void handshakes_rested(struct timer *timer, uint64_t now_ns) {
    (void)now_ns;
    handshakes_go_on(container_of(timer, struct peers, shake_timer));
}

/* Who answers had a place in the queue before. But a handshake that comes in crumbs does not stay
 * in front for ever. */
static struct list *handshake_queue_of(const struct peer *p) {
    struct peers *ps = p->peers;
    const struct handshake *h = p->handshake;
    if (p->outgoing)
        return &ps->shake_dialled;
    return h->steps && h->steps <= HANDSHAKE_STEPS_FIRST ? &ps->shake_answered
                                                         : &ps->shake_accepted;
}

static void handshake_queue(struct peer *p) {
    struct peers *ps = p->peers;
    if (ps->shakes == p->handshake || !list_empty(&p->handshake->node))
        return;
    list_append(handshake_queue_of(p), &p->handshake->node);
    handshakes_go_on(ps);
}

/* ---- from outside -------------------------------------------------------------------------- */

void handshakes_start(struct peers *ps) {
    list_init(&ps->shake_dialled);
    list_init(&ps->shake_answered);
    list_init(&ps->shake_accepted);
    timer_init(&ps->shake_timer, handshakes_rested);
}

void handshakes_stop(struct peers *ps) {
    timer_unset(&ps->state->timers, &ps->shake_timer);
    if (ps->shakes)
        ps->shakes->peers = NULL;
}

void handshake_begin(struct peer *p) {
    struct handshake *h = calloc(1, sizeof(*h));
    if (h)
        h->tls = tls_new(identity_tls(p->peers->state, !p->outgoing), !p->outgoing);
    if (!h || !h->tls) {
        free(h);
        handshake_no_memory(p);
        return;
    }
    list_init(&h->node);
    h->peers = p->peers;
    h->peer = p;
    h->identity = identity_number(p->peers->state);
    p->handshake = h;
    if (p->outgoing)
        handshake_queue(p);
}

void handshake_heard(struct peer *p) {
    struct handshake *h = p->handshake;
    uint8_t head[TLS_RECORD_HEAD];
    size_t waits = transport_unread(p->way), length = 0;
    if (p->ending)
        return;
    if (transport_peek(p->way, head, sizeof(head)) == sizeof(head) &&
        !(length = tls_record_length(head))) {
        handshake_in_clear(p);
    } else if (length && waits >= length) {
        h->replied = h->steps > 0;
        handshake_queue(p);
    } else if (p->closed_there && p->peers->shakes != h) {
        peer_end(p, &p->closed_why);
    }
    if (waits >= HANDSHAKE_BYTES_MAX) {
        transport_read_pause(p->way);
        h->paused = true;
    }
}

bool handshake_has_reply(const struct peer *p) {
    return p->handshake && p->handshake->replied;
}

void handshake_ended(struct peer *p, const struct error *why) {
    p->closed_there = true;
    p->closed_why = *why;
    if (p->handshake->steps)
        handshake_heard(p);
    else
        peer_end(p, why);
}

void handshake_forget(struct peer *p) {
    struct handshake *h = p->handshake;
    if (!h)
        return;
    p->handshake = NULL;
    list_remove(&h->node);
    h->peer = NULL;
    if (p->peers->shakes != h)
        handshake_discard(h);
}
