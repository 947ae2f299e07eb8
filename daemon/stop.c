/* SPDX-License-Identifier: MIT */
/*
 * stop.c - draining, parting, closing, each looked at by a short tick until it is over or its bound
 * is reached. Polling is enough here: every object that ends would otherwise have to know of it.
 *
 * Draining has steps: all sessions are paused (PAUSE_ALL), and their workers have said so; then
 * nothing is in flight; then all are paused once more (PAUSE_AGAIN): a worker that answers has
 * published all completions of the turns before. If a ring stands in the midst of a batch, its
 * session is let go on for a moment (PAUSE_OPEN), for a batch cannot be divided among two daemons.
 */
#include "daemon/stop.h"
#include "daemon/base/log.h"
#include "daemon/ipc/porter.h"
#include "daemon/peer/peer.h"
#include "daemon/state/drain.h"
#include "daemon/state/origin.h"
#include "daemon/state/pause.h"
#include "daemon/state/ring_object.h"
#include "daemon/state/session_end.h"
#include <assert.h>

/* How often the stages look whether they are over. Only a stopping daemon has such a tick. */
#define LOOK_NS (1 * NSEC_PER_MSEC)
/* A client that does not submit the end of a batch keeps the others waiting for so many looks. */
#define STEPS_MAX 16u

static void stop_look_again(struct stop *s, uint64_t now_ns) {
    timer_set(&s->state->timers, &s->look, now_ns + LOOK_NS);
}

static void peers_are_gone(void *arg, const struct error *result) {
    struct stop *s = arg;
    (void)result;
    s->peers_stopped = true;
}

/* ---- draining ------------------------------------------------------------------------------ */

static void pause_answered(void *arg, const struct error *result) {
    struct stop *s = arg;
    (void)result;
    assert(s->asked > 0);
    s->asked--;
}

/* All of them, or to let go on those with a batch that is taken in part. */
static void stop_pause(struct stop *s, int pause) {
    assert(s->asked == 0);
    s->pause = pause;
    list_for_each (node, &s->state->sessions) {
        const struct session *one = list_entry(node, struct session, node);
        if (!one->plane ||
            (pause == PAUSE_OPEN && (!ring_objects_in_batch(one) || session_paused(one))))
            continue;
        s->asked++;
        plane_session_pause(one->plane, pause != PAUSE_OPEN, pause_answered, s);
    }
}

static bool has_channels(const struct session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    return slots_next(&s->channels, &cursor, &handle) != NULL;
}

/* Nothing is in flight, or only what may be waiting for something that is not taken any more. */
static bool stop_drained(struct stop *s, uint64_t now_ns) {
    uint64_t others = 0, of_senders = 0;
    list_for_each (node, &s->state->sessions) {
        const struct session *one = list_entry(node, struct session, node);
        if (!one->plane)
            continue;
        *(drain_may_stand(one) ? &of_senders : &others) += drain_ops(one);
    }
    if (of_senders != s->of_senders)
        s->still_ns = now_ns;
    s->of_senders = of_senders;
    return !others && (!of_senders || now_ns - s->still_ns >= STOP_STILL_MS * NSEC_PER_MSEC);
}

static bool stop_in_batch(const struct stop *s) {
    list_for_each (node, &s->state->sessions) {
        const struct session *one = list_entry(node, struct session, node);
        if (one->plane && ring_objects_in_batch(one))
            return true;
    }
    return false;
}

/* Does the next step, if the last is over; whether draining is. */
static bool stop_drain(struct stop *s, uint64_t now_ns) {
    if (s->asked)
        return false;
    if (s->pause == PAUSE_OPEN) {
        stop_pause(s, PAUSE_ALL);
    } else if (!stop_drained(s, now_ns)) {
        return false;
    } else if (stop_in_batch(s) && s->steps < STEPS_MAX) {
        s->steps++;
        stop_pause(s, PAUSE_OPEN);
    } else if (s->pause == PAUSE_ALL) {
        stop_pause(s, PAUSE_AGAIN);
    } else {
        return true;
    }
    return false;
}

/* ---- parting ------------------------------------------------------------------------------- */

static bool stop_is_paused(const struct stop *s) {
    return !s->asked && s->pause != PAUSE_OPEN;
}

static void stop_close_session(const struct stop *s, struct session *one) {
    struct error why;
    error_set(&why, RDMAD_E_SHUTDOWN, "rdmad is stopping; open a new session when it is back");
    if (stop_is_paused(s) && one->plane)
        ring_objects_leave(one, plane_session_has_left(one->plane));
    session_close(one, &why);
}

/* Those that end with us, first: so their lessees are told what it is that ends. */
static void stop_part(struct stop *s, uint64_t now_ns) {
    assert(s->stage == STOP_DRAINING);
    s->stage = STOP_PARTING;
    s->part_ns = now_ns;
    porter_forget_closes(s->state->porter); /* sessions that have ended do not stay for them */
    list_for_each_safe (node, &s->state->sessions) {
        struct session *one = list_entry(node, struct session, node);
        if (!origin_is_set(one))
            stop_close_session(s, one);
    }
}

static bool stop_all_go_on(const struct stop *s) {
    list_for_each (node, &s->state->sessions) {
        if (!origin_is_set(list_entry(node, struct session, node)))
            return false;
    }
    return true;
}

static void has_parted(void *arg, const struct error *result) {
    struct stop *s = arg;
    (void)result;
    s->parting--;
}

static void has_left(void *arg, const struct error *result) {
    struct stop *s = arg;
    (void)result;
    s->leaving--;
}

static void stop_part_channels(struct stop *s, uint64_t now_ns) {
    s->part = PART_CHANNELS;
    s->channels_ns = now_ns;
    list_for_each (node, &s->state->sessions) {
        const struct session *one = list_entry(node, struct session, node);
        if (!one->plane || !has_channels(one))
            continue;
        s->parting++;
        plane_session_part(one->plane, has_parted, s);
    }
}

/* Their workers know then what is the next daemon's, and publish the other completions. */
static void stop_leave_sessions(struct stop *s) {
    s->part = PART_LEAVING;
    list_for_each (node, &s->state->sessions) {
        const struct session *one = list_entry(node, struct session, node);
        if (!one->plane)
            continue;
        s->leaving++;
        plane_session_leave(one->plane, has_left, s);
    }
}

static void stop_tell_peers(struct stop *s) {
    s->part = PART_TOLD;
    peers_leave(s->state->peers);
}

/* What is to be done next may be done now. */
static void stop_step_part(struct stop *s, uint64_t now_ns) {
    bool paused = stop_is_paused(s);
    uint64_t told_ns = s->part_ns + STOP_TOLD_MS * NSEC_PER_MSEC;
    if (s->part == PART_CLOSING && (stop_all_go_on(s) || now_ns >= told_ns)) {
        if (paused)
            stop_part_channels(s, now_ns);
        else /* draining was cut off in the midst of its steps */
            stop_tell_peers(s);
    }
    if (s->part == PART_CHANNELS &&
        (!s->parting || now_ns - s->channels_ns >= STOP_CHANNELS_MS * NSEC_PER_MSEC))
        stop_leave_sessions(s);
    if (s->part == PART_LEAVING && !s->leaving) {
        s->part = PART_FLUSHING;
        stop_pause(s, PAUSE_AGAIN);
    }
    if (s->part == PART_FLUSHING && !s->asked)
        stop_tell_peers(s);
}

/* Whether lessees elsewhere have left, or had their time. */
static bool stop_is_left(struct stop *s, uint64_t now_ns) {
    stop_step_part(s, now_ns);
    return (s->part == PART_TOLD && peers_have_left(s->state->peers)) ||
           now_ns - s->part_ns >= STOP_PART_MS * NSEC_PER_MSEC;
}

/* ---- closing ------------------------------------------------------------------------------- */

static void stop_close(struct stop *s, uint64_t now_ns) {
    uint64_t bound_ms = s->state->config->drain_timeout_ms;
    assert(s->stage == STOP_PARTING);
    s->stage = STOP_CLOSING;
    s->bound_ns = now_ns + (bound_ms > STOP_FORCE_MS ? bound_ms : STOP_FORCE_MS) * NSEC_PER_MSEC;
    list_for_each_safe (node, &s->state->sessions) {
        stop_close_session(s, list_entry(node, struct session, node));
    }
    peers_stop(s->state->peers, peers_are_gone, s);
}

static void stop_end(struct stop *s, bool clean) {
    assert(s->stage == STOP_CLOSING);
    s->stage = STOP_OVER;
    s->done(s->arg, clean);
}

static void stop_look(struct timer *timer, uint64_t now_ns) {
    struct stop *s = container_of(timer, struct stop, look);
    if (s->stage == STOP_DRAINING && (now_ns >= s->bound_ns || stop_drain(s, now_ns)))
        stop_part(s, now_ns);
    if (s->stage == STOP_PARTING && stop_is_left(s, now_ns))
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
    s->began_ns = s->still_ns = now_ns;
    s->bound_ns = now_ns + st->config->drain_timeout_ms * NSEC_PER_MSEC;
    stop_pause(s, PAUSE_ALL);
    timer_init(&s->look, stop_look);
    timer_set(&st->timers, &s->look, now_ns);
}
