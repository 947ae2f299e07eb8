/* SPDX-License-Identifier: MIT */
/*
 * hash.h - SHA-256 (FIPS 180-4) of a few bytes, for what must not be guessed from what was shown.
 *
 * By libmd, whose functions need no memory and cannot fail, because anybody who connects makes us
 * call them.
 */
#ifndef RDMAD_BASE_HASH_H
#define RDMAD_BASE_HASH_H

#include <sha2.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_BYTES SHA256_DIGEST_LENGTH

static inline void hash_bytes(const void *data, size_t size, uint8_t out[HASH_BYTES]) {
    SHA2_CTX ctx;
    SHA256Init(&ctx);
    SHA256Update(&ctx, data, size);
    SHA256Final(out, &ctx);
}

/* HMAC-SHA-256 (RFC 2104). */
static inline void hash_keyed(const uint8_t key[HASH_BYTES], const void *data, size_t size,
                              uint8_t out[HASH_BYTES]) {
    uint8_t pad[SHA256_BLOCK_LENGTH];
    SHA2_CTX ctx;
    for (size_t i = 0; i < sizeof(pad); i++)
        pad[i] = (uint8_t)((i < HASH_BYTES ? key[i] : 0) ^ 0x36);
    SHA256Init(&ctx);
    SHA256Update(&ctx, pad, sizeof(pad));
    SHA256Update(&ctx, data, size);
    SHA256Final(out, &ctx);
    for (size_t i = 0; i < sizeof(pad); i++)
        pad[i] ^= 0x36 ^ 0x5c;
    SHA256Init(&ctx);
    SHA256Update(&ctx, pad, sizeof(pad));
    SHA256Update(&ctx, out, HASH_BYTES);
    SHA256Final(out, &ctx);
}

#endif
