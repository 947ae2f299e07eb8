/* SPDX-License-Identifier: MIT */
/* What callers of one uid take of the control thread, on a clock of the test's own. */
#include "daemon/ctl/rests.h"
#include <criterion/criterion.h>

#define MS NSEC_PER_MSEC

static struct rests rests;
static uint64_t now_ns = 1000 * NSEC_PER_SEC;

/* A connection is served, if its uid does not rest; whether it was. */
static bool serve(struct uid_rest *u, uint64_t took_ns) {
    const uint64_t began_ns = now_ns;
    if (rests_left_ns(u, now_ns))
        return false;
    now_ns += took_ns;
    rests_took(u, began_ns, now_ns, took_ns);
    return true;
}

/* Without pause, for a minute of the thread; how long it was served. */
static uint64_t serve_greedy(uint64_t took_ns) {
    struct uid_rest *u = rests_join(&rests, 1000);
    const uint64_t end_ns = now_ns + 60 * NSEC_PER_SEC;
    uint64_t served_ns = 0;
    while (now_ns < end_ns)
        if (serve(u, took_ns))
            served_ns += took_ns;
        else
            now_ns += rests_left_ns(u, now_ns);
    rests_leave(u);
    return served_ns;
}

Test(ctl_rests, who_asks_without_pause_has_half_of_the_thread) {
    const uint64_t took_ns[] = {10 * NSEC_PER_USEC, MS, 3 * MS, 80 * MS, 400 * MS};
    for (unsigned i = 0; i < sizeof(took_ns) / sizeof(took_ns[0]); i++) {
        uint64_t served_ns = serve_greedy(took_ns[i]);
        cr_expect_leq(served_ns, 30 * NSEC_PER_SEC + REST_BEYOND_NS + took_ns[i], "%lu of %lu each",
                      (unsigned long)served_ns, (unsigned long)took_ns[i]);
        cr_expect_geq(served_ns, 29 * NSEC_PER_SEC, "it has not what is its");
    }
}

Test(ctl_rests, who_asks_for_little_now_and_then_never_rests) {
    struct uid_rest *u = rests_join(&rests, 1000);
    for (unsigned i = 0; i < 1000; i++) {
        cr_assert(serve(u, MS));
        now_ns += MS;
    }
}

Test(ctl_rests, all_connections_of_a_uid_rest_and_nobody_elses) {
    struct uid_rest *u = rests_join(&rests, 1000), *root = rests_join(&rests, 0);
    cr_expect(serve(u, 50 * MS));
    cr_expect_not(serve(rests_join(&rests, 1000), MS));
    cr_expect(serve(root, MS));
    cr_expect(serve(rests_join(&rests, 1001), MS));
    now_ns += 50 * MS;
    cr_expect(serve(u, MS));
}

Test(ctl_rests, a_rest_goes_on_when_its_connections_have_gone_and_others_come) {
    struct uid_rest *u = rests_join(&rests, 1000);
    cr_expect(serve(u, 50 * MS));
    rests_leave(u);
    for (unsigned i = 1; i < RESTS_MAX; i++)
        cr_assert(serve(rests_join(&rests, 1000 + i), MS));
    cr_expect_not(serve(rests_join(&rests, 1000), MS));
}

Test(ctl_rests, each_of_as_many_uids_as_connections_has_a_place) {
    struct uid_rest *of[RESTS_MAX];
    for (uid_t round = 0; round < 3; round++) {
        for (uid_t i = 0; i < RESTS_MAX; i++)
            of[i] = rests_join(&rests, round * RESTS_MAX + i);
        for (uid_t i = 0; i < RESTS_MAX; i++) {
            cr_expect_eq(of[i]->uid, round * RESTS_MAX + i);
            cr_expect(serve(of[i], 50 * MS), "it rests for what another uid took");
            rests_leave(of[i]);
        }
    }
}

/* The process was stopped for an hour, and a kernel takes that for its own time. */
Test(ctl_rests, nobody_rests_longer_than_the_most) {
    struct uid_rest *u = rests_join(&rests, 1000);
    cr_expect(serve(u, 3600 * NSEC_PER_SEC));
    cr_expect_leq(rests_left_ns(u, now_ns), REST_MOST_NS);
}

/* Other programs had the processor, and others here have waited as long as if it had been for the
 * call. */
Test(ctl_rests, only_the_threads_own_time_is_owed_and_all_of_it) {
    struct uid_rest *u = rests_join(&rests, 1000);
    for (unsigned i = 1; i <= 4; i++) {
        rests_took(u, now_ns, now_ns + NSEC_PER_SEC, 5 * MS);
        now_ns += NSEC_PER_SEC;
        cr_expect_eq(rests_left_ns(u, now_ns), 5 * i * MS - REST_BEYOND_NS);
    }
}
