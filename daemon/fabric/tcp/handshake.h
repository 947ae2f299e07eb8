/* SPDX-License-Identifier: MIT */
/*
 * handshake.h - two engines agree on keys for a data connection: TLS 1.3 by OpenSSL, with no socket
 * and no certificate.
 *
 * What proves who is there is a key of 256 random bits that came with the offer over the control
 * connection, and that is good for one handshake (an external pre-shared key). An exchange of
 * X25519 goes with it, so nobody who learns that key later can read what was sent. Without the key
 * there is no handshake: an end takes no certificate instead.
 *
 * Bytes go in and come out; who has the socket moves them. A handshake takes a bounded number of
 * bytes, and each step costs some 100 us at most. What is left of it are two secrets, for record.h.
 */
#ifndef RDMAD_FABRIC_TCP_HANDSHAKE_H
#define RDMAD_FABRIC_TCP_HANDSHAKE_H

#include "daemon/base/error.h"
#include "daemon/fabric/tcp/record.h"

#define HANDSHAKE_KEY_BYTES 32u
#define HANDSHAKE_READ 1024u /* bytes that a step takes at most: a whole flight is less */
#define HANDSHAKE_MAX 4096u  /* that a handshake takes at most: the two flights are some 600 */
#define HANDSHAKE_SEND 1024u /* of one flight of ours */

struct handshake;
struct ssl_ctx_st; /* what an instance needs for handshakes */

struct handshake_keys {
    enum aead_suite suite;
    uint8_t dialler[RECORD_SECRET_BYTES], acceptor[RECORD_SECRET_BYTES];
};

enum handshake_state { HANDSHAKE_GOES_ON, HANDSHAKE_DONE, HANDSHAKE_FAILED };

/* Which a dialler on this machine prefers, because it is the faster one; the acceptor takes that.
 */
enum aead_suite handshake_suite(void);

int handshakes_open(struct ssl_ctx_st **out, struct error *err);
void handshakes_close(struct ssl_ctx_st *context); /* NULL is none */

/* Each end makes one, with the same key. NULL: no memory. */
struct handshake *handshake_new(struct ssl_ctx_st *context, bool dials,
                                const uint8_t key[HANDSHAKE_KEY_BYTES]);
void handshake_free(struct handshake *h); /* wipes what it knew; NULL is none */
/* Takes n bytes of the other end, at most HANDSHAKE_READ; the dialler begins with none. There may
 * be something to send afterwards, even if it has failed (an alert). */
enum handshake_state handshake_step(struct handshake *h, const uint8_t *in, size_t n);
/* What is to be sent, at most HANDSHAKE_SEND bytes. Returns how many. */
size_t handshake_take(struct handshake *h, uint8_t to[HANDSHAKE_SEND]);
const char *handshake_why(const struct handshake *h); /* why it has failed */
/* Once it is done: the secrets, and those of the bytes taken that came after it (at most
 * HANDSHAKE_READ). Returns how many those are. */
size_t handshake_result(struct handshake *h, struct handshake_keys *keys,
                        uint8_t rest[HANDSHAKE_READ]);

#endif
