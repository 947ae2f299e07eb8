/* SPDX-License-Identifier: MIT */
/*
 * join_server.h - the CA's end of joining: request bytes in, reply bytes out.
 *
 * Taking the bytes belongs to the connection and never waits. The answer does: it signs, writes and
 * flushes files, and may wait up to PKI_LOCK_MS for whoever else changes what the CA has given out.
 * So it is for a thread that may wait. It shares nothing with other threads but the files, whose
 * lock orders it with other answers and with rdmactl. One request a connection.
 *
 * What is believed: of a request for a certificate its public key and the one name in it, nothing
 * else; that whoever sends a token's secret may join, once; that a certificate which TLS has
 * accepted speaks for its node. A name belongs to one key until its certificates have expired or
 * are revoked: so a stolen token cannot take another node's name.
 */
#ifndef RDMAD_PKI_JOIN_SERVER_H
#define RDMAD_PKI_JOIN_SERVER_H

#include "pki/join_message.h"
#include <openssl/x509.h>

struct join_server {
    struct join_inbox inbox;
};
void join_server_init(struct join_server *s);
void join_server_fini(struct join_server *s);

/* Bytes from the connection. 0: the request is whole. JOIN_MORE. RDMAD_E_*: it never will be, and
 * the connection is to be closed. */
int join_server_take(struct join_server *s, const void *bytes, size_t size, struct pki_error *err);

/* What became of a request, for the log. */
struct join_outcome {
    enum join_kind asked;          /* 0: it was malformed */
    int code;                      /* 0: granted */
    bool ours;                     /* not granted for what is wrong here, not with the request */
    char name[RDMAD_NAME_MAX + 1]; /* that was asked for; "": none was named */
    char text[RDMAD_TEXT_MAX + 1]; /* why not; may have more than the reply, which goes outside */
    int64_t not_after;             /* of what was granted */
};

/* Answers a whole request by the CA of that identity directory. shown: the certificate that came
 * with the connection and that TLS has accepted, NULL if none. Returns 0 with a reply to send,
 * whatever it says; RDMAD_E_NOMEM: there is none. */
int join_server_answer(const struct join_server *s, const char *dir, const X509 *shown, int64_t now,
                       struct join_bytes *reply, struct join_outcome *outcome);

#endif
