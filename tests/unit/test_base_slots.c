/* SPDX-License-Identifier: MIT */
/*
 * Handles: an old one never finds a new object, whatever the order of adds and removes.
 */
#include "daemon/base/slots.h"
#include <criterion/criterion.h>
#include <rdmad/abi.h>

static int thing[64];

Test(slots, a_handle_finds_what_it_was_given_for) {
    struct slots s;
    slots_init(&s, 64);
    uint64_t a = slots_add(&s, &thing[0]), b = slots_add(&s, &thing[1]);
    cr_assert(a != 0 && b != 0 && a != b);
    cr_assert_eq(slots_get(&s, a), &thing[0]);
    cr_assert_eq(slots_get(&s, b), &thing[1]);
    cr_assert_null(slots_get(&s, 0));
    cr_assert_null(slots_get(&s, a + (UINT64_C(1) << 32)));
    cr_assert_null(slots_get(&s, UINT64_MAX));
    slots_fini(&s);
}

Test(slots, a_removed_handle_never_finds_the_next_object_in_its_place) {
    struct slots s;
    slots_init(&s, 1);
    uint64_t old = slots_add(&s, &thing[0]);
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(slots_remove(&s, old), &thing[0]);
        cr_assert_null(slots_get(&s, old));
        cr_assert_null(slots_remove(&s, old));
        uint64_t fresh = slots_add(&s, &thing[0]);
        cr_assert_neq(fresh, old);
        cr_assert_eq((uint32_t)fresh, (uint32_t)old, "the index is used again");
        cr_assert_null(slots_get(&s, old));
        old = fresh;
    }
    slots_fini(&s);
}

Test(slots, a_full_table_says_so_and_recovers) {
    struct slots s;
    uint64_t handle[20];
    slots_init(&s, 20);
    for (int i = 0; i < 20; i++)
        cr_assert_neq(handle[i] = slots_add(&s, &thing[i]), 0);
    cr_assert_eq(slots_add(&s, &thing[20]), 0);
    cr_assert_eq(s.used, 20);
    slots_remove(&s, handle[7]);
    cr_assert_neq(slots_add(&s, &thing[20]), 0);
    slots_fini(&s);
}

Test(slots, an_index_whose_generations_are_used_up_is_retired) {
    struct slots s;
    slots_init(&s, 2);
    uint64_t last = (uint64_t)UINT32_MAX << 32;
    cr_assert_eq(slots_put(&s, last, &thing[0]), 0);
    cr_assert_eq(slots_remove(&s, last), &thing[0]);
    cr_assert_neq(slots_add(&s, &thing[1]), 0);
    for (int i = 0; i < 100; i++) {
        uint64_t h = slots_add(&s, &thing[2]);
        cr_assert_null(slots_get(&s, last));
        slots_remove(&s, h);
    }
    slots_fini(&s);
}

Test(slots, a_copy_follows_its_owner_in_any_order) {
    struct slots owner, copy;
    slots_init(&owner, 64);
    slots_init(&copy, 64);
    uint64_t handle[64];
    for (int i = 0; i < 64; i++)
        handle[i] = slots_add(&owner, &thing[i]);
    for (int i = 63; i >= 0; i--) /* the last index first: the copy grows to it at once */
        cr_assert_eq(slots_put(&copy, handle[i], &thing[i]), 0);
    cr_assert_eq(slots_put(&copy, handle[3], &thing[3]), RDMAD_E_EXISTS);
    for (int round = 0; round < 50; round++)
        for (int i = round % 3; i < 64; i += 3) {
            slots_remove(&owner, handle[i]);
            cr_assert_eq(slots_remove(&copy, handle[i]), &thing[i]);
            cr_assert_null(slots_get(&copy, handle[i]));
            handle[i] = slots_add(&owner, &thing[i]);
            cr_assert_eq(slots_put(&copy, handle[i], &thing[i]), 0);
        }
    for (int i = 0; i < 64; i++)
        cr_assert_eq(slots_get(&copy, handle[i]), &thing[i]);
    cr_assert_eq(copy.used, 64);
    cr_assert_eq(slots_put(&copy, UINT64_C(1) << 32 | 64, &thing[0]), RDMAD_E_NOMEM);
    slots_fini(&owner);
    slots_fini(&copy);
}

Test(slots, adding_beside_puts_never_overwrites) {
    struct slots s;
    slots_init(&s, 16);
    for (uint32_t i = 0; i < 16; i += 2)
        cr_assert_eq(slots_put(&s, UINT64_C(9) << 32 | i, &thing[i]), 0);
    for (int i = 0; i < 8; i++)
        cr_assert_neq(slots_add(&s, &thing[40]), 0);
    cr_assert_eq(slots_add(&s, &thing[40]), 0);
    for (uint32_t i = 0; i < 16; i += 2)
        cr_assert_eq(slots_get(&s, UINT64_C(9) << 32 | i), &thing[i]);
    slots_fini(&s);
}

Test(slots, a_walk_sees_everything_and_may_remove_as_it_goes) {
    struct slots s;
    slots_init(&s, 64);
    for (int i = 0; i < 40; i++)
        slots_add(&s, &thing[i]);
    uint32_t cursor = 0;
    uint64_t handle;
    int seen = 0;
    while (slots_next(&s, &cursor, &handle)) {
        seen++;
        cr_assert_not_null(slots_remove(&s, handle));
    }
    cr_assert_eq(seen, 40);
    cr_assert_eq(s.used, 0);
    slots_fini(&s);
}

/* ---- handles of a table before --------------------------------------------------------------- */

#define BEFORE(index) (UINT64_C(3) << 32 | (index))

static void begin_later(struct slots *s) {
    slots_init(s, 16);
    slots_begin(s, 100, 199);
}

Test(slots, what_is_reserved_is_given_to_nobody_else) {
    struct slots s;
    begin_later(&s);
    slots_reserve(&s, BEFORE(0));
    slots_reserve(&s, BEFORE(5));
    cr_assert_null(slots_get(&s, BEFORE(0)));
    for (int i = 0; i < 14; i++)
        cr_assert_neq(slots_add(&s, &thing[20 + i]), 0);
    cr_assert_eq(slots_add(&s, &thing[40]), 0, "all others are taken");
    for (int i = 0; i < 3; i++) { /* as often as it is tried */
        cr_assert_eq(slots_put(&s, BEFORE(5), &thing[5]), 0);
        cr_assert_eq(slots_get(&s, BEFORE(5)), &thing[5]);
        cr_assert_eq(slots_remove(&s, BEFORE(5)), &thing[5]);
        slots_reserve(&s, BEFORE(5));
        cr_assert_eq(slots_add(&s, &thing[40]), 0);
    }
    slots_fini(&s);
}

Test(slots, what_is_not_reserved_any_more_is_of_this_table) {
    struct slots s;
    begin_later(&s);
    slots_reserve(&s, BEFORE(0));
    slots_unreserve(&s, BEFORE(1));
    slots_unreserve(&s, BEFORE(0) + (UINT64_C(1) << 32));
    uint64_t other = slots_add(&s, &thing[1]);
    cr_assert_eq(other, UINT64_C(100) << 32 | 1);
    slots_unreserve(&s, BEFORE(0));
    cr_assert_eq(slots_add(&s, &thing[0]), UINT64_C(100) << 32);
    slots_reserve(&s, BEFORE(0)); /* too late for both: one is in use, the other has been */
    cr_assert_eq(slots_remove(&s, other), &thing[1]);
    slots_reserve(&s, BEFORE(1));
    cr_assert_eq(slots_add(&s, &thing[1]), other + (UINT64_C(1) << 32));
    cr_assert_eq(slots_put(&s, BEFORE(2), &thing[2]), 0);
    cr_assert_eq(slots_remove(&s, BEFORE(2)), &thing[2]);
    cr_assert_eq(slots_add(&s, &thing[2]), UINT64_C(100) << 32 | 2);
    slots_reserve(&s, UINT64_C(100) << 32 | 3); /* not of a table before */
    cr_assert_eq(slots_add(&s, &thing[3]), UINT64_C(100) << 32 | 3);
    slots_fini(&s);
}

/* A number that the client still knows would else name something new. */
Test(slots, no_handle_of_a_table_is_one_of_the_next) {
    struct slots s, next;
    slots_init(&s, 16);
    slots_begin(&s, 100, 102);
    slots_init(&next, 16);
    slots_begin(&next, 103, 105);
    for (int i = 0; i < 40; i++) {
        uint64_t h = slots_add(&s, &thing[0]);
        cr_assert(h >> 32 >= 100 && h >> 32 <= 102, "%lx", (unsigned long)h);
        cr_assert_eq(slots_remove(&s, h), &thing[0]);
        cr_assert_null(slots_get(&s, h));
    }
    uint64_t h = UINT64_C(102) << 32; /* it was one of the first index */
    slots_reserve(&next, h);
    for (int i = 1; i < 16; i++)
        cr_assert_neq((uint32_t)slots_add(&next, &thing[i]), 0, "its place is given away");
    cr_assert_eq(slots_put(&next, h, &thing[0]), 0);
    slots_fini(&s);
    slots_fini(&next);
}

Test(slots, an_index_that_is_used_up_takes_nothing_of_a_table_before_either) {
    struct slots s;
    slots_init(&s, 1);
    slots_begin(&s, 100, 101);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(slots_remove(&s, slots_add(&s, &thing[0])), &thing[0]);
    slots_reserve(&s, BEFORE(0));
    slots_unreserve(&s, BEFORE(0));
    cr_assert_eq(slots_put(&s, BEFORE(0), &thing[0]), RDMAD_E_EXISTS);
    cr_assert_eq(slots_add(&s, &thing[0]), 0);
    slots_fini(&s);
}
