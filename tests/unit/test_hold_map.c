/* SPDX-License-Identifier: MIT */
/* The map of what is held against a model that knows each byte's holders. */
#include "libclient/memory/hold_map.h"

#include <criterion/criterion.h>
#include <rdmad/abi.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (UINT64_C(3) << 18) /* three blocks */
#define BLOCK (UINT64_C(1) << 18)
#define HELD 48u
#define SEEDS 8u
#define STEPS 2500u

struct range {
    uint64_t offset, length;
    bool writes;
};

static struct rdmad_hold_map *map;
/* Of each byte of the pool: how many read it, 255 for one that writes. */
static uint8_t *model;

static void set_up(void) {
    map = rdmad_hold_map_new(BYTES);
    model = calloc(1, BYTES);
    cr_assert_not_null(map);
    cr_assert_not_null(model);
}

static void tear_down(void) {
    rdmad_hold_map_free(map);
    free(model);
}

TestSuite(hold_map, .init = set_up, .fini = tear_down, .timeout = 120);

static bool model_allows(const struct range *r) {
    for (uint64_t i = r->offset; i < r->offset + r->length; i++) {
        if (r->writes ? model[i] != 0 : model[i] == 255)
            return false;
    }
    return true;
}

static void model_set(const struct range *r, bool take) {
    for (uint64_t i = r->offset; i < r->offset + r->length; i++)
        model[i] = (uint8_t)(r->writes ? (take ? 255 : 0) : model[i] + (take ? 1 : -1));
}

static uint64_t up_to(unsigned *seed, uint64_t n) {
    return (uint64_t)rand_r(seed) % n;
}

/* Ranges of all shapes: single bytes, cells of a granule, granules, pages, blocks, and odd ones;
 * most of them near each other. */
static struct range random_range(unsigned *seed) {
    static const uint64_t unit[] = {1, 8, 64, 4096, BLOCK, 100, 4096 * 64};
    uint64_t u = unit[up_to(seed, sizeof(unit) / sizeof(unit[0]))], near = u < 4096 ? 8192 : BYTES;
    struct range r = {.writes = up_to(seed, 3) == 0};

    r.offset = up_to(seed, near / u) * u;
    r.length = (1 + up_to(seed, u < 4096 ? 40 : 3)) * u;
    if (up_to(seed, 4) == 0)
        r.offset += up_to(seed, 130);
    if (up_to(seed, 4) == 0)
        r.length += up_to(seed, 130);
    if (r.offset >= BYTES)
        r.offset = BYTES - 1;
    if (r.length > BYTES - r.offset)
        r.length = BYTES - r.offset;
    return r;
}

static void play(unsigned seed) {
    struct range held[HELD];
    unsigned count = 0;

    for (unsigned step = 0; step < STEPS; step++) {
        if (count == HELD || (count && up_to(&seed, 5) < 2)) {
            unsigned at = (unsigned)up_to(&seed, count);
            rdmad_hold_map_drop(map, held[at].offset, held[at].length, held[at].writes);
            model_set(&held[at], false);
            held[at] = held[--count];
            continue;
        }
        struct range r = random_range(&seed);
        int expected = model_allows(&r) ? 0 : RDMAD_E_BUSY;
        struct range all = {r.offset, r.length, true};
        cr_assert_eq(rdmad_hold_map_unheld(map, r.offset, r.length), model_allows(&all));
        int rc = rdmad_hold_map_take(map, r.offset, r.length, r.writes);
        cr_assert_eq(rc, expected, "step %u: %s of %lu bytes at %lu: %d, not %d", step,
                     r.writes ? "write" : "read", r.length, r.offset, rc, expected);
        if (rc == 0) {
            model_set(&r, true);
            held[count++] = r;
        }
    }
    while (count) {
        struct range *r = &held[--count];
        rdmad_hold_map_drop(map, r->offset, r->length, r->writes);
        model_set(r, false);
    }
    cr_assert_eq(rdmad_hold_map_take(map, 0, BYTES, true), 0, "something stayed held");
    rdmad_hold_map_drop(map, 0, BYTES, true);
}

Test(hold_map, a_range_is_taken_if_and_only_if_no_byte_of_it_conflicts) {
    for (unsigned seed = 1; seed <= SEEDS; seed++)
        play(seed);
}

Test(hold_map, cells_of_one_granule_are_held_by_writers_of_their_own) {
    for (unsigned i = 0; i < 8; i++)
        cr_assert_eq(rdmad_hold_map_take(map, 4096 + 8 * i, 8, true), 0, "cell %u", i);
    for (unsigned i = 0; i < 8; i++)
        cr_assert_eq(rdmad_hold_map_take(map, 4096 + 8 * i + 7, 1, false), RDMAD_E_BUSY);
    rdmad_hold_map_drop(map, 4096 + 24, 8, true);
    cr_assert_eq(rdmad_hold_map_take(map, 4096 + 24, 8, false), 0);
    cr_assert_eq(rdmad_hold_map_take(map, 4096 + 24, 9, false), RDMAD_E_BUSY);
}

Test(hold_map, a_thousand_readers_share_any_size_and_a_writer_waits_for_the_last) {
    static const struct range size[] = {{8, 3, false},
                                        {64, 64, false},
                                        {4096, 4096, false},
                                        {BLOCK - 100, BLOCK + 200, false},
                                        {0, BYTES, false}};

    for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
        const struct range *r = &size[i];
        for (unsigned n = 0; n < 1000; n++)
            cr_assert_eq(rdmad_hold_map_take(map, r->offset, r->length, false), 0);
        for (unsigned n = 0; n < 1000; n++) {
            cr_assert_eq(rdmad_hold_map_take(map, r->offset, r->length, true), RDMAD_E_BUSY);
            rdmad_hold_map_drop(map, r->offset, r->length, false);
        }
        cr_assert_eq(rdmad_hold_map_take(map, r->offset, r->length, true), 0);
        rdmad_hold_map_drop(map, r->offset, r->length, true);
    }
}

Test(hold_map, more_readers_than_can_be_counted_are_refused_with_another_code) {
    int rc = 0;
    unsigned n = 0;

    while (n < 100000 && (rc = rdmad_hold_map_take(map, 64, 64, false)) == 0)
        n++;
    cr_assert_eq(rc, RDMAD_E_LIMIT);
    cr_assert_eq(n, 65535);
    while (n--)
        rdmad_hold_map_drop(map, 64, 64, false);
    cr_assert_eq(rdmad_hold_map_take(map, 0, BYTES, true), 0);
}

Test(hold_map, a_block_is_refused_for_any_of_its_pages_and_for_no_other) {
    static const uint64_t size[] = {1, 4096};

    for (uint64_t at = BLOCK - 4096; at <= 2 * BLOCK; at += 4096) {
        int expected = at >= BLOCK && at < 2 * BLOCK ? RDMAD_E_BUSY : 0;
        for (unsigned i = 0; i < 4; i++) {
            cr_assert_eq(rdmad_hold_map_take(map, at, size[i % 2], i < 2), 0);
            int rc = rdmad_hold_map_take(map, BLOCK, BLOCK, i >= 2);
            cr_assert_eq(rc, expected, "a page at %lu: %d", at, rc);
            if (rc == 0)
                rdmad_hold_map_drop(map, BLOCK, BLOCK, i >= 2);
            rdmad_hold_map_drop(map, at, size[i % 2], i < 2);
        }
    }
}

Test(hold_map, what_a_refused_range_took_before_is_given_back) {
    cr_assert_eq(rdmad_hold_map_take(map, 2 * BLOCK + 5000, 10, true), 0);
    cr_assert_eq(rdmad_hold_map_take(map, 10, BYTES - 10, false), RDMAD_E_BUSY);
    cr_assert_eq(rdmad_hold_map_take(map, 0, 2 * BLOCK + 5000, true), 0);
}

Test(hold_map, a_pool_of_a_terabyte_costs_nothing_until_it_is_used) {
    struct rdmad_hold_map *huge = rdmad_hold_map_new(UINT64_C(1) << 40);

    cr_assert_not_null(huge);
    cr_assert_eq(rdmad_hold_map_take(huge, (UINT64_C(1) << 40) - 70, 70, true), 0);
    cr_assert_eq(rdmad_hold_map_take(huge, (UINT64_C(1) << 40) - 1, 1, false), RDMAD_E_BUSY);
    rdmad_hold_map_free(huge);
}
