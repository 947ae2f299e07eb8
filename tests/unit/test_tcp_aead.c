/* SPDX-License-Identifier: MIT */
/*
 * Two libraries seal and open records: each opens what the other has sealed, neither what was
 * changed, and both give what the standard's example says.
 */
#include "daemon/fabric/tcp/aead_ipsec_mb.h"
#include "daemon/fabric/tcp/aead_openssl.h"
#include "daemon/fabric/tcp/cipher.h"
#include "tests/unit/tcp_pair.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define MOST 16400u

typedef struct aead *maker(enum aead_suite suite, const uint8_t *key, bool seals);
static maker *const makers[] = {aead_openssl, aead_ipsec_mb};

static const uint8_t key[AEAD_KEY_MAX] = {5, 6, 7}, nonce[AEAD_NONCE] = {8, 9};
static const uint8_t header[5] = {23, 3, 3, 64, 17};

static bool ipsec_mb_there(void) {
    struct aead *a = aead_ipsec_mb(AEAD_AES_128_GCM, key, true);
    aead_free(a);
    return a != NULL;
}

static void note_when_alone(void) {
    if (!ipsec_mb_there())
        puts("skipped for libipsec-mb: the build or this CPU has not what it needs");
}

static bool seal(struct aead *a, uint8_t *bytes, uint32_t n) {
    return a->ops->seal(a, nonce, header, sizeof header, bytes, n);
}

static bool opens(struct aead *a, const uint8_t *bytes, uint32_t n, uint8_t *to) {
    return a->ops->open(a, nonce, header, sizeof header, bytes, n, to);
}

/* All sizes near the steps in which ciphers work. */
static void each_understands(enum aead_suite suite, maker *sealer, maker *opener) {
    static uint8_t said[MOST], sealed[MOST + AEAD_TAG], heard[MOST];
    struct aead *one = sealer(suite, key, true), *two = opener(suite, key, false);
    if (!one || !two) {
        aead_free(one);
        aead_free(two);
        return;
    }
    for (uint32_t n = 1; n <= MOST; n += n < 600 ? 1 : n < MOST - 40 ? 997 : 1) {
        random_fill(said, n, n);
        memcpy(sealed, said, n);
        cr_assert(seal(one, sealed, n));
        cr_assert(n < 16 || memcmp(sealed, said, n) != 0, "%u bytes are in clear", n);
        memset(heard, 0, sizeof heard);
        cr_assert(opens(two, sealed, n, heard), "%u bytes", n);
        cr_assert_arr_eq(heard, said, n);
    }
    aead_free(one);
    aead_free(two);
}

Test(tcp_aead, each_library_opens_what_the_other_has_sealed) {
    note_when_alone();
    for (unsigned s = 0; s < 2; s++)
        for (unsigned i = 0; i < 4; i++)
            each_understands((enum aead_suite)s, makers[i / 2], makers[i % 2]);
}

Test(tcp_aead, what_was_changed_is_not_opened) {
    note_when_alone();
    for (unsigned i = 0; i < 4; i++) {
        enum aead_suite suite = i / 2 ? AEAD_CHACHA20_POLY1305 : AEAD_AES_128_GCM;
        uint8_t bytes[100 + AEAD_TAG], to[100], other[sizeof header];
        struct aead *one = makers[i % 2](suite, key, true), *two = makers[i % 2](suite, key, false);
        if (!one)
            continue;
        random_fill(bytes, 100, i);
        cr_assert(seal(one, bytes, 100));
        for (unsigned bit = 0; bit < 8 * sizeof bytes; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            cr_assert_not(opens(two, bytes, 100, to), "bit %u was changed", bit);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        memcpy(other, header, sizeof other);
        other[3] ^= 1;
        cr_assert_not(two->ops->open(two, nonce, other, sizeof other, bytes, 100, to), "a header");
        cr_assert_not(two->ops->open(two, key, header, sizeof header, bytes, 100, to), "a number");
        cr_assert(opens(two, bytes, 100, to), "one that was refused breaks nothing");
        aead_free(one);
        aead_free(two);
    }
}

/* Test case 4 of McGrew and Viega, The Galois/Counter Mode of Operation. */
Test(tcp_aead, it_is_the_standards_cipher) {
    static const uint8_t k[16] = {0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c,
                                  0x6d, 0x6a, 0x8f, 0x94, 0x67, 0x30, 0x83, 0x08};
    static const uint8_t iv[AEAD_NONCE] = {0xca, 0xfe, 0xba, 0xbe, 0xfa, 0xce,
                                           0xdb, 0xad, 0xde, 0xca, 0xf8, 0x88};
    static const uint8_t known[20] = {0xfe, 0xed, 0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xfe, 0xed,
                                      0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xab, 0xad, 0xda, 0xd2};
    static const uint8_t clear[60] = {
        0xd9, 0x31, 0x32, 0x25, 0xf8, 0x84, 0x06, 0xe5, 0xa5, 0x59, 0x09, 0xc5, 0xaf, 0xf5, 0x26,
        0x9a, 0x86, 0xa7, 0xa9, 0x53, 0x15, 0x34, 0xf7, 0xda, 0x2e, 0x4c, 0x30, 0x3d, 0x8a, 0x31,
        0x8a, 0x72, 0x1c, 0x3c, 0x0c, 0x95, 0x95, 0x68, 0x09, 0x53, 0x2f, 0xcf, 0x0e, 0x24, 0x49,
        0xa6, 0xb5, 0x25, 0xb1, 0x6a, 0xed, 0xf5, 0xaa, 0x0d, 0xe6, 0x57, 0xba, 0x63, 0x7b, 0x39};
    static const uint8_t tag[AEAD_TAG] = {0x5b, 0xc9, 0x4f, 0xbc, 0x32, 0x21, 0xa5, 0xdb,
                                          0x94, 0xfa, 0xe9, 0x5a, 0xe7, 0x12, 0x1a, 0x47};
    note_when_alone();
    for (unsigned i = 0; i < 2; i++) {
        uint8_t bytes[sizeof clear + AEAD_TAG];
        struct aead *a = makers[i](AEAD_AES_128_GCM, k, true);
        if (!a)
            continue;
        memcpy(bytes, clear, sizeof clear);
        cr_assert(a->ops->seal(a, iv, known, sizeof known, bytes, sizeof clear));
        cr_assert_eq(bytes[0], 0x42);
        cr_assert_arr_eq(bytes + sizeof clear, tag, AEAD_TAG);
        aead_free(a);
    }
}

Test(tcp_aead, the_faster_library_is_taken_where_it_works) {
    enum fabric_encryption wanted = ipsec_mb_there() ? FABRIC_IPSEC_MB : FABRIC_OPENSSL;
    cr_assert_eq(cipher_library(AEAD_AES_128_GCM), wanted);
    cr_assert_eq(cipher_library(AEAD_CHACHA20_POLY1305), FABRIC_OPENSSL);
    struct aead *a = cipher_new(AEAD_AES_128_GCM, key, true);
    cr_assert_eq(a->ops->by, wanted);
    aead_free(a);
}
