/* SPDX-License-Identifier: MIT */
/* The range that an address lies in is found, in few steps however many there are, and no other. */
#include "daemon/op/tool/ranges.h"
#include <criterion/criterion.h>
#include <stdbool.h>

enum { MANY = 12000, APART = 100, DEEP = 64 };
static struct range range[MANY];
static bool there[MANY];
static struct ranges ranges;

static const void *address_of(unsigned i, uint64_t offset) {
    return (const void *)(uintptr_t)(0x10000 + (uint64_t)i * APART + offset); /* NOLINT */
}

/* They have one byte to a hundred, so some lie side by side. */
static void put(unsigned i) {
    range[i] = (struct range){.base = (uintptr_t)address_of(i, 0), .bytes = 1 + i * 7 % APART};
    ranges_add(&ranges, &range[i]);
    there[i] = true;
}

static void expect_found(unsigned i) {
    const struct range *r = there[i] ? &range[i] : NULL;
    uint64_t bytes = 1 + i * 7 % APART;
    cr_assert_eq(ranges_find(&ranges, address_of(i, 0)), r);
    cr_assert_eq(ranges_find(&ranges, address_of(i, bytes - 1)), r);
    if (bytes < APART)
        cr_assert_null(ranges_find(&ranges, address_of(i, bytes)));
}

static unsigned depth_of(const struct tree_node *r, unsigned so_far) {
    if (!r || so_far > DEEP)
        return so_far;
    unsigned left = depth_of(r->left, so_far + 1), right = depth_of(r->right, so_far + 1);
    return left > right ? left : right;
}

Test(ranges, nothing_is_found_where_there_is_none) {
    ranges_init(&ranges);
    cr_assert_null(ranges_find(&ranges, address_of(0, 0)));
    cr_assert_null(ranges_find(&ranges, NULL));
    put(3);
    cr_assert_null(ranges_find(&ranges, address_of(2, APART - 1)));
    cr_assert_null(ranges_find(&ranges, NULL));
    expect_found(3);
    ranges_remove(&ranges, &range[3]);
    cr_assert_null(ranges_find(&ranges, address_of(3, 0)));
}

Test(ranges, each_of_many_is_found_while_some_come_and_go) {
    uint64_t random = 9;
    ranges_init(&ranges);
    for (unsigned n = 0; n < 20 * MANY; n++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        unsigned i = (unsigned)(random >> 33) % MANY;
        if (there[i])
            ranges_remove(&ranges, &range[i]);
        if (there[i])
            there[i] = false;
        else
            put(i);
        expect_found(i);
        expect_found((i + 1) % MANY);
    }
    for (unsigned i = 0; i < MANY; i++)
        expect_found(i);
    for (unsigned i = 0; i < MANY; i++)
        if (there[i])
            ranges_remove(&ranges, &range[i]);
    cr_assert_null(ranges.tree.root);
}

/* Mappings of one program mostly come side by side, in order. */
Test(ranges, few_steps_lead_to_any_of_many_that_came_in_order) {
    ranges_init(&ranges);
    for (unsigned i = 0; i < MANY; i++)
        put(i);
    cr_assert_leq(depth_of(ranges.tree.root, 0), DEEP);
    for (unsigned i = 0; i < MANY; i++) {
        if (i % 8)
            ranges_remove(&ranges, &range[i]);
        there[i] = i % 8 == 0;
    }
    cr_assert_leq(depth_of(ranges.tree.root, 0), DEEP);
    for (unsigned i = 0; i < MANY; i++)
        expect_found(i);
}

Test(ranges, of_two_that_are_the_same_each_is_found_and_goes) {
    struct range first = {.base = 1000, .bytes = 10}, second = first;
    ranges_init(&ranges);
    put(20);
    ranges_add(&ranges, &first);
    ranges_add(&ranges, &second);
    cr_assert_not_null(ranges_find(&ranges, (const void *)1005)); /* NOLINT */
    ranges_remove(&ranges, &first);
    cr_assert_eq(ranges_find(&ranges, (const void *)1005), &second); /* NOLINT */
    ranges_remove(&ranges, &second);
    cr_assert_null(ranges_find(&ranges, (const void *)1005)); /* NOLINT */
    expect_found(20);
}
