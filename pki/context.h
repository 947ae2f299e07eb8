/* SPDX-License-Identifier: MIT */
/*
 * context.h - TLS between daemons, ready to be used with an identity.
 *
 * TLS 1.3 only, both sides with a certificate, judged by trust/ and revoked.crl: dates, purpose,
 * chain, and that it names a node. No resumption and no early data, so nothing of an earlier
 * connection is good for a later one. The protocol is agreed by ALPN: who asks for none of ours is
 * refused in the handshake. "rdmad-peer/1" is what daemons speak. "rdmad-join/1" is for nodes that
 * join or renew (pki/join.h); only a daemon with the CA's key offers it, and there alone a client
 * may have no certificate; one that it does show is judged as any.
 *
 * A context is made once for each identity that is loaded; connections keep the one that they were
 * made with. It may be used by any thread, an SSL by one at a time.
 *
 * A connection: SSL_new(ctx), SSL_set_accept_state or SSL_set_connect_state, the handshake; if that
 * fails pki_why (pki/reason.h) says why; when it is done pki_established judges the whole, and
 * nothing may be said or believed before that returned 0.
 */
#ifndef RDMAD_PKI_CONTEXT_H
#define RDMAD_PKI_CONTEXT_H

#include "pki/identity.h"
#include "pki/reason.h"
#include <openssl/ssl.h>

#define PKI_ALPN_PEER "rdmad-peer/1"
#define PKI_ALPN_JOIN "rdmad-join/1"

enum pki_protocol { PKI_PEER, PKI_JOIN };

/* Each makes a context, the caller's (SSL_CTX_free). The identity may be freed before it. */
int pki_server_context(const struct pki_identity *id, SSL_CTX **out, struct pki_error *err);
int pki_client_context(const struct pki_identity *id, enum pki_protocol protocol, SSL_CTX **out,
                       struct pki_error *err);
/* For who has no identity yet: no certificate of its own, PKI_JOIN, and the server's chain must end
 * in the certificate of that fingerprint and be that of the join service. The fingerprint
 * (PKI_FINGERPRINT_BYTES) must live as long as the context. */
int pki_stranger_context(const uint8_t *fingerprint, SSL_CTX **out, struct pki_error *err);

/* What is known of the other side once the handshake is done. */
struct pki_peer {
    enum pki_protocol protocol;
    char name[RDMAD_NAME_MAX + 1]; /* of its certificate; "" (PKI_JOIN, as server): it has none */
    int64_t not_after;             /* of its certificate */
    int64_t until;                 /* the earliest such date of those that speak for it */
    bool serves_joins;
};

/* Judges an SSL whose handshake is done: version, protocol, certificate. 0, or the connection has
 * to be closed. */
int pki_established(const SSL *ssl, struct pki_peer *out, struct pki_error *err);

/* Whether a certificate that was accepted once would still be, after another identity was loaded:
 * for connections that live on. chain (may be NULL): what came with it (SSL_get_peer_cert_chain).
 */
int pki_check(const struct pki_identity *id, X509 *cert, STACK_OF(X509) * chain,
              struct pki_error *err);
/* *until: the earliest not_after of it and those that speak for it. */
int pki_check_until(const struct pki_identity *id, X509 *cert, STACK_OF(X509) * chain,
                    int64_t *until, struct pki_error *err);

#endif
