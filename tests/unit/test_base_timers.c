/* SPDX-License-Identifier: MIT */
/*
 * Timers: due ones fire once each and in order, others do not, whatever firing does to them.
 */
#include "daemon/base/clock.h"
#include "daemon/base/list.h"
#include "daemon/base/timers.h"
#include <criterion/criterion.h>
#include <stdlib.h>

struct alarm {
    struct timer timer;
    struct timers *timers;
    int fired;
    uint64_t again_ns;
    struct timer *victim;
};

static uint64_t last_fired_at;
static unsigned changes;

static void on_fire(struct timer *timer, uint64_t now) {
    struct alarm *a = container_of(timer, struct alarm, timer);
    cr_assert_geq(now, timer->at_ns);
    cr_assert_geq(timer->at_ns, last_fired_at, "in order of time");
    last_fired_at = timer->at_ns;
    a->fired++;
    if (a->victim)
        timer_unset(a->timers, a->victim);
    if (a->again_ns)
        timer_set(a->timers, timer, now + a->again_ns);
}

static void on_change(void *user) {
    (void)user;
    changes++;
}

static void set_up(struct timers *t, struct alarm *a, size_t n) {
    last_fired_at = 0;
    changes = 0;
    timers_init(t, on_change, NULL);
    for (size_t i = 0; i < n; i++) {
        a[i] = (struct alarm){.timers = t};
        timer_init(&a[i].timer, on_fire);
    }
}

Test(timers, due_ones_fire_in_order_and_others_wait) {
    struct timers t;
    struct alarm a[500];
    set_up(&t, a, 500);
    srand(1);
    for (int i = 0; i < 500; i++)
        cr_assert_eq(timer_set(&t, &a[i].timer, 1 + (uint64_t)rand() % 1000), 0);
    for (int i = 0; i < 500; i += 3) /* moved, both ways */
        timer_set(&t, &a[i].timer, 1 + (uint64_t)rand() % 1000);
    for (int i = 1; i < 500; i += 5)
        timer_unset(&t, &a[i].timer);

    timers_run(&t, 500);
    for (int i = 0; i < 500; i++) {
        bool set = i % 5 != 1;
        cr_assert_eq(a[i].fired, set && a[i].timer.at_ns <= 500 ? 1 : 0);
    }
    cr_assert_gt(timers_next(&t), 500);
    timers_run(&t, 1000);
    cr_assert_eq(timers_next(&t), CLOCK_NEVER);
    timers_fini(&t);
}

Test(timers, a_firing_timer_may_unset_one_that_is_due_too) {
    struct timers t;
    struct alarm a[2];
    set_up(&t, a, 2);
    a[0].victim = &a[1].timer;
    timer_set(&t, &a[0].timer, 10);
    timer_set(&t, &a[1].timer, 11);
    timers_run(&t, 20);
    cr_assert_eq(a[0].fired, 1);
    cr_assert_eq(a[1].fired, 0);
    timers_fini(&t);
}

Test(timers, a_timer_set_again_for_now_does_not_keep_the_loop) {
    struct timers t;
    struct alarm a[1];
    set_up(&t, a, 1);
    timer_set(&t, &a[0].timer, 10);
    a[0].again_ns = 0;
    timers_run(&t, 10);
    a[0].again_ns = 1;
    timer_set(&t, &a[0].timer, 10);
    timers_run(&t, 10);
    cr_assert_eq(timers_next(&t), 11);
    timers_fini(&t);
}

struct eager {
    struct timer timer;
    struct timers *timers;
    unsigned fired, runs;
};

static void on_eager(struct timer *timer, uint64_t now) {
    struct eager *e = container_of(timer, struct eager, timer);
    (void)now;
    e->fired++;
    cr_assert_leq(e->fired, e->runs, "it fires %u times in %u runs", e->fired, e->runs);
    cr_assert_eq(timer_set(e->timers, timer, 0), 0);
}

Test(timers, one_that_sets_itself_for_now_fires_once_a_run_however_many_others_are_set) {
    enum { OTHERS = 1000 };
    struct timers t;
    static struct alarm a[OTHERS];
    struct eager eager = {.timers = &t};
    set_up(&t, a, OTHERS);
    timer_init(&eager.timer, on_eager);
    timer_set(&t, &eager.timer, 0);
    for (unsigned i = 0; i < OTHERS; i++)
        timer_set(&t, &a[i].timer, i % 2 ? 1000 : 1 + i / 100);
    for (unsigned run = 1; run <= 3; run++) {
        eager.runs = run;
        timers_run(&t, 10 * run);
        cr_assert_eq(eager.fired, run);
        cr_assert_leq(timers_next(&t), 10 * run + 1, "the next run is at once");
        for (unsigned i = 0; i < OTHERS; i++)
            cr_assert_eq(a[i].fired, i % 2 ? 0 : 1, "timer %u of the others", i);
    }
    timers_fini(&t);
}

Test(timers, the_owner_hears_of_a_new_earliest_time_and_only_then) {
    struct timers t;
    struct alarm a[3];
    set_up(&t, a, 3);
    timer_set(&t, &a[0].timer, 100);
    cr_assert_eq(changes, 1);
    timer_set(&t, &a[1].timer, 200);
    cr_assert_eq(changes, 1, "a later one changes nothing");
    timer_set(&t, &a[2].timer, 50);
    cr_assert_eq(changes, 2);
    timer_unset(&t, &a[2].timer);
    cr_assert_eq(changes, 3);
    timers_run(&t, 200);
    cr_assert_eq(changes, 3, "nothing is left to wake up for");
    timers_fini(&t);
}

Test(timers, the_alarm_is_set_again_after_it_went_off_early) {
    struct timers t;
    struct alarm a[1];
    set_up(&t, a, 1);
    timer_set(&t, &a[0].timer, 100);
    timers_run(&t, 99);
    cr_assert_eq(a[0].fired, 0);
    cr_assert_eq(changes, 2, "or the timer would never fire");
    timers_fini(&t);
}

Test(timers, never_means_unset) {
    struct timers t;
    struct alarm a[1];
    set_up(&t, a, 1);
    timer_set(&t, &a[0].timer, 100);
    timer_set(&t, &a[0].timer, CLOCK_NEVER);
    cr_assert_eq(timers_next(&t), CLOCK_NEVER);
    timers_run(&t, UINT64_MAX - 1);
    cr_assert_eq(a[0].fired, 0);
    timer_unset(&t, &a[0].timer);
    timers_fini(&t);
}
