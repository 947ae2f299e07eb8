/* SPDX-License-Identifier: MIT */
/* The small pieces of op/: deadlines, spin, slab. */
#include "daemon/base/clock.h"
#include "daemon/op/tool/deadlines.h"
#include "daemon/op/tool/slab.h"
#include "daemon/op/tool/spin.h"
#include "daemon/op/tool/tags.h"
#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>

/* ---- deadlines, against a list that is searched ------------------------------------------ */

#define COUNT 400

struct item {
    struct deadline due;
    uint64_t at_ns; /* 0: not set */
};

struct model {
    struct deadlines wheel;
    struct item item[COUNT];
    uint64_t now_ns, random;
    unsigned set;
};

static uint64_t draw(struct model *m, uint64_t bound) {
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return m->random % bound;
}

static void fired(void *user, struct deadline *due) {
    struct model *m = user;
    struct item *item = container_of(due, struct item, due);
    cr_assert_neq(item->at_ns, 0, "fired without being set");
    cr_assert_leq(item->at_ns, m->now_ns, "fired early");
    item->at_ns = 0;
    m->set--;
}

static void set(struct model *m, struct item *item) {
    /* From nanoseconds to two hours: every level, and beyond the last. */
    uint64_t span = draw(m, UINT64_C(1) << (1 + draw(m, 42)));
    item->at_ns = m->now_ns + span + 1;
    deadlines_add(&m->wheel, &item->due, item->at_ns);
    m->set++;
}

static uint64_t earliest(const struct model *m) {
    uint64_t best = CLOCK_NEVER;
    for (int i = 0; i < COUNT; i++)
        if (m->item[i].at_ns && m->item[i].at_ns < best)
            best = m->item[i].at_ns;
    return best;
}

/* To a random moment, or exactly to when the wheel asks to be run. */
static void advance(struct model *m) {
    uint64_t next = deadlines_next(&m->wheel);
    cr_assert_leq(next, earliest(m), "would sleep past a deadline");
    cr_assert((m->set == 0) == (next == CLOCK_NEVER));
    if (m->set && draw(m, 2))
        m->now_ns = next;
    else
        m->now_ns += draw(m, UINT64_C(1) << (1 + draw(m, 40)));
    deadlines_run(&m->wheel, m->now_ns, fired, m);
    cr_assert_gt(earliest(m), m->now_ns, "did not fire what is due");
}

Test(deadlines, fire_all_that_is_due_and_nothing_else) {
    struct model *m = calloc(1, sizeof(*m));
    for (uint64_t seed = 1; seed <= 20; seed++) {
        *m = (struct model){.now_ns = seed * 1234567891234u, .random = seed};
        deadlines_init(&m->wheel, m->now_ns);
        for (int i = 0; i < COUNT; i++)
            list_init(&m->item[i].due.node);
        for (int round = 0; round < 2000; round++) {
            struct item *item = &m->item[draw(m, COUNT)];
            if (!item->at_ns) {
                set(m, item);
            } else if (draw(m, 3) == 0) {
                deadlines_remove(&item->due);
                item->at_ns = 0;
                m->set--;
            }
            if (draw(m, 4) == 0)
                advance(m);
        }
    }
    free(m);
}

Test(deadlines, are_met_to_the_nanosecond_by_who_runs_them_when_asked) {
    struct model *m = calloc(1, sizeof(*m));
    *m = (struct model){.now_ns = 5, .random = 7};
    deadlines_init(&m->wheel, m->now_ns);
    static const uint64_t spans[] = {
        1, 1000, 131071, 131072, 33554431, 33554432, 8589934592u, 1000000000000u, 100000000000000u};
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        list_init(&m->item[0].due.node);
        m->item[0].at_ns = m->now_ns + spans[i];
        uint64_t at = m->item[0].at_ns;
        m->set = 1;
        deadlines_add(&m->wheel, &m->item[0].due, at);
        unsigned wakes = 0;
        while (m->set) {
            m->now_ns = deadlines_next(&m->wheel);
            deadlines_run(&m->wheel, m->now_ns, fired, m);
            wakes++;
        }
        cr_assert_eq(m->now_ns, at);
        cr_assert_leq(wakes, 60u, "%u wake-ups for a span of %lu ns", wakes,
                      (unsigned long)spans[i]);
    }
    free(m);
}

Test(deadlines, fire_for_who_never_asks_when) {
    struct model *m = calloc(1, sizeof(*m));
    *m = (struct model){.now_ns = 1000, .set = 1};
    deadlines_init(&m->wheel, m->now_ns);
    m->item[0].at_ns = 50000000;
    deadlines_add(&m->wheel, &m->item[0].due, 50000000);
    m->now_ns = 49999999;
    cr_assert_eq(deadlines_run(&m->wheel, m->now_ns, fired, m), 0);
    m->now_ns = 50000000;
    cr_assert_eq(deadlines_run(&m->wheel, m->now_ns, fired, m), 1);
    free(m);
}

static unsigned fires;

static void count_fire(void *user, struct deadline *due) {
    (void)user, (void)due;
    fires++;
}

/* However many a client has fall together. */
Test(deadlines, that_fall_together_fire_a_bounded_number_a_run) {
    enum { MANY = 20000 };
    static struct deadline due[MANY];
    static const uint64_t spans[] = {1000, 20000000, 1000000000, UINT64_C(10000000000)};
    for (unsigned i = 0; i < sizeof(spans) / sizeof(*spans); i++) {
        struct deadlines *d = malloc(sizeof(*d));
        uint64_t now_ns = 12345678900u, at_ns = now_ns + spans[i];
        unsigned runs = 0;
        deadlines_init(d, now_ns);
        for (unsigned n = 0; n < MANY; n++) {
            list_init(&due[n].node);
            deadlines_add(d, &due[n], at_ns + n % 3);
        }
        fires = 0;
        for (uint64_t next; (next = deadlines_next(d)) < at_ns; runs++) { /* as a sleeper wakes */
            now_ns = next > now_ns ? next : now_ns;
            if (now_ns >> 17 == at_ns >> 17)
                break;
            deadlines_run(d, now_ns, count_fire, NULL);
            cr_assert_eq(fires, 0, "early");
            cr_assert_leq(runs, 200, "%u runs for nothing", runs);
        }
        now_ns = at_ns + 2 + (1u << 17); /* a tick later, for so many */
        for (unsigned before = 0; fires < MANY; before = fires) {
            cr_assert_gt(deadlines_run(d, now_ns, count_fire, NULL), 0, "it would sleep on %u",
                         MANY - fires);
            cr_assert_leq(fires - before, DEADLINES_A_RUN, "%u in one run", fires - before);
            cr_assert_leq(++runs, 400, "%u of %u in %u runs", fires, MANY, runs);
        }
        cr_assert_eq(deadlines_next(d), CLOCK_NEVER);
        free(d);
    }
}

/* ---- spin -------------------------------------------------------------------------------- */

static unsigned yields;

int sched_yield(void) {
    yields++;
    return 0;
}

/* Spins without work until it gives up; returns for how long. */
static uint64_t spin_out_from(struct spin *s, uint64_t start, uint64_t min_ns, uint64_t max_ns) {
    uint64_t now = start;
    while (spin_more(s, now, min_ns, max_ns))
        now += 100;
    return now - start;
}

static uint64_t spin_out(struct spin *s, uint64_t min_ns, uint64_t max_ns) {
    return spin_out_from(s, 1000, min_ns, max_ns);
}

Test(spin, gets_shorter_when_it_is_for_nothing_down_to_the_minimum) {
    struct spin s;
    spin_init(&s, 80000);
    uint64_t last = spin_out(&s, 5000, 80000);
    cr_assert_eq(last, 80000);
    for (int i = 0; i < 10; i++) {
        uint64_t spun = spin_out(&s, 5000, 80000);
        cr_assert(spun == last / 2 || spun == 5000);
        last = spun;
    }
    cr_assert_eq(last, 5000);
}

Test(spin, gets_longer_when_work_comes_up_to_the_maximum) {
    struct spin s;
    spin_init(&s, 0);
    for (int i = 0; i < 20; i++) {
        spin_more(&s, 0, 5000, 80000);
        spin_hit(&s, 0, 80000);
    }
    cr_assert_eq(spin_out(&s, 5000, 80000), 80000);
}

Test(spin, gets_longer_when_sleep_was_shorter_than_a_spin) {
    struct spin s;
    spin_init(&s, 0);
    spin_woke(&s, 3000, 80000);
    spin_woke(&s, 3000, 80000);
    cr_assert_eq(s.bound_ns, 2000);
    spin_woke(&s, 1000000, 80000);
    cr_assert_eq(s.bound_ns, 2000);
}

Test(spin, one_slow_moment_does_not_use_it_up) {
    struct spin s;
    spin_init(&s, 50000);
    cr_assert(spin_more(&s, 0, 0, 50000));
    unsigned looks = 0;
    while (spin_more(&s, 90000 + looks, 0, 50000)) /* ninety microseconds were stolen */
        looks++;
    cr_assert_geq(looks, 400u);
}

Test(spin, offers_the_cpu_every_microsecond) {
    struct spin s;
    spin_init(&s, 80000);
    yields = 0;
    cr_assert_eq(spin_out(&s, 80000, 80000), 80000);
    cr_assert(yields >= 70 && yields <= 80, "%u", yields);
}

Test(spin, what_its_offers_cost_is_part_of_it) {
    struct spin s;
    spin_init(&s, 80000);
    yields = 0;
    unsigned turns = 0;
    for (uint64_t now = 1000; spin_more(&s, now, 80000, 80000); now += 1000)
        turns++;
    cr_assert_gt(yields, 0u);
    cr_assert_leq(turns + 2 * yields, 80000u / 100 + 2, "%u turns, %u offers", turns, yields);
    cr_assert_geq(turns, 80000u / 100 / 3);
}

static bool wanted;
static unsigned loads_asked;

static bool are_wanted(void) {
    loads_asked++;
    return wanted;
}

/* Milliseconds can only have gone to somebody who gives nothing back. */
Test(spin, stops_at_once_when_others_take_the_cpu_and_offers_it_no_more) {
    struct spin s;
    spin_init(&s, 80000);
    cr_assert(spin_more(&s, 1000, 5000, 80000));
    cr_assert(spin_more(&s, 2000, 5000, 80000));
    cr_assert_not(spin_more(&s, 3002000, 5000, 80000));
    yields = 0;
    s.cpus_wanted = are_wanted;
    wanted = true;
    loads_asked = 0;
    for (uint64_t now = 3010000; now < 113000000; now += 10000)
        cr_assert_not(spin_more(&s, now, 5000, 80000), "not for a moment");
    cr_assert_geq(loads_asked, 18u);
    cr_assert_leq(loads_asked, 21u, "a question takes microseconds: one each 5 ms");
    wanted = false;
    cr_assert_eq(spin_out_from(&s, 118000000, 5000, 80000), 40000, "it has not been in vain since");
    cr_assert_gt(yields, 0u);
}

/* Its worker always had work since, and never spun. */
Test(spin, is_not_crowded_for_ever_because_it_once_was) {
    struct spin s;
    spin_init(&s, 80000);
    s.cpus_wanted = are_wanted;
    wanted = true;
    spin_more(&s, 1000, 5000, 80000);
    cr_assert_not(spin_more(&s, 3001000, 5000, 80000));
    loads_asked = 0;
    for (uint64_t now = 3010000; now < 103010000; now += 50000)
        spin_busy(&s, now);
    cr_assert(s.crowd.crowded);
    cr_assert_leq(loads_asked, 21u, "a question takes microseconds: one each 5 ms");
    wanted = false;
    spin_busy(&s, 113010000);
    cr_assert_not(s.crowd.crowded);
}

Test(spin, notices_who_took_the_cpu_though_there_is_work_by_then) {
    struct spin s;
    spin_init(&s, 80000);
    cr_assert(spin_more(&s, 1000, 5000, 80000));
    spin_hit(&s, 3001000, 80000);
    cr_assert_not(spin_more(&s, 3002000, 80000, 80000));
}

Test(spin, work_that_took_long_is_not_taken_for_others) {
    struct spin s;
    spin_init(&s, 80000);
    cr_assert(spin_more(&s, 1000, 5000, 80000));
    spin_hit(&s, 2000, 80000);
    spin_hit(&s, 5000000, 80000); /* after a turn that copied much */
    cr_assert(spin_more(&s, 9000000, 5000, 80000));
}

Test(spin, follows_bounds_that_were_changed) {
    struct spin s;
    spin_init(&s, 80000);
    cr_assert_eq(spin_out(&s, 0, 10000), 10000);
    cr_assert_eq(spin_out(&s, 20000, 30000), 20000);
}

/* ---- slab -------------------------------------------------------------------------------- */

Test(slab, hands_out_distinct_aligned_objects_and_takes_them_back) {
    struct slab s;
    slab_init(&s, 100, NULL);
    char *seen[1000];
    for (int i = 0; i < 1000; i++) {
        seen[i] = slab_get(&s);
        cr_assert_eq((uintptr_t)seen[i] % _Alignof(max_align_t), 0);
        for (int j = 0; j < 100; j++)
            seen[i][j] = (char)i;
    }
    for (int i = 0; i < 1000; i++)
        for (int j = 0; j < 100; j++)
            cr_assert_eq(seen[i][j], (char)i);
    for (int i = 0; i < 1000; i++)
        slab_put(&s, seen[i]);
    slab_fini(&s);
}

Test(slab, what_comes_back_is_used_before_more_is_taken) {
    struct slab s;
    void *seen[1000];
    slab_init(&s, 100, NULL);
    for (int i = 0; i < 1000; i++)
        seen[i] = slab_get(&s);
    uint32_t chunks = s.chunks;
    for (int round = 0; round < 10; round++) {
        for (int i = round; i < 1000; i += 2)
            slab_put(&s, seen[i]);
        for (int i = round; i < 1000; i += 2)
            seen[i] = slab_get(&s);
    }
    cr_assert_eq(s.chunks, chunks);
    slab_fini(&s);
}

/* Some are kept, so that ops that come and go by the thousand cost no system call. */
Test(slab, chunks_that_nobody_uses_are_given_back_but_some) {
    struct slab s;
    static void *seen[10000];
    slab_init(&s, 500, NULL);
    for (int i = 0; i < 10000; i++)
        seen[i] = slab_get(&s);
    cr_assert_geq(s.chunks, 70);
    for (int i = 0; i < 10000; i++)
        if (i != 5000)
            slab_put(&s, seen[i]);
    cr_assert_eq(s.chunks, SLAB_KEPT + 1, "%u chunks for one object", s.chunks);
    slab_put(&s, seen[5000]);
    cr_assert_eq(s.chunks, SLAB_KEPT);
    cr_assert(slab_ready(&s));
    slab_fini(&s);
}

Test(slab, a_thousand_objects_that_come_and_go_take_and_give_back_no_chunk) {
    struct slab s;
    static void *seen[1000];
    uint32_t chunks = 0;
    slab_init(&s, 500, NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++)
            seen[i] = slab_get(&s);
        cr_assert(!round || s.chunks == chunks, "%u chunks, then %u", chunks, s.chunks);
        chunks = s.chunks;
        for (int i = 0; i < 1000; i++)
            slab_put(&s, seen[i]);
        cr_assert_eq(s.chunks, chunks, "%u of %u chunks were given back", chunks - s.chunks,
                     chunks);
    }
    slab_fini(&s);
}

/* ---- tags -------------------------------------------------------------------------------- */

static uint32_t longest_chain(struct tags *t) {
    uint32_t longest = 0;
    for (uint32_t i = 0; i < t->buckets; i++) {
        uint32_t length = 0;
        list_for_each (pos, &t->bucket[i])
            length++;
        longest = length > longest ? length : longest;
    }
    return longest;
}

static int64_t paid;

static bool pay(void *payer, int64_t bytes) {
    *(int64_t *)payer += bytes;
    return true;
}

static bool refuse(void *payer, int64_t bytes) {
    *(int64_t *)payer += bytes > 0;
    return false;
}

/* Who does not know the secret: numbers that differ in some bits only. */
Test(tags, numbers_that_a_client_chooses_do_not_fall_together) {
    static struct tag tag[4096];
    struct tags t;
    for (unsigned shift = 0; shift <= 52; shift++) {
        tags_init(&t, UINT64_C(0x6c62272e07bb0142) ^ shift << 7, pay, &paid);
        for (uint64_t i = 0; i < 4096; i++) {
            tag[i].user_data = i << shift;
            tags_add(&t, &tag[i]);
        }
        cr_assert_eq(paid, (int64_t)(t.buckets * sizeof(struct list)), "%ld", (long)paid);
        cr_assert_lt(longest_chain(&t), 64, "%u, shifted by %u", longest_chain(&t), shift);
        for (unsigned i = 0; i < 4096; i++)
            tags_remove(&t, &tag[i]);
        cr_assert_eq(t.buckets, TAGS_LEAST, "its memory goes with what was in it");
        tags_fini(&t);
        cr_assert_eq(paid, 0, "%ld bytes are charged for nothing", (long)paid);
    }
}

Test(tags, what_nobody_pays_for_does_not_grow_and_finds_all_the_same) {
    static struct tag tag[1000];
    struct tags t;
    int64_t asked = 0;
    tags_init(&t, 77, refuse, &asked);
    for (uint64_t i = 0; i < 1000; i++) {
        tag[i].user_data = i;
        tags_add(&t, &tag[i]);
    }
    cr_expect_gt(asked, 0);
    cr_expect_eq(t.buckets, TAGS_LEAST, "%u buckets", t.buckets);
    for (uint64_t i = 0; i < 1000; i++) {
        bool found = false;
        list_for_each (pos, tags_chain(&t, i))
            found |= pos == &tag[i].node;
        cr_expect(found, "%lu is not found", (unsigned long)i);
        tags_remove(&t, &tag[i]);
    }
    tags_fini(&t);
}
