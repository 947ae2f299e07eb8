/* SPDX-License-Identifier: MIT */
/*
 * sha256.h - SHA-256 (FIPS 180-4) of a few bytes, for what must not be guessed from what was shown.
 *
 * Our own, because nothing that rdmad links has one that may be relied on: the kernel's (AF_ALG) is
 * a module that may be missing or forbidden, and a TLS library for one function is much.
 */
#ifndef RDMAD_BASE_SHA256_H
#define RDMAD_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32u

void sha256(const void *data, size_t size, uint8_t out[SHA256_BYTES]);

#endif
