/* SPDX-License-Identifier: MIT */
/*
 * Windows of many users: nobody waits for another's memory to be registered or let go of, nor for
 * what nobody wants any more, and nobody can make looking for one long.
 */
#include "tests/unit/verbs_rig.h"
#include <dlfcn.h>
#include <unistd.h>

#define BYTES ((size_t)64 << 10)

struct scene {
    struct side owner;
    struct range range; /* all rights */
    struct resources before;
};

static void scene_open(struct scene *s) {
    *s = (struct scene){.before = resources_of("rxe0")};
    side_defaults(&s->owner, "rxe0");
    side_open(&s->owner);
    s->range =
        (struct range){.base = map_pages(BYTES), .length = BYTES / 2, .rights = RDMAD_RIGHTS_ALL};
}

static void scene_close(struct scene *s) {
    side_close(&s->owner);
    expect_resources("rxe0", &s->before);
}

/* In the library's place: a device that takes its time for ranges of that length, to register them
 * and to let them go. */
static unsigned slow, slow_begun;
static uint64_t slow_length;

static void be_slow(uint64_t length) {
    if (length != __atomic_load_n(&slow_length, __ATOMIC_SEQ_CST))
        return;
    __atomic_add_fetch(&slow_begun, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&slow, __ATOMIC_SEQ_CST))
        usleep(1000);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *base, size_t length, uint64_t iova,
                                unsigned access) {
    typedef struct ibv_mr *reg(struct ibv_pd *, void *, size_t, uint64_t, unsigned);
    reg *real = (reg *)dlsym(RTLD_NEXT, "ibv_reg_mr_iova2");
    be_slow(length);
    return real(pd, base, length, iova, access);
}

int ibv_dereg_mr(struct ibv_mr *mr) {
    int (*real)(struct ibv_mr *) = (int (*)(struct ibv_mr *))dlsym(RTLD_NEXT, "ibv_dereg_mr");
    be_slow(mr->length);
    return real(mr);
}

static void one_users_memory_holds_up_no_other_users_windows(void) {
    struct scene s;
    struct wnd huge, small;
    scene_open(&s);
    struct range large = s.range, other = s.range;
    large.owner = 1;
    other.owner = 2;
    other.length = 512;
    slow_length = large.length;
    __atomic_store_n(&slow, 1, __ATOMIC_SEQ_CST);
    CHECK(wnd_ask(&s.owner, &huge, PEER, &large) == FABRIC_PENDING, "%s", huge.err.text);
    wnd_open(&s.owner, &small, PEER, &other);
    wnd_close(&s.owner, &small);
    CHECK(!huge.opened && !huge.failed, "it was not slow");
    __atomic_store_n(&slow, 0, __ATOMIC_SEQ_CST);
    SIDE_UNTIL(&s.owner, huge.opened);

    wnd_open(&s.owner, &small, PEER, &other);
    __atomic_store_n(&slow, 1, __ATOMIC_SEQ_CST);
    CHECK(!fabric_verbs.window_close(huge.window, RDMAD_E_LEASE_REVOKED), "closed at once");
    wnd_close(&s.owner, &small);
    CHECK(!huge.closed, "it was not slow");
    __atomic_store_n(&slow, 0, __ATOMIC_SEQ_CST);
    SIDE_UNTIL(&s.owner, huge.closed);
    slow_length = 0;
    scene_close(&s);
}

static void what_nobody_wants_any_more_is_not_registered(void) {
    struct scene s;
    struct wnd first, w[8];
    scene_open(&s);
    struct range r = s.range;
    slow_length = r.length;
    __atomic_store_n(&slow, 1, __ATOMIC_SEQ_CST);
    CHECK(wnd_ask(&s.owner, &first, PEER, &r) == FABRIC_PENDING, "%s", first.err.text);
    SIDE_UNTIL(&s.owner, __atomic_load_n(&slow_begun, __ATOMIC_SEQ_CST) > 0);
    for (unsigned i = 0; i < 8; i++) {
        r.base++;
        CHECK(wnd_ask(&s.owner, &w[i], PEER, &r) == FABRIC_PENDING, "%s", w[i].err.text);
        CHECK(!fabric_verbs.window_close(w[i].window, RDMAD_E_LEASE_REVOKED), "while it opens");
    }
    unsigned begun = __atomic_load_n(&slow_begun, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slow, 0, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < 8; i++)
        SIDE_UNTIL(&s.owner, w[i].closed);
    CHECK(__atomic_load_n(&slow_begun, __ATOMIC_SEQ_CST) == begun, "the device had to do with it");
    SIDE_UNTIL(&s.owner, first.opened);
    wnd_close(&s.owner, &first);
    slow_length = 0;
    scene_close(&s);
}

/* An owner's ranges, as a peer would choose them who wants each look-up to be long. */
static void ranges_that_somebody_chose_do_not_fall_together(void) {
    struct scene s;
    struct wnd w[200];
    unsigned longest = 0;
    scene_open(&s);
    for (unsigned i = 0; i < 200; i++) {
        struct range r = s.range;
        r.length = i + 1;
        r.base = s.range.base + 2 * r.length;
        wnd_open(&s.owner, &w[i], PEER, &r);
    }
    const struct windows *all = &verbs_of(s.owner.fabric)->windows;
    for (unsigned i = 0; i < REGISTRATION_BUCKETS; i++) {
        unsigned n = 0;
        list_for_each (pos, &all->registrations[i])
            n++;
        longest = n > longest ? n : longest;
    }
    CHECK(longest < 20, "%u of 200 are in one place", longest);
    for (unsigned i = 0; i < 200; i++)
        wnd_close(&s.owner, &w[i]);
    scene_close(&s);
}

TEST_MAIN(CASE(one_users_memory_holds_up_no_other_users_windows),
          CASE(what_nobody_wants_any_more_is_not_registered),
          CASE(ranges_that_somebody_chose_do_not_fall_together))
