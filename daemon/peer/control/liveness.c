/* SPDX-License-Identifier: MIT */
/*
 * liveness.c - whether the other end is still there, and whether we still need it.
 *
 * While anything depends on a connection (a claim, a grant, a channel), silence of peer.ping_ms is
 * answered with a ping and silence of peer.dead_ms ends it; as often leases' owners are told of
 * their use. When nothing does, nothing is sent: two
 * idle daemons are silent. A connection that we opened is closed after peer.idle_ms without use;
 * one that was opened to us is its opener's to close, and the kernel's keepalive finds those whose
 * opener is gone. Before hello the time is short.
 */
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/peer/internal.h"
#include <inttypes.h>

static uint64_t ms(uint64_t n) {
    return n * NSEC_PER_MSEC;
}

static void set(struct peer *p, uint64_t at_ns) {
    if (timer_set(&p->peers->state->timers, &p->tick, at_ns)) {
        struct error why;
        error_set(&why, RDMAD_E_NOMEM, "out of memory for a peer's timer");
        peer_doom(p, &why);
    }
}

static void not_greeted(struct peer *p) {
    struct error why;
    if (p->outgoing) {
        dial_timed_out(p);
        return;
    }
    if (p->greeted)
        error_set(&why, RDMAD_E_TIMEOUT,
                  "what is left of the former connection of %s at %s does not end", p->name,
                  p->address);
    else
        error_set(&why, RDMAD_E_TIMEOUT, "it connected from %s and did not say hello", p->address);
    peer_doom(p, &why);
}

static void watch(struct peer *p, uint64_t now_ns) {
    const struct config *c = p->peers->state->config;
    uint64_t heard = p->heard_ns > p->used_since_ns ? p->heard_ns : p->used_since_ns;
    uint64_t silent = clock_left(heard, now_ns);

    claims_say_use(p);
    if (silent >= ms(c->peer_dead_ms)) {
        struct error why;
        error_set(&why, RDMAD_E_PEER_LOST, "%s at %s has been silent for %" PRIu64 " ms", p->name,
                  p->address, silent / NSEC_PER_MSEC);
        peer_doom(p, &why);
        return;
    }
    if (silent >= ms(c->peer_ping_ms)) {
        struct peer_msg ping = {.type = PEER_MSG_PING, .ping.seq = ++p->pings};
        peer_send(p, &ping);
        uint64_t dead = clock_after(heard, ms(c->peer_dead_ms));
        uint64_t again = clock_after(now_ns, ms(c->peer_ping_ms));
        set(p, again < dead ? again : dead);
    } else {
        set(p, clock_after(heard, ms(c->peer_ping_ms)));
    }
}

static void tick(struct timer *timer, uint64_t now_ns) {
    struct peer *p = container_of(timer, struct peer, tick);
    if (p->doomed)
        return;
    if (p->stage != PEER_UP)
        not_greeted(p);
    else if (p->used)
        watch(p, now_ns);
    else if (p->outgoing)
        peer_refuse(p, RDMAD_OK, "not in use");
}

void liveness_start(struct peer *p) {
    const struct state *st = p->peers->state;
    timer_init(&p->tick, tick);
    set(p,
        clock_after(p->since_ns, p->outgoing ? ms(st->config->attach_timeout_ms) : PEER_HELLO_NS));
}

void liveness_wait(struct peer *p) {
    const struct state *st = p->peers->state;
    set(p, clock_after(state_now(st), ms(st->config->peer_dead_ms)));
}

void liveness_stop(struct peer *p) {
    timer_unset(&p->peers->state->timers, &p->tick);
}

void liveness_update(struct peer *p) {
    const struct state *st = p->peers->state;
    bool used = p->claims.used || p->grants.used || p->asks.used || p->nseen || p->chans;
    uint64_t now = state_now(st);

    if (p->stage != PEER_UP || p->doomed)
        return;
    if (used && !p->used) {
        p->used_since_ns = now;
        set(p, clock_after(now, ms(st->config->peer_ping_ms)));
    } else if (!used) {
        bool closes = p->outgoing && st->config->peer_idle_ms;
        set(p, closes ? clock_after(now, ms(st->config->peer_idle_ms)) : CLOCK_NEVER);
    }
    p->used = used;
}
