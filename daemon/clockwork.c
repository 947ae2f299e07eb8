/* SPDX-License-Identifier: MIT */
/*
 * clockwork.c - the loop's two clocks' hands: mail from other threads, and the earliest timer.
 *
 * libevent's own timers count CLOCK_MONOTONIC, which stops in suspend while leases go on; so one
 * CLOCK_BOOTTIME timerfd stands for the whole heap, set to its earliest time and to no other.
 */
#include "daemon/clockwork.h"
#include "daemon/base/clock.h"
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct clockwork {
    struct mailbox *box;
    struct timers *timers;
    int timer_fd;
    struct event *mail, *tick;
};

static void arm(void *user) {
    struct clockwork *c = user;
    uint64_t at = timers_next(c->timers);
    struct itimerspec when = {0};
    if (at != CLOCK_NEVER) {
        /* 0 would disarm; a time that is past fires at once. */
        at = at ? at : 1;
        when.it_value.tv_sec = (time_t)(at / NSEC_PER_SEC);
        when.it_value.tv_nsec = (long)(at % NSEC_PER_SEC);
    }
    timerfd_settime(c->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_tick(evutil_socket_t fd, short what, void *user) {
    struct clockwork *c = user;
    (void)what;
    uint64_t times;
    ssize_t got = read(fd, &times, sizeof(times));
    (void)got; /* only re-arms the descriptor: a spurious turn finds nothing due */
    timers_run(c->timers, clock_now_ns());
    arm(c);
}

static void on_mail(evutil_socket_t fd, short what, void *user) {
    struct clockwork *c = user;
    (void)fd;
    (void)what;
    mailbox_drain(c->box);
}

int clockwork_new(struct event_base *base, struct mailbox *box, struct timers *timers,
                  struct clockwork **out, struct error *err) {
    struct clockwork *c = calloc(1, sizeof(*c));
    if (!c)
        return error_set(err, RDMAD_E_NOMEM, "no memory for the timers");
    if (mailbox_init(box)) {
        free(c);
        return error_errno(err, RDMAD_E_SYSTEM, "cannot make the control thread's mailbox");
    }
    c->box = box;
    c->timers = timers;
    timers_init(timers, arm, c);
    c->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (c->timer_fd >= 0) {
        c->mail = event_new(base, box->fd, EV_READ | EV_PERSIST, on_mail, c);
        c->tick = event_new(base, c->timer_fd, EV_READ | EV_PERSIST, on_tick, c);
    }
    if (!c->mail || !c->tick || event_add(c->mail, NULL) || event_add(c->tick, NULL)) {
        int rc = error_errno(err, RDMAD_E_SYSTEM, "cannot make the control thread's timer");
        clockwork_free(c);
        return rc;
    }
    *out = c;
    return RDMAD_OK;
}

void clockwork_free(struct clockwork *c) {
    if (!c)
        return;
    if (c->mail)
        event_free(c->mail);
    if (c->tick)
        event_free(c->tick);
    if (c->timer_fd >= 0)
        close(c->timer_fd);
    timers_fini(c->timers);
    mailbox_fini(c->box);
    free(c);
}
