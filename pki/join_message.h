/* SPDX-License-Identifier: MIT */
/*
 * join_message.h - what a node that joins or renews and the node of the CA say to each other, over
 * a TLS connection of its own: one request, one reply.
 *
 * A message is, with numbers in network order:
 *
 *   u32 length of what follows; "RDJN"; u16 version; u16 kind; then, by kind:
 *   JOIN     token id, token secret, blob: request for a certificate (PKCS #10)
 *   RENEW    blob: request for a certificate
 *   LIST     nothing
 *   GRANTED  blob: certificate, blob: the CA's certificate, blob: list of revoked ones (CRL)
 *   LISTED   blob: list of revoked ones
 *   REFUSED  i32 RDMAD_E_*, blob: sentence
 *
 * A blob is a u32 length and as many bytes, DER or text. Nothing may follow. Parsed messages point
 * into the bytes that they were parsed from.
 */
#ifndef RDMAD_PKI_JOIN_MESSAGE_H
#define RDMAD_PKI_JOIN_MESSAGE_H

#include "pki/error.h"
#include "pki/token.h"
#include <stdint.h>

#define JOIN_VERSION 1u
#define JOIN_REQUEST_MAX 16384u /* bytes, all in all */
#define JOIN_REPLY_MAX 131072u

enum join_kind {
    JOIN_TOKEN = 1,
    JOIN_RENEW = 2,
    JOIN_LIST = 3,
    JOIN_GRANTED = 17,
    JOIN_LISTED = 18,
    JOIN_REFUSED = 19,
};

struct join_blob {
    const uint8_t *data;
    size_t size;
};

struct join_message {
    enum join_kind kind;
    uint8_t id[PKI_TOKEN_ID_BYTES]; /* JOIN_TOKEN */
    uint8_t secret[PKI_TOKEN_SECRET_BYTES];
    struct join_blob request;        /* JOIN_TOKEN, JOIN_RENEW */
    struct join_blob cert, ca, list; /* JOIN_GRANTED; list also of JOIN_LISTED */
    int code;                        /* JOIN_REFUSED */
    char text[RDMAD_TEXT_MAX + 1];   /* printable */
};

struct join_bytes {
    uint8_t *data;
    size_t size;
};
void join_bytes_free(struct join_bytes *bytes);

/* A fresh buffer with the whole message. */
int join_message_print(const struct join_message *m, struct join_bytes *out, struct pki_error *err);
/* Parses a whole message, length included. RDMAD_E_VERSION, RDMAD_E_TYPE, RDMAD_E_PROTOCOL. */
int join_message_parse(const uint8_t *data, size_t size, struct join_message *out,
                       struct pki_error *err);

/* Collects one message from a stream; at most max bytes are ever held. */
struct join_inbox {
    uint8_t *data;
    size_t used, room; /* room: 4 until the length is known */
    size_t max;
    uint8_t head[4];
};
#define JOIN_MORE 1 /* it is not whole yet */
void join_inbox_init(struct join_inbox *in, size_t max);
void join_inbox_fini(struct join_inbox *in);
/* 0: the message is whole, in data and room. JOIN_MORE. RDMAD_E_LENGTH: too long, or something
 * follows it; RDMAD_E_NOMEM. */
int join_inbox_take(struct join_inbox *in, const uint8_t *bytes, size_t size,
                    struct pki_error *err);

#endif
