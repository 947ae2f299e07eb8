/* SPDX-License-Identifier: MIT */
/* When not to spin, on a scripted clock. */
#include "common/crowd.h"
#include <criterion/criterion.h>

#define US UINT64_C(1000)
#define MS (1000 * US)
#define GAP RDMAD_CROWD_GAP_NS

/* A spinner's looks from now, a microsecond apart, for that long; true if one was late. */
static bool clean(struct rdmad_crowd *c, uint64_t now, uint64_t for_ns) {
    for (uint64_t at = now; at < now + for_ns; at += US)
        if (rdmad_crowd_seen(c, at, at + US))
            return false;
    return true;
}

/* From now on there is a gap each time that it spins; returns when it may spin next. */
static uint64_t meets_gap(struct rdmad_crowd *c, uint64_t now, uint64_t gap) {
    cr_assert_not(rdmad_crowd_now(c, now));
    cr_assert(rdmad_crowd_seen(c, now, now + gap));
    cr_assert(rdmad_crowd_now(c, now + gap), "a gap ends the spinning at once");
    return c->until_ns;
}

Test(crowd, looks_in_time_are_no_reason_to_stop) {
    struct rdmad_crowd c = {0};
    cr_assert_not(rdmad_crowd_now(&c, 0));
    cr_assert(clean(&c, MS, 100 * MS));
    cr_assert_not(rdmad_crowd_seen(&c, MS, MS + GAP), "spinners of our own that take turns");
    cr_assert_not(rdmad_crowd_now(&c, MS + GAP));
}

Test(crowd, a_late_look_tells_at_once_and_for_many_times_as_long) {
    for (uint64_t gap = GAP + 1; gap < MS; gap *= 3) {
        struct rdmad_crowd c = {0};
        uint64_t again = meets_gap(&c, MS, gap);
        cr_assert_eq(again, MS + gap + RDMAD_CROWD_TIMES * gap);
        cr_assert(rdmad_crowd_now(&c, again - 1));
        cr_assert_not(rdmad_crowd_now(&c, again));
    }
}

Test(crowd, each_try_that_fails_makes_the_next_one_twice_as_late_within_a_bound) {
    struct rdmad_crowd c = {0};
    uint64_t now = MS, last = 0;
    for (int i = 0; i < 60; i++) {
        uint64_t at = now + 5 * US; /* it had hardly begun */
        now = meets_gap(&c, at, 3 * MS);
        uint64_t off = now - at - 3 * MS;
        cr_assert(off == 2 * last || off == 384 * MS || (last == 0 && off == RDMAD_CROWD_FIRST_NS));
        last = off;
    }
    cr_assert_eq(last, 128 * 3 * MS);
    meets_gap(&c, now, 200 * MS);
    now = meets_gap(&c, c.until_ns, 200 * MS);
    cr_assert_eq(c.for_ns, RDMAD_CROWD_MAX_NS);
}

/* The price of trying: all the gaps, of all the time. */
Test(crowd, trying_costs_a_small_share_of_the_time) {
    for (uint64_t gap = GAP + 1; gap < 60 * MS; gap *= 3) {
        struct rdmad_crowd c = {0};
        uint64_t now = MS, lost = 0;
        while (now < 20000 * MS) {
            now = meets_gap(&c, now, gap);
            lost += gap;
        }
        cr_assert_lt(lost * 16, now, "%lu of %lu ns", lost, now);
    }
}

Test(crowd, spinning_comes_back_for_good_when_the_others_have_left) {
    struct rdmad_crowd c = {0};
    uint64_t now = MS;
    for (int i = 0; i < 10; i++)
        now = meets_gap(&c, now, 3 * MS);
    cr_assert(clean(&c, now, 100 * MS), "and is not stopped by what was");
    cr_assert_not(rdmad_crowd_now(&c, now + 100 * MS));
}

Test(crowd, a_gap_after_long_spinning_counts_as_the_first) {
    struct rdmad_crowd c = {0};
    uint64_t now = MS;
    for (int i = 0; i < 5; i++)
        now = meets_gap(&c, now, 3 * MS);
    uint64_t before = c.for_ns;
    now += before; /* as much spinning as there was abstaining */
    meets_gap(&c, now, MS);
    cr_assert_eq(c.for_ns, RDMAD_CROWD_TIMES * MS);
}

static void hits(struct rdmad_crowd *c, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        rdmad_crowd_hit(c);
}

Test(crowd, a_gap_that_hits_have_paid_for_is_only_a_slow_moment) {
    struct rdmad_crowd c = {0};
    hits(&c, 100);
    cr_assert_not(rdmad_crowd_seen(&c, MS, MS + 3 * GAP));
    cr_assert_not(rdmad_crowd_now(&c, MS + 3 * GAP));
    cr_assert(rdmad_crowd_seen(&c, 2 * MS, 2 * MS + 3 * GAP), "but what is paid is gone");
}

Test(crowd, hits_pay_for_no_more_than_a_few_milliseconds_ever) {
    struct rdmad_crowd c = {0};
    hits(&c, 1000000);
    uint64_t paid = 0, now = MS;
    while (!rdmad_crowd_seen(&c, now, now + 2 * GAP)) {
        paid += 2 * GAP;
        now += MS;
    }
    cr_assert_leq(paid, 5 * MS);
    hits(&c, 1000000);
    cr_assert(rdmad_crowd_seen(&c, now, now + 6 * MS));
}

/* Preempted in a short spin: the others are still there, which cost nothing to find out. */
Test(crowd, a_gap_in_the_meantime_makes_it_longer_and_never_shorter) {
    struct rdmad_crowd c = {0};
    uint64_t now = MS, until;
    for (int i = 0; i < 3; i++)
        now = meets_gap(&c, now, 3 * MS);
    until = now = c.until_ns;
    meets_gap(&c, now, 50 * MS);
    until = c.until_ns;
    cr_assert(rdmad_crowd_seen(&c, now + 60 * MS, now + 60 * MS + GAP + 1));
    cr_assert_geq(c.until_ns, until);
}

Test(crowd, short_spins_end_when_they_are_in_vain_and_are_tried_again_now_and_then) {
    struct rdmad_crowd c = {0};
    meets_gap(&c, MS, 3 * MS);
    unsigned spun = 0;
    for (unsigned i = 0; i < 160; i++) {
        uint64_t ns = rdmad_crowd_spin(&c);
        cr_assert_leq(ns, RDMAD_CROWD_SPIN_NS);
        spun += ns > 0;
        rdmad_crowd_missed(&c);
    }
    cr_assert_leq(spun, 16u);
    cr_assert_geq(spun, 10u);
    rdmad_crowd_hit(&c);
    cr_assert_eq(rdmad_crowd_spin(&c), RDMAD_CROWD_SPIN_NS, "a hit brings them back");
}

Test(crowd, a_thread_that_was_stopped_for_hours_spins_again_after_the_bound) {
    struct rdmad_crowd c = {0};
    uint64_t hours = UINT64_MAX / 4;
    cr_assert(rdmad_crowd_seen(&c, MS, MS + hours));
    cr_assert_leq(c.until_ns, MS + hours + RDMAD_CROWD_MAX_NS);
}
