/* SPDX-License-Identifier: MIT */
/*
 * wakeups.c - mail from other threads, and the earliest timer.
 *
 * libevent's own timers count CLOCK_MONOTONIC, which stops in suspend while leases go on; so one
 * CLOCK_BOOTTIME timerfd stands for the whole heap, set to its earliest time and to no other.
 */
#include "daemon/wakeups.h"
#include "daemon/base/clock.h"
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct wakeups {
    struct mailbox *box;
    struct timers *timers;
    int timer_fd;
    struct event *mail, *tick;
};

static void arm(void *user) {
    struct wakeups *w = user;
    uint64_t at = timers_next(w->timers);
    struct itimerspec when = {0};
    if (at != CLOCK_NEVER) {
        /* 0 would disarm; a time that is past fires at once. */
        at = at ? at : 1;
        when.it_value.tv_sec = (time_t)(at / NSEC_PER_SEC);
        when.it_value.tv_nsec = (long)(at % NSEC_PER_SEC);
    }
    timerfd_settime(w->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_tick(evutil_socket_t fd, short what, void *user) {
    struct wakeups *w = user;
    (void)what;
    uint64_t times;
    ssize_t got = read(fd, &times, sizeof(times));
    (void)got; /* only re-arms the descriptor: a spurious turn finds nothing due */
    timers_run(w->timers, clock_now_ns());
    arm(w);
}

static void on_mail(evutil_socket_t fd, short what, void *user) {
    struct wakeups *w = user;
    (void)fd;
    (void)what;
    mailbox_drain(w->box);
}

int wakeups_new(struct event_base *base, struct mailbox *box, struct timers *timers,
                struct wakeups **out, struct error *err) {
    struct wakeups *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(err, RDMAD_E_NOMEM, "no memory for the timers");
    if (mailbox_init(box)) {
        free(w);
        return error_errno(err, RDMAD_E_SYSTEM, "cannot make the control thread's mailbox");
    }
    w->box = box;
    w->timers = timers;
    timers_init(timers, arm, w);
    w->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (w->timer_fd >= 0) {
        w->mail = event_new(base, box->fd, EV_READ | EV_PERSIST, on_mail, w);
        w->tick = event_new(base, w->timer_fd, EV_READ | EV_PERSIST, on_tick, w);
    }
    if (!w->mail || !w->tick || event_add(w->mail, NULL) || event_add(w->tick, NULL)) {
        int rc = error_errno(err, RDMAD_E_SYSTEM, "cannot make the control thread's timer");
        wakeups_free(w);
        return rc;
    }
    *out = w;
    return RDMAD_OK;
}

void wakeups_free(struct wakeups *w) {
    if (!w)
        return;
    if (w->mail)
        event_free(w->mail);
    if (w->tick)
        event_free(w->tick);
    if (w->timer_fd >= 0)
        close(w->timer_fd);
    timers_fini(w->timers);
    mailbox_fini(w->box);
    free(w);
}
