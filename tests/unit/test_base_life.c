/* SPDX-License-Identifier: MIT */
/*
 * Lives of a node: the later one proves that the earlier is over, and nobody else can.
 */
#include "daemon/base/life.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const uint8_t secret[SHA256_BYTES] = {1, 2, 3};

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

static void expect_hash(const char *text, size_t times, const char *hex) {
    static char all[1000000];
    uint8_t hash[SHA256_BYTES];
    char is[2 * SHA256_BYTES + 1];
    size_t n = strlen(text);
    for (size_t i = 0; i < times; i++)
        memcpy(all + i * n, text, n);
    sha256(all, n * times, hash);
    for (unsigned i = 0; i < SHA256_BYTES; i++)
        snprintf(is + 2 * (size_t)i, 3, "%02x", hash[i]);
    cr_expect_str_eq(is, hex);
}

/* The examples of FIPS 180-4, and the lengths around a block's end. */
Test(life, the_hash_is_sha_256) {
    expect_hash("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_hash("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect_hash("a", 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    expect_hash("a", 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
    expect_hash("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
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
    for (unsigned i = 0; i < SHA256_BYTES; i++) {
        forged = two;
        forged.key[i] ^= 1;
        cr_expect_not(ends(&forged, &one), "byte %u", i);
    }
    forged = one; /* what everybody has seen, as if it were of a later life */
    forged.number = 2;
    cr_expect_not(ends(&forged, &one));
    struct life other;
    life_make((const uint8_t[SHA256_BYTES]){9}, 2, &other);
    cr_expect_not(ends(&other, &one));
    memcpy(other.node, one.node, sizeof(other.node));
    cr_expect_not(ends(&other, &one));
    struct life none = {0}, far = life(2 + LIFE_REACH);
    cr_expect_not(ends(&two, &none));
    cr_expect_not(ends(&far, &one), "compared further than is bounded");
}
