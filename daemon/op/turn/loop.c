/* SPDX-License-Identifier: MIT */
/*
 * loop.c - the thread around the turns: spin while it pays, then sleep without a tick.
 *
 * Sleeping: every hot ring is parked (wait word set, looked at once more), the fabrics are armed,
 * the mailbox is looked at; if any of them has work the sleep is off, else epoll_wait without a
 * timeout. The rings' eventfds were registered once, edge-triggered (watch.c), so going to sleep
 * costs no system call but that one, and a thousand parked rings cost nothing. The timerfd
 * (CLOCK_BOOTTIME) is moved only to earlier times: an early expiry is one harmless turn.
 *
 * A busy worker looks at epoll now and then too, for the sake of a parked fabric and of parked
 * rings (of which it peeks at a few a turn, rings.c, but with a thousand of them that takes long
 * turns too long): after 50 us at first, and up to 1 ms later each time it finds nothing. On the
 * same occasion links' fabrics that have been quiet for longer than a spin are parked; rings are
 * when a turn looks at them (admit.c).
 */
#include "daemon/op/turn/loop.h"
#include "daemon/base/log.h"
#include "daemon/base/slice.h"
#include "daemon/base/thread.h"
#include "daemon/op/channel/channel.h"
#include "daemon/op/channel/entry.h"
#include "daemon/op/channel/turn.h"
#include "daemon/op/engine/doorbells.h"
#include "daemon/op/engine/rings.h"
#include "daemon/op/engine/tally.h"
#include "daemon/op/engine/trace.h"
#include "daemon/op/turn/turn.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#define EVENTS 64
#define LOOK_MIN_NS 50000u
#define LOOK_MAX_NS NSEC_PER_MSEC

/* The fabric that an event is of, or NULL. */
static struct op_fabric *fabric_of_event(struct worker *w, const void *what) {
    for (unsigned i = 0; i < w->nlinks; i++)
        if (what == &w->links[i])
            return &w->links[i];
    return NULL;
}

/* Takes events; a timeout of 0 only looks. What is woken is served by the next turn; returns how
 * many that were. */
static unsigned take_events(struct worker *w, int timeout_ms) {
    struct epoll_event ev[EVENTS];
    int n = epoll_wait(w->epoll_fd, ev, EVENTS, timeout_ms);
    unsigned woken = 0;
    w->now_ns = clock_now_ns();
    for (int i = 0; i < n; i++) {
        void *what = ev[i].data.ptr;
        struct op_fabric *fabric = fabric_of_event(w, what);
        if (what == &w->timer_fd) {
            w->timer_ns = CLOCK_NEVER;
        } else if (fabric) {
            woken += fabric->parked;
            if (fabric->parked)
                op_fabric_wake(fabric, w->now_ns);
        } else if (what != &w->mailbox) { /* which every turn looks into anyway */
            woken += doorbells_heard(w, what);
        }
    }
    return woken;
}

/* ---- busy -------------------------------------------------------------------------------- */

static void park_quiet(struct worker *w, uint64_t quiet_ns) {
    w->quiet_ns = quiet_ns ? quiet_ns : 1;
    for (unsigned i = 0; i < w->nlinks; i++) {
        struct op_fabric *fabric = &w->links[i];
        if (!fabric->parked && w->now_ns - fabric->active_ns > quiet_ns)
            op_fabric_park(fabric);
    }
}

static void count_lanes(struct worker *w) {
    uint64_t lanes = 0, encrypted = 0;
    for (unsigned i = 0; i < w->nlinks; i++) {
        const struct op_fabric *fabric = &w->links[i];
        if (fabric->ops->accepted)
            lanes += fabric->ops->accepted(fabric->instance);
        if (fabric->ops->encrypted)
            encrypted += fabric->ops->encrypted(fabric->instance);
    }
    __atomic_store_n(&w->counters.lanes_in, lanes, __ATOMIC_RELAXED);
    __atomic_store_n(&w->counters.lanes_in_encrypted, encrypted, __ATOMIC_RELAXED);
}

static unsigned links_parked(const struct worker *w) {
    unsigned parked = 0;
    for (unsigned i = 0; i < w->nlinks; i++)
        parked += w->links[i].parked;
    return parked;
}

static void loop_look(struct worker *w, uint64_t quiet_ns) {
    if (links_parked(w) || !list_empty(&w->parked)) {
        bool found = take_events(w, 0) > 0;
        w->look_every_ns = found ? LOOK_MIN_NS : 2 * w->look_every_ns;
        if (w->look_every_ns > LOOK_MAX_NS)
            w->look_every_ns = LOOK_MAX_NS;
    }
    park_quiet(w, quiet_ns);
    count_lanes(w);
    spin_busy(&w->spin, w->now_ns);
    w->look_ns = w->now_ns + w->look_every_ns;
}

/* Spinning can only find what is looked at in memory. */
static bool worth_spinning(const struct worker *w) {
    return !list_empty(&w->hot) || links_parked(w) < w->nlinks;
}

/* ---- asleep ------------------------------------------------------------------------------ */

static bool ready_to_sleep(struct worker *w) {
    if (channels_hurry(w) || !list_empty(&w->fences))
        return false;
    if (!rings_park_all(w))
        return false;
    bool ready = op_fabric_park(&w->local);
    for (unsigned i = 0; ready && i < w->nlinks; i++)
        ready = op_fabric_park(&w->links[i]);
    return ready && !mailbox_pending(&w->mailbox);
}

static void set_timer(struct worker *w, uint64_t at_ns) {
    if (at_ns >= w->timer_ns)
        return;
    if (at_ns == 0) /* which would unset it */
        at_ns = 1;
    struct itimerspec spec = {.it_value = {.tv_sec = (time_t)(at_ns / NSEC_PER_SEC),
                                           .tv_nsec = (long)(at_ns % NSEC_PER_SEC)}};
    timerfd_settime(w->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
    w->timer_ns = at_ns;
}

static void sleep_until_woken(struct worker *w, uint64_t spin_max_ns) {
    if (!ready_to_sleep(w))
        return;
    if (w->latency.count)
        tally_settle(w, clock_now_ns());
    if (trace_is_on(w))
        trace_settle(w, clock_now_ns());
    set_timer(w, worker_next_ns(w));
    count_lanes(w);
    counter_add(&w->counters.sleeps, 1);
    uint64_t before_ns = w->now_ns;
    take_events(w, -1);
    spin_woke(&w->spin, w->now_ns - before_ns, spin_max_ns);
    w->look_every_ns = LOOK_MIN_NS;
    w->look_ns = w->now_ns + LOOK_MIN_NS;
}

/* ---- the thread -------------------------------------------------------------------------- */

/* A worker that sleeps between ops would wait for milliseconds beside one that never does. */
static void ask_for_short_slices(void) {
    if (slice_shorten() == SLICE_REFUSED)
        LOG(WARNING,
            ("a worker may not have short slices (sched_setattr: %s): beside programs that "
             "never sleep an op may wait for milliseconds until its worker runs",
             strerror(errno)));
}

static void *loop_run(void *arg) {
    struct worker *w = arg;
    ask_for_short_slices();
    while (!w->stopping) {
        w->now_ticks = clock_ticks(); /* first: a stop between the two must show */
        uint64_t now_ns = clock_now_ns();
        uint64_t min_ns = __atomic_load_n(&w->spin_min_ns, __ATOMIC_RELAXED);
        uint64_t max_ns = __atomic_load_n(&w->spin_max_ns, __ATOMIC_RELAXED);
        if (worker_turn(w, now_ns)) {
            spin_hit(&w->spin, now_ns, max_ns);
        } else if (!worth_spinning(w) || !spin_more(&w->spin, now_ns, min_ns, max_ns)) {
            sleep_until_woken(w, max_ns);
            continue;
        }
        if (now_ns >= w->look_ns)
            loop_look(w, max_ns);
    }
    return NULL;
}

int loop_start(struct worker *w, struct error *err) {
    assert(!w->started && w->epoll_fd >= 0);
    spin_init(&w->spin, w->settings->spin_max_ns);
    w->spin_min_ns = w->settings->spin_min_ns;
    w->spin_max_ns = w->settings->spin_max_ns;
    w->look_every_ns = LOOK_MIN_NS;
    char name[16];
    snprintf(name, sizeof(name), "rdmad-worker-%u", w->index % 100);
    int rc = thread_start(&w->thread, name, loop_run, w, NULL, err);
    w->started = rc == 0;
    return rc;
}

static void deliver_stop(struct mail *mail) {
    container_of(mail, struct worker, stop_mail)->stopping = true;
}

void loop_stop(struct worker *w) {
    if (!w->started)
        return;
    mailbox_post(&w->mailbox, &w->stop_mail, deliver_stop);
    pthread_join(w->thread, NULL);
    w->started = false;
}
