/* SPDX-License-Identifier: MIT */
/*
 * tls.h - one end of a TLS 1.3 connection as a machine over bytes: records in, plain bytes out, and
 * the other way round. It knows no socket, no loop and no peer.
 *
 * Both ends show a certificate and judge the other's, by the context that they are made with. There
 * is no renegotiation in TLS 1.3, no session is resumed and no early data is taken, so nothing of
 * one connection is of use in another.
 *
 * Records are taken one by one, so whoever calls decides how much is done at a time: a record costs
 * what its 16 KiB cost, whatever is in it. Records that bring no bytes (changes of keys) are few,
 * or the connection is broken.
 *
 * One thread at a time. tls_shake computes with private keys, which takes up to some milliseconds.
 */
#ifndef RDMAD_PEER_CONTROL_TLS_H
#define RDMAD_PEER_CONTROL_TLS_H

#include "daemon/base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_RECORD_HEAD 5u
#define TLS_PLAIN_MAX 16384u
#define TLS_RECORD_MAX (TLS_RECORD_HEAD + TLS_PLAIN_MAX + 256u)

struct tls;
struct ssl_st;
struct ssl_ctx_st;

/* NULL: out of memory. context: SSL_CTX; tls holds it. */
struct tls *tls_new(struct ssl_ctx_st *context, bool accepts);
void tls_free(struct tls *t);

/* Of the record that begins so; 0: no TLS record begins so. */
size_t tls_record_length(const uint8_t head[TLS_RECORD_HEAD]);

enum tls_step { TLS_WAITS, TLS_OPEN, TLS_BROKEN };
/* The handshake goes on with what has come, in whole records; *used says how much of it was taken.
 * The dialler's begins with nothing. What is to be sent is in tls_output afterwards, also when it
 * is broken: then why has a sentence, and cause a word for the audit log. */
struct tls_failure {
    struct error why;
    const char *cause;
};
enum tls_step tls_shake(struct tls *t, const uint8_t *in, size_t size, size_t *used,
                        struct tls_failure *failure);

/* Opens one whole record. *size: how many bytes of it are in plain, perhaps none. */
int tls_open_record(struct tls *t, const uint8_t *record, size_t length,
                    uint8_t plain[TLS_PLAIN_MAX], size_t *size, struct error *err);
/* Puts data into records. False: out of memory, or it is broken. */
bool tls_seal(struct tls *t, const void *data, size_t size);
/* Takes up to max bytes of what is to be sent. */
size_t tls_output(struct tls *t, uint8_t *out, size_t max);

/* For what is asked of OpenSSL itself: the other end's certificate, keys of this connection. */
struct ssl_st *tls_ssl(struct tls *t);

#endif
