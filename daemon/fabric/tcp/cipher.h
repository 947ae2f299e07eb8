/* SPDX-License-Identifier: MIT */
/*
 * cipher.h - which library encrypts.
 *
 * libipsec-mb's AES-GCM is three to four times as fast as OpenSSL 3.0's, where the build found it
 * and the CPU has VAES with 512-bit registers. Everything else is OpenSSL's.
 */
#ifndef RDMAD_FABRIC_TCP_CIPHER_H
#define RDMAD_FABRIC_TCP_CIPHER_H

#include "daemon/fabric/tcp/aead.h"

/* For sealing or for opening, by the library that is faster here. NULL: no memory. */
struct aead *cipher_new(enum aead_suite suite, const uint8_t *key, bool seals);
/* Which library that is. Any thread. */
enum fabric_encryption cipher_library(enum aead_suite suite);

#endif
