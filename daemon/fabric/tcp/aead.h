/* SPDX-License-Identifier: MIT */
/*
 * aead.h - the cipher of one direction of an encrypted connection: it seals bytes, or opens them
 * (authenticated encryption with associated data, RFC 5116).
 *
 * Two libraries do the work. libipsec-mb's AES-GCM is three to four times as fast as OpenSSL 3.0's,
 * where the build found it and the CPU has VAES with 512-bit registers. Everything else is
 * OpenSSL's. Both give the same bytes, so the two ends of a connection need not have the same.
 */
#ifndef RDMAD_FABRIC_TCP_AEAD_H
#define RDMAD_FABRIC_TCP_AEAD_H

#include "daemon/fabric/fabric.h"
#include <stdbool.h>
#include <stdint.h>

#define AEAD_TAG 16u
#define AEAD_NONCE 12u
#define AEAD_KEY_MAX 32u

enum aead_suite { AEAD_AES_128_GCM, AEAD_CHACHA20_POLY1305 };

struct aead {
    const struct aead_ops *ops;
};

/* nonce has AEAD_NONCE bytes and is never used twice with one key. `known` is authenticated, and
 * not encrypted. False: the library failed, or what is opened is not what was sealed; then the
 * output is worth nothing. */
struct aead_ops {
    enum fabric_encryption by;
    /* Encrypts n bytes in place; the tag goes right behind them. */
    bool (*seal)(struct aead *a, const uint8_t *nonce, const uint8_t *known, uint32_t known_size,
                 uint8_t *bytes, uint32_t n);
    /* Decrypts n bytes, which their tag follows, to `to`. */
    bool (*open)(struct aead *a, const uint8_t *nonce, const uint8_t *known, uint32_t known_size,
                 const uint8_t *bytes, uint32_t n, uint8_t *to);
    void (*free)(struct aead *a);
};

static inline unsigned aead_key_bytes(enum aead_suite suite) {
    return suite == AEAD_AES_128_GCM ? 16 : 32;
}

/* Wipes the key; NULL is none. */
static inline void aead_free(struct aead *a) {
    if (a)
        a->ops->free(a);
}

#endif
