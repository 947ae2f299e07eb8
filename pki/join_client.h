/* SPDX-License-Identifier: MIT */
/*
 * join_client.h - a node's end of joining and renewing: what it asks, how it judges the reply, and
 * what it keeps of it in the identity directory. No sockets.
 *
 * The key is made here and never leaves. What the reply says is believed only as far as it is
 * signed by the CA that the token names, or that signed this node's certificate before.
 *
 * Renewal keeps the key, so that only one file changes: node.crt.
 */
#ifndef RDMAD_PKI_JOIN_CLIENT_H
#define RDMAD_PKI_JOIN_CLIENT_H

#include "pki/identity.h"
#include "pki/join_message.h"

/* What a request is about, until the reply is kept. */
struct join_client {
    struct pki_dir dir;
    char name[RDMAD_NAME_MAX + 1];
    EVP_PKEY *key;
    X509 *ca;                                   /* JOIN_RENEW, JOIN_LIST: whose reply is believed */
    uint8_t fingerprint[PKI_FINGERPRINT_BYTES]; /* of that */
};

/* Prepares the directory, which is made if need be, and the key, which stays if there is one, and
 * prints the request. replace: a node that has an identity joins with its key anew. RDMAD_E_EXISTS:
 * it has one; or it has a CA, which is never replaced. */
int join_client_begin(const char *dir, const char *name, const struct pki_token *token,
                      bool replace, struct join_client *out, struct join_bytes *request,
                      struct pki_error *err);
/* For the next certificate of a node that has one; or (list_only) for the CA's list alone. To be
 * sent over a connection of pki_client_context(id, PKI_JOIN). */
int join_client_begin_renewal(const struct pki_identity *id, bool list_only,
                              struct join_client *out, struct join_bytes *request,
                              struct pki_error *err);
void join_client_fini(struct join_client *c);

/* Judges the whole reply and keeps what it has: trust/, revoked.crl, ca.address (address NULL: as
 * it was), and last node.crt. What the CA refused comes as its code and sentence. Waits for the
 * disk. */
int join_client_finish(struct join_client *c, const uint8_t *reply, size_t size,
                       const char *address, struct pki_error *err);

/* Where the node of the CA was when this one joined: HOST:PORT. PKI_NOT_THERE: this node did not
 * join by a token. */
int join_client_address(const char *dir, char *buf, size_t size, struct pki_error *err);

#endif
