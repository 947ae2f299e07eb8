/* SPDX-License-Identifier: MIT */
/*
 * record.h - one record of an encrypted data connection, sealed or opened (TLS 1.3, RFC 8446,
 * sections 5.2 and 7).
 *
 * A record is a header, which anybody can read, and behind it sealed bytes: the content, one byte
 * that says of what type it is, and a tag. Nobody without the keys can make one, change one, or
 * have one taken out of its turn, for each is sealed under its own number. Each direction has keys
 * of its own, made from a secret; both ends take the next secret before the keys are worn out.
 */
#ifndef RDMAD_FABRIC_TCP_RECORD_H
#define RDMAD_FABRIC_TCP_RECORD_H

#include "daemon/fabric/tcp/aead.h"
#include <sys/types.h>

#define RECORD_HEADER 5u
#define RECORD_TAG AEAD_TAG
#define RECORD_CONTENT_MAX (16u << 10)
#define RECORD_INNER_MAX (RECORD_CONTENT_MAX + 1) /* content and type */
#define RECORD_MAX (RECORD_HEADER + RECORD_INNER_MAX + RECORD_TAG)
#define RECORD_SECRET_BYTES 32u
/* AES-GCM is good for 2^24 full records under one key (RFC 8446, 5.5). */
#define RECORD_KEY_LIFE (1u << 22)

enum record_type { RECORD_ALERT = 21, RECORD_HANDSHAKE = 22, RECORD_DATA = 23 };

struct record_keys { /* of one direction, at one end */
    struct aead *cipher;
    uint64_t number; /* of the next record under these keys */
    enum aead_suite suite;
    bool seals;
    uint8_t nonce[AEAD_NONCE];
    uint8_t secret[RECORD_SECRET_BYTES];
};

/* For sealing or for opening. False: no memory; then there is nothing to end. */
bool record_keys_init(struct record_keys *k, enum aead_suite suite,
                      const uint8_t secret[RECORD_SECRET_BYTES], bool seals);
void record_keys_fini(struct record_keys *k); /* wipes them; once is enough, twice is harmless */
/* The keys that follow. False: no memory. */
bool record_keys_next(struct record_keys *k);

/* Seals in place: at has RECORD_HEADER bytes of room, then n bytes (at most RECORD_CONTENT_MAX),
 * then room for 1 + RECORD_TAG more. Returns the record's size, 0 if the library fails. */
uint32_t record_seal(struct record_keys *k, enum record_type type, uint8_t *at, uint32_t n);

/* How long the record is of which n bytes are at from; 0: it cannot be told yet. NULL in *wrong, or
 * why it is none. */
uint32_t record_size(const uint8_t *from, size_t n, const char **wrong);
/* Opens a record of that size into to, which has room for size - RECORD_HEADER - RECORD_TAG bytes.
 * Returns how many bytes its content has, -1 if it is not the peer's next record; then what is in
 * to is worth nothing. */
ssize_t record_open(struct record_keys *k, const uint8_t *record, uint32_t size, uint8_t *to,
                    enum record_type *type);

#endif
