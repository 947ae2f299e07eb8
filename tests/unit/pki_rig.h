/* SPDX-License-Identifier: MIT */
/*
 * pki_rig.h - identity directories as tests need them, and two ends of TLS in memory.
 */
#ifndef RDMAD_TESTS_PKI_RIG_H
#define RDMAD_TESTS_PKI_RIG_H

#include "pki/ca.h"
#include "pki/context.h"
#include "pki/sign.h"

#define RIG_PATH 256

/* A fresh directory's path, which is removed with all in it when the test ends. */
const char *rig_path(char out[RIG_PATH], const char *name);
int64_t rig_now(void);

/* `cluster init` in a fresh directory. */
void rig_init(char dir[RIG_PATH], const char *name);
/* A node of the cluster in ca, in a fresh directory; terms but the name may be 0: as usual. */
void rig_node(char dir[RIG_PATH], const char *ca, struct pki_terms terms);
/* A node whose certificate is signed by itself; nobody is trusted. */
void rig_single(char dir[RIG_PATH], struct pki_terms terms);
/* Copies node.crt of one into trust/ of another, or a file to a file. */
void rig_trust(const char *who, const char *whom);
void rig_copy(const char *from_dir, const char *from, const char *to_dir, const char *to);
void rig_write(const char *dir, const char *file, const char *text, unsigned mode);
X509 *rig_leaf(const char *dir); /* of node.crt, the caller's */
/* Of what is the first certificate or request in der, the key is of a type that nobody knows then:
 * it can be read, and no key can be had of it. */
void rig_spoil_key(uint8_t *der, size_t size);
void rig_revoke(const char *ca, const char *name);

struct pki_identity *rig_load(const char *dir);
SSL_CTX *rig_server(const char *dir);
SSL_CTX *rig_client(const char *dir, enum pki_protocol protocol);

struct rig_end {
    SSL *ssl;
    bool done;            /* the handshake */
    struct pki_error why; /* if not, or what pki_established said; code 0: all is well */
    struct pki_peer peer;
};
/* Both handshakes, as far as they go; frees the contexts. */
void rig_shake(SSL_CTX *client_ctx, SSL_CTX *server_ctx, struct rig_end *client,
               struct rig_end *server);
void rig_end_free(struct rig_end *client, struct rig_end *server);

#endif
