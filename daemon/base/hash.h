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

#endif
