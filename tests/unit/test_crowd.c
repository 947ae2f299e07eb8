/* SPDX-License-Identifier: MIT */
/* When not to spin, on a scripted clock. */
#include "common/crowd.h"
#include <criterion/criterion.h>

#define US UINT64_C(1000)
#define MS (1000 * US)
#define GAP RDMAD_CROWD_GAP_NS
#define ASK RDMAD_CROWD_ASK_NS

/* A spinner's looks from now, a microsecond apart, for that long; true if one was late. */
static bool clean(struct rdmad_crowd *c, uint64_t now, uint64_t for_ns) {
    for (uint64_t at = now; at < now + for_ns; at += US)
        if (rdmad_crowd_seen(c, at, at + US))
            return false;
    return true;
}

/* It waits again and again, a tenth of a millisecond apart, and says that the CPUs are wanted;
 * returns when it may spin all the same. */
static uint64_t waits_among_others(struct rdmad_crowd *c, uint64_t now) {
    for (uint64_t end = now + 10000 * MS;; now += MS / 10) {
        cr_assert_lt(now, end, "it never tries again");
        if (rdmad_crowd_asks(c, now))
            rdmad_crowd_told(c, now, true);
        if (!c->crowded)
            return now;
    }
}

/* There is a gap each time that it spins, and nobody who can tell why: returns when it may spin
 * next. */
static uint64_t meets_gap(struct rdmad_crowd *c, uint64_t now, uint64_t gap) {
    cr_assert_not(c->crowded);
    cr_assert(rdmad_crowd_seen(c, now, now + gap));
    cr_assert(c->crowded, "a gap ends the spinning at once");
    cr_assert_not(rdmad_crowd_asks(c, c->until_ns - 1));
    cr_assert(rdmad_crowd_asks(c, c->until_ns));
    rdmad_crowd_told(c, c->until_ns, false);
    cr_assert_not(c->crowded);
    return c->until_ns;
}

Test(crowd, looks_in_time_are_no_reason_to_stop) {
    struct rdmad_crowd c = {0};
    cr_assert_not(rdmad_crowd_asks(&c, MS), "nothing was seen, and nothing is asked");
    cr_assert(clean(&c, MS, 100 * MS));
    cr_assert_not(rdmad_crowd_seen(&c, MS, MS + GAP), "spinners of our own that take turns");
    cr_assert_not(c.crowded);
}

Test(crowd, a_late_look_tells_at_once_and_for_many_times_as_long) {
    for (uint64_t gap = GAP + 1; gap < MS; gap *= 3) {
        struct rdmad_crowd c = {0};
        cr_assert_eq(meets_gap(&c, MS, gap), MS + gap + RDMAD_CROWD_TIMES * gap);
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
Test(crowd, trying_costs_a_small_share_of_the_time_where_nobody_can_tell) {
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

Test(crowd, one_gap_is_all_that_it_takes_while_the_cpus_are_wanted) {
    struct rdmad_crowd c = {0};
    cr_assert(rdmad_crowd_seen(&c, MS, 31 * MS));
    uint64_t now = waits_among_others(&c, 31 * MS);
    cr_assert_geq(now, 31 * MS + RDMAD_CROWD_ASKS * ASK);
}

Test(crowd, among_others_trying_costs_a_hundredth_of_the_time_in_the_end) {
    struct rdmad_crowd c = {0};
    uint64_t now = MS, gap = 30 * MS, then = 0, tries = 0;
    for (; now < 60000 * MS; tries++) {
        then = now;
        cr_assert(rdmad_crowd_seen(&c, now, now + gap));
        now = waits_among_others(&c, now + gap);
    }
    cr_assert_leq(tries, 20u);
    cr_assert_leq(100 * gap, now - then);
}

Test(crowd, spinning_comes_back_with_the_first_answer_that_the_cpus_are_free) {
    struct rdmad_crowd c = {0};
    uint64_t now = MS;
    for (int i = 0; i < 8; i++) {
        cr_assert(rdmad_crowd_seen(&c, now, now + 3 * MS));
        now = waits_among_others(&c, now + 3 * MS);
    }
    cr_assert(rdmad_crowd_seen(&c, now, now + 3 * MS));
    now += 3 * MS;
    uint64_t left = now + 300 * MS; /* the others leave */
    for (; now < left; now += MS)
        if (rdmad_crowd_asks(&c, now))
            rdmad_crowd_told(&c, now, true);
    for (; c.crowded; now += MS)
        if (rdmad_crowd_asks(&c, now))
            rdmad_crowd_told(&c, now, false);
    cr_assert_leq(now - left, 500 * MS, "%lu ms", (now - left) / MS);
    cr_assert(clean(&c, now, 100 * MS), "and is not stopped by what was");
    cr_assert_not(c.crowded);
}

static bool yes(void) {
    return true;
}

Test(crowd, who_asks_and_answers_at_once_asks_when_it_is_time) {
    struct rdmad_crowd c = {0}, alone;
    cr_assert_not(rdmad_crowd_lasts(&c, MS, yes), "nothing was seen");
    cr_assert(rdmad_crowd_seen(&c, MS, 3 * MS));
    alone = c;
    cr_assert(rdmad_crowd_lasts(&c, c.until_ns - 1, NULL), "it is not time yet");
    cr_assert(rdmad_crowd_lasts(&c, c.until_ns, yes));
    cr_assert_not(rdmad_crowd_lasts(&alone, alone.until_ns, NULL), "who cannot tell tries");
}

/* Threads of ours that spin look like others: they have no gaps, but say that they want CPUs. */
Test(crowd, spinners_keep_each_other_from_it_for_a_moment_only) {
    struct rdmad_crowd c = {0};
    cr_assert(rdmad_crowd_seen(&c, MS, 2 * MS));
    uint64_t now = waits_among_others(&c, 2 * MS);
    cr_assert_leq(now, 1000 * MS);
    cr_assert(clean(&c, now, 100 * MS));
}

Test(crowd, who_is_in_doubt_asks_before_it_spins) {
    struct rdmad_crowd c = {0};
    rdmad_crowd_doubt(&c);
    cr_assert(c.crowded);
    cr_assert(rdmad_crowd_asks(&c, MS));
    rdmad_crowd_told(&c, MS, true);
    cr_assert(c.crowded);
    cr_assert_not(rdmad_crowd_asks(&c, MS + ASK - 1));
    cr_assert(rdmad_crowd_asks(&c, MS + ASK));
    rdmad_crowd_told(&c, MS + ASK, false);
    cr_assert_not(c.crowded);
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
    cr_assert_eq(c.asks, RDMAD_CROWD_ASKS);
}

static void hits(struct rdmad_crowd *c, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        rdmad_crowd_hit(c);
}

Test(crowd, a_gap_that_hits_have_paid_for_is_only_a_slow_moment) {
    struct rdmad_crowd c = {0};
    hits(&c, 100);
    cr_assert_not(rdmad_crowd_seen(&c, MS, MS + 3 * GAP));
    cr_assert_not(c.crowded);
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

Test(crowd, a_thread_that_was_stopped_for_hours_spins_again_after_the_bound) {
    struct rdmad_crowd c = {0};
    uint64_t hours = UINT64_MAX / 4;
    cr_assert(rdmad_crowd_seen(&c, MS, MS + hours));
    cr_assert_leq(c.until_ns, MS + hours + RDMAD_CROWD_MAX_NS);
}
