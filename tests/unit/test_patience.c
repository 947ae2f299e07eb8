/* SPDX-License-Identifier: MIT */
/* rdmactl's patience, with timers that go off when the test says so. */
#include "rdmactl/cli.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <time.h>

struct cli cli = {.dir = "/nowhere"};

static struct sigevent asked;

/* The system's, for patience.c. */
int timer_create(clockid_t clock, struct sigevent *restrict event, timer_t *restrict timer) {
    (void)clock;
    *timer = NULL;
    asked = *event;
    return 0;
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *restrict at,
                  struct itimerspec *restrict before) {
    (void)timer, (void)flags, (void)at, (void)before;
    return 0;
}

int timer_delete(timer_t timer) {
    (void)timer;
    return 0;
}

static void goes_off(const struct sigevent *event) {
    event->sigev_notify_function(event->sigev_value);
}

Test(patience, an_alarm_that_comes_late_does_not_end_the_next_wait) {
    patience_begin("do the first thing", 1000);
    struct sigevent first = asked;
    patience_end();
    goes_off(&first); /* between two waits */
    patience_begin("do the second thing", 1000);
    goes_off(&first);
    patience_end();
}

Test(patience, an_alarm_in_time_ends_the_program, .exit_code = 1) {
    patience_begin("do the first thing", 1000);
    patience_end();
    patience_begin("do the second thing", 1000);
    goes_off(&asked);
}
