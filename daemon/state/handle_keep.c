/* SPDX-License-Identifier: MIT */
/*
 * handle_keep.c - the owner is asked, answers or does not, and is asked again.
 */
#include "daemon/state/handle_keep.h"
#include "daemon/base/clock.h"
#include <inttypes.h>

#define KEEP_PAUSE_NS (20 * NSEC_PER_MSEC)

static const struct error ok;

static struct timers *timers_of(struct handle *h) {
    return &h->session->state->timers;
}

void handle_keep_again(struct handle *h) {
    uint64_t now = state_now(h->session->state);
    uint64_t pause = clock_left(now, h->deadline_ns) / 3 * 2;
    if (!h->keep || h->stage != HANDLE_USABLE || h->keeping.done)
        return;
    if (pause < KEEP_PAUSE_NS)
        pause = KEEP_PAUSE_NS;
    timer_set(timers_of(h), &h->keep_again, clock_after(now, pause)); /* without memory it ends */
}

static void ask_owner(struct handle *h) {
    struct error result = {0};
    if (h->remote) {
        h->ops->keep(h);
        return;
    }
    if (lease_keep(h->attachment.lease, &result) == 0)
        result.code = 0;
    handle_kept(h, &result);
}

/* It is time to ask again, or an answer that a client waits for has not come. */
static void keep_again(struct timer *timer, uint64_t now_ns) {
    struct handle *h = container_of(timer, struct handle, keep_again);
    struct error why;
    (void)now_ns;
    if (h->stage != HANDLE_USABLE)
        return;
    if (h->keeping.done) {
        error_set(&why, RDMAD_E_TIMEOUT,
                  "lease %" PRIu64 ": its owner's daemon did not say within %" PRIu64
                  " ms whether it can be kept; try again",
                  h->lease_id, h->session->state->config->attach_timeout_ms);
        h->keep = false;
        handle_kept(h, &why);
    } else if (h->keep) {
        ask_owner(h);
    }
}

void handle_kept(struct handle *h, const struct error *result) {
    struct session_waiter keeping = h->keeping;
    h->keeping.done = NULL;
    if (result->code == RDMAD_E_PERM)
        h->keep = false;
    if (!h->keep)
        timer_unset(timers_of(h), &h->keep_again);
    handle_keep_again(h);
    waiter_answer(&keeping, result);
}

void handle_keep(struct handle *h, bool on, plane_done *done, void *arg) {
    const struct state *st = h->session->state;
    uint64_t timeout_ns = st->config->attach_timeout_ms * NSEC_PER_MSEC;
    struct error err;
    if (on && (h->stage != HANDLE_USABLE || h->keeping.done)) {
        if (h->stage != HANDLE_USABLE)
            error_set(&err, h->reason, "%s", h->text);
        else
            error_set(&err, RDMAD_E_BUSY, "lease %" PRIu64 ": its owner is being asked already",
                      h->lease_id);
        done(arg, &err);
        return;
    }
    h->keep = on;
    if (!on) {
        if (!h->keeping.done) /* else it ends the wait */
            timer_unset(timers_of(h), &h->keep_again);
        done(arg, &ok);
        return;
    }
    h->keeping = (struct session_waiter){done, arg};
    if (h->remote) /* without memory for it the answer is waited for, or the lease's end */
        timer_set(timers_of(h), &h->keep_again, clock_after(state_now(st), timeout_ns));
    ask_owner(h);
}

void handle_keep_once_more(struct handle *h) {
    if (h->keeping.done && h->stage == HANDLE_USABLE)
        ask_owner(h);
}

void handle_keep_init(struct handle *h) {
    timer_init(&h->keep_again, keep_again);
}

void handle_keep_stop(struct handle *h) {
    timer_unset(timers_of(h), &h->keep_again);
}
