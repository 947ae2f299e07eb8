/* SPDX-License-Identifier: MIT */
/*
 * aead_ipsec_mb.h - AES-128-GCM by libipsec-mb, where the build and the CPU have what it needs.
 */
#ifndef RDMAD_FABRIC_TCP_AEAD_IPSEC_MB_H
#define RDMAD_FABRIC_TCP_AEAD_IPSEC_MB_H

#include "daemon/fabric/tcp/aead.h"

/* NULL: no memory, another suite, or not here. */
struct aead *aead_ipsec_mb(enum aead_suite suite, const uint8_t *key, bool seals);

#endif
