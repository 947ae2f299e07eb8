/* SPDX-License-Identifier: MIT */
/*
 * stop.c - draining, then closing, each looked at by a short tick until it is over or its bound is
 * reached. Polling is enough here: nothing else waits on how fast a daemon ends, and every object
 * that ends would otherwise have to know of it.
 */
#include "daemon/stop.h"
#include "daemon/base/log.h"
#include "daemon/peer/peer.h"
#include "daemon/state/session_end.h"
#include <assert.h>

/* How often the stages look whether they are over. Only a stopping daemon has such a tick. */
#define LOOK_NS (2 * NSEC_PER_MSEC)

static void stop_look_again(struct stop *s, uint64_t now_ns) {
    timer_set(&s->state->timers, &s->look, now_ns + LOOK_NS);
}

static void peers_are_gone(void *arg, const struct error *result) {
    struct stop *s = arg;
    (void)result;
    s->peers_stopped = true;
}

static void stop_close(struct stop *s, uint64_t now_ns) {
    struct error why;
    uint64_t bound_ms = s->state->config->drain_timeout_ms;
    error_set(&why, RDMAD_E_SHUTDOWN, "rdmad is stopping; open a new session when it is back");
    assert(s->stage == STOP_DRAINING);
    s->stage = STOP_CLOSING;
    s->bound_ns = now_ns + (bound_ms > STOP_FORCE_MS ? bound_ms : STOP_FORCE_MS) * NSEC_PER_MSEC;
    list_for_each_safe (node, &s->state->sessions) {
        session_close(list_entry(node, struct session, node), &why);
    }
    peers_stop(s->state->peers, peers_are_gone, s);
}

static bool stop_drained(struct stop *s) {
    struct plane_counters now;
    plane_count(s->state->plane, &now);
    return now.ops_inflight == 0;
}

static void stop_end(struct stop *s, bool clean) {
    assert(s->stage == STOP_CLOSING);
    s->stage = STOP_OVER;
    s->done(s->arg, clean);
}

static void stop_look(struct timer *timer, uint64_t now_ns) {
    struct stop *s = container_of(timer, struct stop, look);
    if (s->stage == STOP_DRAINING && (now_ns >= s->bound_ns || stop_drained(s)))
        stop_close(s, now_ns);
    if (s->stage == STOP_CLOSING) {
        if (s->peers_stopped && list_empty(&s->state->sessions))
            return stop_end(s, true);
        if (now_ns >= s->bound_ns) {
            LOG(ERR, ("stopping took too long: %s",
                      s->peers_stopped ? "sessions are left" : "peers are left"));
            return stop_end(s, false);
        }
    }
    stop_look_again(s, now_ns);
}

void stop_begin(struct stop *s, struct state *st, void (*done)(void *arg, bool clean), void *arg) {
    uint64_t now_ns = state_now(st);
    assert(s->stage == STOP_NOT && !st->stopping);
    st->stopping = true;
    *s = (struct stop){.state = st, .stage = STOP_DRAINING, .done = done, .arg = arg};
    s->bound_ns = now_ns + st->config->drain_timeout_ms * NSEC_PER_MSEC;
    timer_init(&s->look, stop_look);
    timer_set(&st->timers, &s->look, now_ns);
}
