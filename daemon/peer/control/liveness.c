/* SPDX-License-Identifier: MIT */
/*
 * liveness.c - whether the other end is still there, and whether we still need it.
 *
 * While anything above needs a connection, silence of peer.ping_ms is answered with a ping and
 * silence of peer.dead_ms ends it. The kernel, which would end it sooner, is told with the ping.
 * When nothing needs it, nothing is sent: two idle daemons are silent. So silence counts from when
 * it is needed; but not anew while a ping is unanswered, or who asks a dead peer, gives up, and
 * asks again would never find out that it is dead. A connection that we opened is closed after
 * peer.idle_ms without use; one that was opened to us is its opener's to close, and the kernel's
 * keepalive finds those whose opener is gone. Before hello the time is short.
 */
#include "daemon/peer/control/liveness.h"
#include "daemon/base/clock.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/transport.h"
#include <assert.h>
#include <inttypes.h>

static uint64_t liveness_ms(uint64_t n) {
    return n * NSEC_PER_MSEC;
}

static void liveness_set(struct peer *p, uint64_t at_ns) {
    if (timer_set(&p->peers->state->timers, &p->tick, at_ns)) {
        struct error why;
        error_set(&why, RDMAD_E_NOMEM, "out of memory for a peer's timer");
        peer_end(p, &why);
    }
}

static uint64_t liveness_later(uint64_t a_ns, uint64_t b_ns) {
    return a_ns > b_ns ? a_ns : b_ns;
}

static void liveness_ping(struct peer *p, uint64_t now_ns) {
    struct peer_msg ping = {.type = PEER_MSG_PING, .ping.seq = ++p->pings};
    if (p->way)
        transport_bear_silence(p->way, p->peers->state->config->peer_dead_ms);
    p->pinged_ns = now_ns;
    peer_send(p, &ping);
}

/* When it is to be pinged next. */
static uint64_t liveness_ping_at(const struct peer *p) {
    return clock_after(liveness_later(p->heard_ns, p->pinged_ns),
                       liveness_ms(p->peers->state->config->peer_ping_ms));
}

static void liveness_watch(struct peer *p, uint64_t now_ns) {
    uint64_t since = liveness_later(p->heard_ns, p->used_since_ns);
    uint64_t dead_at = clock_after(since, liveness_ms(p->peers->state->config->peer_dead_ms));

    p->peers->ops->looked_at(p);
    if (now_ns >= dead_at) {
        struct error why;
        error_set(&why, RDMAD_E_PEER_LOST, "%s at %s has been silent for %" PRIu64 " ms", p->name,
                  p->address, clock_left(since, now_ns) / NSEC_PER_MSEC);
        peer_end(p, &why);
        return;
    }
    if (now_ns >= liveness_ping_at(p))
        liveness_ping(p, now_ns);
    liveness_set(p, liveness_ping_at(p) < dead_at ? liveness_ping_at(p) : dead_at);
}

static void liveness_tick(struct timer *timer, uint64_t now_ns) {
    struct peer *p = container_of(timer, struct peer, tick);
    if (p->ending)
        return;
    if (p->stage != PEER_UP)
        p->peers->ops->late(p);
    else if (p->used)
        liveness_watch(p, now_ns);
    else if (p->outgoing)
        peer_refuse(p, RDMAD_OK, "nobody uses it");
}

void liveness_start(struct peer *p) {
    const struct state *st = p->peers->state;
    timer_init(&p->tick, liveness_tick);
    liveness_set(p,
                 clock_after(p->since_ns, p->outgoing ? liveness_ms(st->config->attach_timeout_ms)
                                                      : PEER_HELLO_NS));
}

void liveness_wait(struct peer *p) {
    const struct state *st = p->peers->state;
    liveness_set(p, clock_after(state_now(st), liveness_ms(st->config->peer_dead_ms)));
}

void liveness_stop(struct peer *p) {
    timer_unset(&p->peers->state->timers, &p->tick);
}

void liveness_update(struct peer *p) {
    const struct state *st = p->peers->state;
    bool used = peer_is_needed(p);
    uint64_t now = state_now(st);

    if (p->stage != PEER_UP || p->ending)
        return;
    if (used && !p->used) {
        if (p->pinged_ns <= p->heard_ns)
            p->used_since_ns = now;
        liveness_set(p, liveness_ping_at(p));
    } else if (!used) {
        bool closes = p->outgoing && st->config->peer_idle_ms;
        liveness_set(p, closes ? clock_after(now, liveness_ms(st->config->peer_idle_ms))
                               : CLOCK_NEVER);
    }
    p->used = used;
}
