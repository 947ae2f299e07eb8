/* SPDX-License-Identifier: MIT */
/*
 * aead_openssl.h - both suites by OpenSSL.
 */
#ifndef RDMAD_FABRIC_TCP_AEAD_OPENSSL_H
#define RDMAD_FABRIC_TCP_AEAD_OPENSSL_H

#include "daemon/fabric/tcp/aead.h"

/* NULL: no memory. */
struct aead *aead_openssl(enum aead_suite suite, const uint8_t *key, bool seals);

#endif
