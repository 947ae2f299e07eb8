/* SPDX-License-Identifier: MIT */
/*
 * record.c - seals and opens records.
 *
 * The nonce of a record is the direction's, with the record's number xored into its end. The header
 * is authenticated with the rest. Padding is read, and never written.
 */
#include "daemon/fabric/tcp/record.h"
#include "daemon/fabric/tcp/cipher.h"
#include <assert.h>
#include <endian.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#define LABEL_MAX 16u

/* HKDF-Expand-Label by SHA-256, which both suites use, with an empty context, for at most one hash
 * of output. */
static bool expand(const uint8_t secret[RECORD_SECRET_BYTES], const char *label, uint8_t *out,
                   unsigned n) {
    static const char prefix[] = "tls13 ";
    uint8_t info[4 + sizeof prefix + LABEL_MAX], made[RECORD_SECRET_BYTES];
    size_t length = sizeof prefix - 1 + strlen(label), at = 0;
    assert(n <= sizeof made && strlen(label) <= LABEL_MAX);
    info[at++] = 0;
    info[at++] = (uint8_t)n;
    info[at++] = (uint8_t)length;
    memcpy(info + at, prefix, sizeof prefix - 1);
    memcpy(info + at + sizeof prefix - 1, label, strlen(label));
    at += length;
    info[at++] = 0; /* the context's length */
    info[at++] = 1; /* the first block */
    unsigned size = sizeof made;
    bool good = HMAC(EVP_sha256(), secret, (int)RECORD_SECRET_BYTES, info, at, made, &size) != NULL;
    if (good)
        memcpy(out, made, n);
    explicit_bzero(made, sizeof made);
    return good;
}

/* Key and nonce of k's secret. */
static bool keys_make(struct record_keys *k) {
    uint8_t key[AEAD_KEY_MAX];
    aead_free(k->cipher);
    k->cipher = NULL;
    if (expand(k->secret, "key", key, aead_key_bytes(k->suite)) &&
        expand(k->secret, "iv", k->nonce, sizeof k->nonce))
        k->cipher = cipher_new(k->suite, key, k->seals);
    explicit_bzero(key, sizeof key);
    k->number = 0;
    return k->cipher != NULL;
}

bool record_keys_init(struct record_keys *k, enum aead_suite suite,
                      const uint8_t secret[RECORD_SECRET_BYTES], bool seals) {
    *k = (struct record_keys){.suite = suite, .seals = seals};
    memcpy(k->secret, secret, RECORD_SECRET_BYTES);
    if (keys_make(k))
        return true;
    record_keys_fini(k);
    return false;
}

void record_keys_fini(struct record_keys *k) {
    aead_free(k->cipher);
    explicit_bzero(k, sizeof *k);
}

bool record_keys_next(struct record_keys *k) {
    uint8_t next[RECORD_SECRET_BYTES];
    bool good = expand(k->secret, "traffic upd", next, sizeof next);
    if (good)
        memcpy(k->secret, next, sizeof next);
    explicit_bzero(next, sizeof next);
    return good && keys_make(k);
}

/* Of the next record. */
static void nonce_next(struct record_keys *k, uint8_t nonce[AEAD_NONCE]) {
    uint64_t number = htobe64(k->number++), end;
    memcpy(nonce, k->nonce, AEAD_NONCE);
    memcpy(&end, nonce + 4, sizeof end);
    end ^= number;
    memcpy(nonce + 4, &end, sizeof end);
}

uint32_t record_seal(struct record_keys *k, enum record_type type, uint8_t *at, uint32_t n) {
    uint8_t *content = at + RECORD_HEADER, nonce[AEAD_NONCE];
    uint32_t inner = n + 1, sealed = inner + RECORD_TAG;
    assert(k->seals && n <= RECORD_CONTENT_MAX);
    content[n] = (uint8_t)type;
    at[0] = RECORD_DATA; /* whatever it is */
    at[1] = at[2] = 3;
    at[3] = (uint8_t)(sealed >> 8);
    at[4] = (uint8_t)sealed;
    nonce_next(k, nonce);
    bool good = k->cipher->ops->seal(k->cipher, nonce, at, RECORD_HEADER, content, inner);
    return good ? RECORD_HEADER + sealed : 0;
}

uint32_t record_size(const uint8_t *from, size_t n, const char **wrong) {
    *wrong = NULL;
    if (n < RECORD_HEADER)
        return 0;
    uint32_t sealed = (uint32_t)from[3] << 8 | from[4];
    if (from[0] != RECORD_DATA || from[1] != 3 || from[2] != 3)
        *wrong = "it sent something that is not encrypted";
    else if (sealed <= RECORD_TAG || sealed > RECORD_INNER_MAX + RECORD_TAG)
        *wrong = "it sent a record of a size that none has";
    return RECORD_HEADER + sealed;
}

ssize_t record_open(struct record_keys *k, const uint8_t *record, uint32_t size, uint8_t *to,
                    enum record_type *type) {
    uint32_t inner = size - RECORD_HEADER - RECORD_TAG;
    const uint8_t *sealed = record + RECORD_HEADER;
    uint8_t nonce[AEAD_NONCE];
    assert(!k->seals && size > RECORD_HEADER + RECORD_TAG);
    nonce_next(k, nonce);
    if (!k->cipher->ops->open(k->cipher, nonce, record, RECORD_HEADER, sealed, inner, to))
        return -1;
    while (inner > 0 && to[inner - 1] == 0) /* padding */
        inner--;
    if (inner == 0)
        return -1;
    *type = (enum record_type)to[inner - 1];
    return (ssize_t)inner - 1;
}
