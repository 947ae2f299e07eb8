/* SPDX-License-Identifier: MIT */
/*
 * Lives of a node: the later one proves that the earlier is over, and nobody else can.
 */
#include "daemon/base/life.h"
#include <criterion/criterion.h>
#include <string.h>

static const uint8_t secret[HASH_BYTES] = {1, 2, 3};

static struct life life(uint32_t number) {
    struct life l;
    life_make(secret, number, &l);
    return l;
}

static bool ends(const struct life *later, const struct life *earlier) {
    struct life_past past;
    life_recall(later, &past);
    return life_follows(&past, earlier);
}

Test(life, a_later_life_of_the_node_ends_the_earlier_ones) {
    struct life one = life(1), two = life(2), far = life(1 + LIFE_REACH);
    cr_expect(ends(&two, &one));
    cr_expect(ends(&far, &one));
    cr_expect_not(ends(&one, &two));
    cr_expect(life_is(&two, &two));
    cr_expect_not(life_is(&two, &one));
    struct life last = life(LIFE_LAST), before = life(LIFE_LAST - 1);
    cr_expect(ends(&last, &before));
}

Test(life, what_is_made_up_or_copied_ends_nothing) {
    struct life one = life(1), two = life(2), forged = two;
    for (unsigned i = 0; i < HASH_BYTES; i++) {
        forged = two;
        forged.key[i] ^= 1;
        cr_expect_not(ends(&forged, &one), "byte %u", i);
    }
    forged = one; /* what everybody has seen, as if it were of a later life */
    forged.number = 2;
    cr_expect_not(ends(&forged, &one));
    struct life other;
    life_make((const uint8_t[HASH_BYTES]){9}, 2, &other);
    cr_expect_not(ends(&other, &one));
    memcpy(other.node, one.node, sizeof(other.node));
    cr_expect_not(ends(&other, &one));
    struct life none = {0}, far = life(2 + LIFE_REACH);
    cr_expect_not(ends(&two, &none));
    cr_expect_not(ends(&far, &one), "compared further than is bounded");
}
