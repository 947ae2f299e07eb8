/* SPDX-License-Identifier: MIT */
/*
 * liveness.c - whether the other end is still there, and whether we still need it.
 *
 * While anything above needs a connection, silence of peer.ping_ms is answered with a ping and
 * silence of peer.dead_ms ends it. When nothing does, nothing is sent: two idle daemons are silent.
 * A connection that we opened is closed after peer.idle_ms without use; one that was opened to us
 * is its opener's to close, and the kernel's keepalive finds those whose opener is gone. Before
 * hello the time is short.
 */
#include "daemon/peer/control/liveness.h"
#include "daemon/base/clock.h"
#include "daemon/peer/control/conn.h"
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

/* Its silence counts from then on: before it was used nobody asked it. */
static uint64_t liveness_heard(const struct peer *p) {
    return p->heard_ns > p->used_since_ns ? p->heard_ns : p->used_since_ns;
}

static void liveness_watch(struct peer *p, uint64_t now_ns) {
    const struct config *c = p->peers->state->config;
    uint64_t heard = liveness_heard(p);
    uint64_t silent = clock_left(heard, now_ns);

    p->peers->ops->looked_at(p);
    if (silent >= liveness_ms(c->peer_dead_ms)) {
        struct error why;
        error_set(&why, RDMAD_E_PEER_LOST, "%s at %s has been silent for %" PRIu64 " ms", p->name,
                  p->address, silent / NSEC_PER_MSEC);
        peer_end(p, &why);
        return;
    }
    if (silent >= liveness_ms(c->peer_ping_ms)) {
        struct peer_msg ping = {.type = PEER_MSG_PING, .ping.seq = ++p->pings};
        peer_send(p, &ping);
        p->pinged_ns = now_ns;
        uint64_t dead = clock_after(heard, liveness_ms(c->peer_dead_ms));
        uint64_t again = clock_after(now_ns, liveness_ms(c->peer_ping_ms));
        liveness_set(p, again < dead ? again : dead);
    } else {
        liveness_set(p, clock_after(heard, liveness_ms(c->peer_ping_ms)));
    }
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

/* The silence before it was unused counts on, if nothing came since: or who asks it, gives up and
 * asks again would never find out that it is dead. If it was not even pinged (we stood still), it
 * is at once, and has the rest of the time to answer. */
static void liveness_use(struct peer *p, uint64_t now) {
    uint64_t ping = liveness_ms(p->peers->state->config->peer_ping_ms);
    uint64_t silent =
        p->heard_ns < p->unused_since_ns ? clock_left(liveness_heard(p), p->unused_since_ns) : 0;
    if (p->pinged_ns <= p->heard_ns && silent > ping)
        silent = ping;
    p->used_since_ns = now - silent;
}

void liveness_update(struct peer *p) {
    const struct state *st = p->peers->state;
    bool used = peer_is_needed(p);
    uint64_t now = state_now(st);

    if (p->stage != PEER_UP || p->ending)
        return;
    if (used && !p->used) {
        liveness_use(p, now);
        liveness_set(p, clock_after(p->used_since_ns, liveness_ms(st->config->peer_ping_ms)));
    } else if (!used) {
        bool closes = p->outgoing && st->config->peer_idle_ms;
        liveness_set(p, closes ? clock_after(now, liveness_ms(st->config->peer_idle_ms))
                               : CLOCK_NEVER);
    }
    if (p->used && !used)
        p->unused_since_ns = now;
    p->used = used;
}
