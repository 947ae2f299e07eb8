/* SPDX-License-Identifier: MIT */
/*
 * attach_again.c - whether it is worth it, and a timer.
 */
#include "daemon/serve/attach_again.h"
#include "daemon/base/clock.h"
#include "daemon/peer/peer.h"
#include "daemon/serve/pace.h"
#include "daemon/state/origin.h"
#include <inttypes.h>

#define AGAIN_NS (20 * NSEC_PER_MSEC)
#define AGAIN_MOST_NS (250 * NSEC_PER_MSEC)

static void again_stop_waiting(struct attach_again *a) {
    timer_unset(&a->session->state->timers, &a->timer);
    list_remove(&a->waiting.node);
    quota_discharge(&a->charge);
}

static void again_is_due(struct timer *timer, uint64_t now_ns) {
    struct attach_again *a = container_of(timer, struct attach_again, timer);
    (void)now_ns;
    again_stop_waiting(a);
    a->due(a, NULL);
}

static void again_given_up(struct session_call *waiting, const struct error *why) {
    struct attach_again *a = container_of(waiting, struct attach_again, waiting);
    again_stop_waiting(a);
    a->due(a, why);
}

static bool again_may_mend(const struct attach_again *a, const struct error *why) {
    bool leaves = why->code == RDMAD_E_SHUTDOWN || why->code == RDMAD_E_PEER_LOST;
    return leaves ||
           (a->patient && (why->code == RDMAD_E_UNREACHABLE || why->code == RDMAD_E_NO_LEASE));
}

static bool again_is_allowed(const struct attach_again *a) {
    const struct session *s = a->session;
    if (!a->until_ns || !origin_is_set(s) || s->closing || s->state->stopping)
        return false;
    return s->state->config->peer_return_ms &&
           clock_after(state_now(s->state), AGAIN_NS) < a->until_ns;
}

/* The pause, up to half as much again, so that not all come at one moment, and what the user's rate
 * makes of it. */
static uint64_t again_at_ns(struct attach_again *a) {
    uint64_t now_ns = state_now(a->session->state), ahead_ns = pace_count(a->session);
    a->pause_ns = a->pause_ns ? 2 * a->pause_ns : AGAIN_NS;
    if (a->pause_ns > AGAIN_MOST_NS)
        a->pause_ns = AGAIN_MOST_NS;
    return clock_after(now_ns, ahead_ns + a->pause_ns + now_ns % (a->pause_ns / 2));
}

/* No longer than leases would wait for that daemon. */
static void again_begin(struct attach_again *a) {
    const struct state *st = a->session->state;
    uint64_t most_ns = clock_after(state_now(st), st->config->peer_return_ms * NSEC_PER_MSEC);
    a->patient = true;
    if (a->until_ns > most_ns)
        a->until_ns = most_ns;
}

bool attach_waits(struct attach_again *a, const struct error *why) {
    struct error none;
    if (!again_is_allowed(a))
        return false;
    struct session *s = a->session;
    struct state *st = s->state;
    bool waited = a->patient;
    a->patient = waited || peers_await(st->peers, &a->uri);
    if (!again_may_mend(a, why))
        return false;
    if (!waited)
        again_begin(a);
    uint64_t at_ns = again_at_ns(a);
    if (at_ns >= a->until_ns || quota_charge(&st->quota, &s->account, s->uid_account,
                                             QUOTA_QUESTIONS, 1, &a->charge, &none))
        return false;
    a->waiting.give_up = again_given_up;
    timer_init(&a->timer, again_is_due);
    if (timer_set(&st->timers, &a->timer, at_ns)) {
        quota_discharge(&a->charge);
        return false;
    }
    list_append(&s->calls, &a->waiting.node);
    return true;
}

/* ---- handles of an earlier life -------------------------------------------------------------- */

/* The owner's daemon is not there, or its sessions are not. */
static bool again_is_owner_away(int code) {
    return code == RDMAD_E_NO_LEASE || code == RDMAD_E_UNREACHABLE || code == RDMAD_E_PEER_LOST ||
           code == RDMAD_E_TIMEOUT || code == RDMAD_E_SHUTDOWN;
}

void attach_is_early(const struct attach_again *a, struct error *why) {
    if (!a->resumed || !again_is_owner_away(why->code))
        return;
    const struct state *st = a->session->state;
    uint64_t until_ns = clock_after(st->started_ns, st->config->peer_return_ms * NSEC_PER_MSEC);
    uint64_t left_ns = clock_left(state_now(st), until_ns);
    struct error early;
    if (!left_ns)
        return;
    error_set(&early, RDMAD_E_BUSY,
              "this rdmad was started %" PRIu64 " ms ago, and the lease's owner is waited for as "
              "long as %" PRIu64 " ms after that (peer.return_ms); until now: %.150s",
              clock_left(st->started_ns, state_now(st)) / NSEC_PER_MSEC, st->config->peer_return_ms,
              why->text);
    *why = early;
}
