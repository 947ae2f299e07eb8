/* SPDX-License-Identifier: MIT */
/* The pool allocator: no two pieces overlap, none is lost, and what was not handed out is refused.
 * The arena works in offsets, so there is no pool here. */
#include "libclient/arena/arena.h"
#include "libclient/memory/pool.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint32_t seed;

static uint32_t rnd(void) { /* xorshift: the same run every time */
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

/* ---- a model: which granules are taken ------------------------------------------------------ */

#define MODEL_BYTES (UINT64_C(4) << 20)
#define MODEL_PIECES 3000u

/* As rdmad_free does. */
static bool arena_give(struct rdmad_arena *a, uint64_t offset) {
    bool live = rdmad_arena_retire(a, offset);
    if (live)
        rdmad_arena_return(a, offset);
    return live;
}

static unsigned char taken[MODEL_BYTES / RDMAD_GRANULE];

static void model_take(uint64_t offset, size_t bytes) {
    size_t n = bytes ? (bytes + RDMAD_GRANULE - 1) / RDMAD_GRANULE : 1;

    cr_assert_eq(offset % RDMAD_GRANULE, 0);
    cr_assert_leq(offset + n * RDMAD_GRANULE, MODEL_BYTES);
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(taken[offset / RDMAD_GRANULE + i], 0, "two pieces overlap");
        taken[offset / RDMAD_GRANULE + i] = 1;
    }
}

static void model_give(uint64_t offset, size_t bytes) {
    size_t n = bytes ? (bytes + RDMAD_GRANULE - 1) / RDMAD_GRANULE : 1;

    memset(&taken[offset / RDMAD_GRANULE], 0, n);
}

static size_t random_size(void) {
    uint32_t r = rnd() % 100;

    if (r < 70)
        return rnd() % 1024;
    if (r < 90)
        return rnd() % 8192;
    return rnd() % 200000;
}

Test(arena, random_takes_and_gives_never_overlap_and_leave_nothing_behind) {
    static struct {
        uint64_t offset;
        size_t bytes;
    } piece[MODEL_PIECES];
    struct rdmad_arena *a = rdmad_arena_new(MODEL_BYTES);
    unsigned count = 0, refused = 0;

    seed = 12345;
    for (unsigned step = 0; step < 200000; step++) {
        if (count < MODEL_PIECES && (count == 0 || rnd() % 100 < 52)) {
            size_t bytes = random_size();
            uint64_t offset = rdmad_arena_take(a, bytes);
            if (offset == RDMAD_ARENA_NONE) {
                refused++;
                continue;
            }
            model_take(offset, bytes);
            piece[count].offset = offset;
            piece[count++].bytes = bytes;
        } else if (count) {
            unsigned i = rnd() % count;
            model_give(piece[i].offset, piece[i].bytes);
            cr_assert(arena_give(a, piece[i].offset));
            piece[i] = piece[--count];
        }
    }
    cr_assert_gt(refused, 0, "the pool was never full: the test does not test that");
    while (count)
        cr_assert(arena_give(a, piece[--count].offset));
    cr_assert_eq(rdmad_arena_take(a, MODEL_BYTES), 0, "all of it is one run again");
    rdmad_arena_free(a);
}

/* ---- single promises ------------------------------------------------------------------------ */

Test(arena, every_size_up_to_a_page_has_a_class_that_holds_it_without_waste) {
    for (size_t n = 1; n <= RDMAD_SMALL_MAX; n++) {
        unsigned c = rdmad_class_of(n);
        cr_assert_lt(c, RDMAD_CLASSES);
        cr_assert_geq(rdmad_class_bytes(c), n);
        cr_assert(c == 0 || rdmad_class_bytes(c - 1) < n, "%zu fits a smaller class", n);
        cr_assert(n <= 256 || rdmad_class_bytes(c) - n <= n / 4 + 64);
    }
    cr_assert_eq(rdmad_class_of(0), 0);
}

Test(arena, powers_of_two_are_aligned_to_themselves_up_to_a_page) {
    struct rdmad_arena *a = rdmad_arena_new(1 << 20);

    for (size_t n = 64; n <= 65536; n *= 2) {
        for (unsigned i = 0; i < 3; i++) {
            uint64_t offset = rdmad_arena_take(a, n);
            cr_assert_neq(offset, RDMAD_ARENA_NONE);
            cr_assert_eq(offset % (n < 4096 ? n : 4096), 0);
        }
    }
    rdmad_arena_free(a);
}

static unsigned fill(struct rdmad_arena *a, size_t bytes) {
    unsigned n = 0;

    while (rdmad_arena_take(a, bytes) != RDMAD_ARENA_NONE)
        n++;
    return n;
}

Test(arena, a_pool_can_be_used_to_its_last_page) {
    static const size_t sizes[] = {64, 128, 1024, 4096, 8192, 65536};

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct rdmad_arena *a = rdmad_arena_new(1 << 20);
        cr_assert_eq(fill(a, sizes[i]), (1 << 20) / sizes[i]);
        cr_assert_eq(rdmad_arena_take(a, 1), RDMAD_ARENA_NONE);
        rdmad_arena_free(a);
    }
}

Test(arena, more_than_the_pool_is_refused_whatever_the_number) {
    struct rdmad_arena *a = rdmad_arena_new(1 << 20);

    cr_assert_eq(rdmad_arena_take(a, (1 << 20) + 1), RDMAD_ARENA_NONE);
    cr_assert_eq(rdmad_arena_take(a, SIZE_MAX), RDMAD_ARENA_NONE);
    cr_assert_eq(rdmad_arena_take(a, SIZE_MAX - 4095), RDMAD_ARENA_NONE);
    cr_assert_eq(rdmad_arena_take(a, 1 << 20), 0);
    rdmad_arena_free(a);
}

Test(arena, what_was_not_handed_out_is_not_taken_back) {
    struct rdmad_arena *a = rdmad_arena_new(1 << 20);
    uint64_t small = rdmad_arena_take(a, 100), large = rdmad_arena_take(a, 20000);

    cr_assert_not(arena_give(a, small + 1));
    cr_assert_not(arena_give(a, small + 64));
    cr_assert_not(arena_give(a, large + 4096));
    cr_assert_not(arena_give(a, 1 << 20));
    cr_assert_not(arena_give(a, UINT64_MAX - 63));
    cr_assert(arena_give(a, small));
    cr_assert_not(arena_give(a, small), "twice");
    cr_assert(arena_give(a, large));
    cr_assert_not(arena_give(a, large), "twice");
    rdmad_arena_free(a);
}

static struct rdmad_pool *plain_pool(size_t bytes) {
    struct rdmad_pool *pool = calloc(1, sizeof(*pool));

    rdmad_object_init(&pool->object, RDMAD_KIND_POOL);
    pool->session = calloc(1, sizeof(*pool->session));
    rdmad_object_init(&pool->session->object, RDMAD_KIND_SESSION);
    pool->bytes = bytes;
    pool->base = aligned_alloc(4096, bytes);
    pool->arena = rdmad_arena_new(bytes);
    cr_assert(rdmad_holders_init(&pool->holders, bytes));
    return pool;
}

Test(rdmad_free, twice_aborts, .signal = SIGABRT) {
    struct rdmad_pool *pool = plain_pool(1 << 16);
    void *p = rdmad_alloc(pool, 64);

    rdmad_free(pool, p);
    rdmad_free(pool, p);
}

Test(rdmad_free, a_foreign_pointer_aborts, .signal = SIGABRT) {
    struct rdmad_pool *pool = plain_pool(1 << 16);
    char here;

    rdmad_free(pool, &here);
}

Test(rdmad_free, null_is_allowed_and_an_empty_pool_says_what_was_asked) {
    struct rdmad_pool *pool = plain_pool(1 << 16);

    rdmad_free(pool, NULL);
    cr_assert_null(rdmad_alloc(pool, 70000));
    cr_assert_not_null(strstr(rdmad_last_error(NULL), "70000"));
    rdmad_holders_fini(&pool->holders);
    rdmad_arena_free(pool->arena);
    free(pool->base);
    free(pool->session);
    free(pool);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void *hoard(void *arg) {
    struct rdmad_arena *a = arg;
    uint64_t piece[64];

    for (unsigned i = 0; i < 64; i++)
        piece[i] = rdmad_arena_take(a, 64);
    for (unsigned i = 0; i < 64; i++)
        arena_give(a, piece[i]);
    return NULL;
}

Test(magazines, a_thread_that_exits_gives_back_what_it_kept) {
    struct rdmad_arena *a = rdmad_arena_new(1 << 16);
    pthread_t t;

    for (unsigned i = 0; i < 20; i++) {
        pthread_create(&t, NULL, hoard, a);
        pthread_join(t, NULL);
    }
    cr_assert_eq(rdmad_arena_take(a, 1 << 16), 0);
    rdmad_arena_free(a);
}

struct stage {
    struct rdmad_arena *arena;
    pthread_barrier_t hoarded, done;
};

static void *hoard_and_stay(void *arg) {
    struct stage *s = arg;

    hoard(s->arena);
    pthread_barrier_wait(&s->hoarded);
    pthread_barrier_wait(&s->done);
    return NULL;
}

Test(magazines, what_a_living_thread_keeps_is_called_back_when_the_pool_runs_dry) {
    struct stage s = {.arena = rdmad_arena_new(1 << 16)};
    pthread_t t;

    pthread_barrier_init(&s.hoarded, NULL, 2);
    pthread_barrier_init(&s.done, NULL, 2);
    pthread_create(&t, NULL, hoard_and_stay, &s);
    pthread_barrier_wait(&s.hoarded);
    cr_assert_eq(rdmad_arena_take(s.arena, 1 << 16), 0);
    pthread_barrier_wait(&s.done);
    pthread_join(t, NULL);
    rdmad_arena_free(s.arena);
}

Test(magazines, a_pool_may_end_before_the_threads_that_used_it) {
    struct stage s = {.arena = rdmad_arena_new(1 << 16)};
    pthread_t t;

    pthread_barrier_init(&s.hoarded, NULL, 2);
    pthread_barrier_init(&s.done, NULL, 2);
    pthread_create(&t, NULL, hoard_and_stay, &s);
    pthread_barrier_wait(&s.hoarded);
    rdmad_arena_free(s.arena);
    pthread_barrier_wait(&s.done);
    pthread_join(t, NULL); /* the sanitizers tell whether its exit touched the arena */
}

Test(arena, time_of_a_small_piece) {
    struct rdmad_arena *a = rdmad_arena_new(1 << 20);
    struct timespec t0, t1;
    unsigned rounds = 1000000;

    clock_gettime(CLOCK_MONOTONIC, &t0);
    for (unsigned i = 0; i < rounds; i++)
        arena_give(a, rdmad_arena_take(a, 64 + i % 1024));
    clock_gettime(CLOCK_MONOTONIC, &t1);
    cr_log_info("take and give of a small piece: %.0f ns",
                ((double)(t1.tv_sec - t0.tv_sec) * 1e9 + (double)(t1.tv_nsec - t0.tv_nsec)) /
                    rounds);
    rdmad_arena_free(a);
}
