/* SPDX-License-Identifier: MIT */
/*
 * record.c - seals and opens records by OpenSSL's ciphers.
 *
 * The nonce of a record is the direction's, with the record's number xored into its end. The header
 * is authenticated with the rest. Padding is read, and never written.
 */
#include "daemon/fabric/tcp/record.h"
#include <assert.h>
#include <endian.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#define KEY_MAX 32u
#define LABEL_MAX 16u

static const EVP_CIPHER *cipher_of(enum record_suite suite) {
    return suite == RECORD_AES_128_GCM ? EVP_aes_128_gcm() : EVP_chacha20_poly1305();
}

static unsigned key_bytes(enum record_suite suite) {
    return suite == RECORD_AES_128_GCM ? 16 : 32;
}

/* HKDF-Expand-Label with an empty context, for at most one hash of output. */
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
    uint8_t key[KEY_MAX];
    bool good = expand(k->secret, "key", key, key_bytes(k->suite)) &&
                expand(k->secret, "iv", k->nonce, sizeof k->nonce) &&
                EVP_CipherInit_ex(k->cipher, cipher_of(k->suite), NULL, key, NULL, k->seals) == 1;
    explicit_bzero(key, sizeof key);
    k->number = 0;
    return good;
}

bool record_keys_init(struct record_keys *k, enum record_suite suite,
                      const uint8_t secret[RECORD_SECRET_BYTES], bool seals) {
    *k = (struct record_keys){.cipher = EVP_CIPHER_CTX_new(), .suite = suite, .seals = seals};
    memcpy(k->secret, secret, RECORD_SECRET_BYTES);
    if (k->cipher && keys_make(k))
        return true;
    record_keys_fini(k);
    return false;
}

void record_keys_fini(struct record_keys *k) {
    EVP_CIPHER_CTX_free(k->cipher);
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

/* Begins the next record: its nonce, then its header. */
static bool begin(struct record_keys *k, const uint8_t *header) {
    uint8_t nonce[RECORD_NONCE_BYTES];
    uint64_t number = htobe64(k->number++), end;
    memcpy(nonce, k->nonce, sizeof nonce);
    memcpy(&end, nonce + 4, sizeof end);
    end ^= number;
    memcpy(nonce + 4, &end, sizeof end);
    int n;
    return EVP_CipherInit_ex(k->cipher, NULL, NULL, NULL, nonce, -1) == 1 &&
           EVP_CipherUpdate(k->cipher, NULL, &n, header, (int)RECORD_HEADER) == 1;
}

uint32_t record_seal(struct record_keys *k, enum record_type type, uint8_t *at, uint32_t n) {
    uint8_t *content = at + RECORD_HEADER;
    uint32_t inner = n + 1, sealed = inner + RECORD_TAG;
    int done, rest;
    assert(k->seals && n <= RECORD_CONTENT_MAX);
    content[n] = (uint8_t)type;
    at[0] = RECORD_DATA; /* whatever it is */
    at[1] = at[2] = 3;
    at[3] = (uint8_t)(sealed >> 8);
    at[4] = (uint8_t)sealed;
    if (!begin(k, at) || EVP_CipherUpdate(k->cipher, content, &done, content, (int)inner) != 1 ||
        EVP_CipherFinal_ex(k->cipher, content + done, &rest) != 1 ||
        EVP_CIPHER_CTX_ctrl(k->cipher, EVP_CTRL_AEAD_GET_TAG, (int)RECORD_TAG, content + inner) !=
            1)
        return 0;
    return RECORD_HEADER + sealed;
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
    uint8_t tag[RECORD_TAG];
    int done, rest;
    assert(!k->seals && size > RECORD_HEADER + RECORD_TAG);
    memcpy(tag, sealed + inner, sizeof tag);
    if (!begin(k, record) || EVP_CipherUpdate(k->cipher, to, &done, sealed, (int)inner) != 1 ||
        EVP_CIPHER_CTX_ctrl(k->cipher, EVP_CTRL_AEAD_SET_TAG, (int)sizeof tag, tag) != 1 ||
        EVP_CipherFinal_ex(k->cipher, to + done, &rest) != 1)
        return -1;
    while (inner > 0 && to[inner - 1] == 0) /* padding */
        inner--;
    if (inner == 0)
        return -1;
    *type = (enum record_type)to[inner - 1];
    return (ssize_t)inner - 1;
}
