/* SPDX-License-Identifier: MIT */
/*
 * ca.h - a cluster's own CA, in the identity directory of one node: making it, giving certificates
 * to nodes, taking them back.
 *
 * Whoever has a CA open holds the lock of its directory: there is one at a time, in all processes.
 * Each call leaves the files whole. A certificate that was signed and is not in issued/ was never
 * handed out. Files are flushed, so calls may wait for the disk.
 */
#ifndef RDMAD_PKI_CA_H
#define RDMAD_PKI_CA_H

#include "pki/dir.h"
#include <openssl/x509.h>
#include <stdint.h>

#define PKI_CA_DAYS 3650
#define PKI_NODE_DAYS 90u
#define PKI_NODE_DAYS_MAX 366u
/* How much before now a certificate, or a list of revoked ones, begins, for nodes whose clocks are
 * behind. */
#define PKI_EARLY_S 300

struct pki_ca {
    struct pki_dir dir;
    int lock;
    X509 *cert;
    EVP_PKEY *key;
};

/* Opens the CA of that identity directory. PKI_NOT_THERE: it has none. pki_ca_close ends it. */
int pki_ca_open(const char *path, struct pki_ca *out, struct pki_error *err);
void pki_ca_close(struct pki_ca *ca);

/* The same for a directory that is made if need be, and has no identity yet: a CA whose making was
 * broken off is taken up, or else a new one is made. RDMAD_E_EXISTS: there is a node.crt. */
int pki_ca_make(const char *path, int64_t now, struct pki_ca *out, struct pki_error *err);

/* Whether name may be given to key: RDMAD_E_EXISTS when it has a certificate that is good for
 * another key. A name belongs to one node until its certificates have expired or are revoked;
 * so do those that diallers would take for it: the same in another case, its first label, and a
 * longer one of which it is the first label.
 * RDMAD_E_LIMIT: it has as many as one name may have. */
int pki_ca_name_free(struct pki_ca *ca, const char *name, const EVP_PKEY *key, int64_t now,
                     struct pki_error *err);

struct pki_grant {
    const char *name;
    unsigned days;
    bool serves_joins;
};
/* Signs a certificate for a name that is free for key (asked again here), the caller's, and notes
 * it in issued/. */
int pki_ca_issue(struct pki_ca *ca, const struct pki_grant *grant, EVP_PKEY *key, int64_t now,
                 X509 **out, struct pki_error *err);
/* The next certificate for the node that cert was issued to, for as many days as that. cert must be
 * one that this CA has issued, not expired and not revoked; key may be another. One that was given
 * out for that key and is not due to be renewed is given again: who cannot keep it may ask for
 * ever. */
int pki_ca_renew(struct pki_ca *ca, const X509 *cert, EVP_PKEY *key, int64_t now, X509 **out,
                 struct pki_error *err);
/* The next certificate for this node itself, with the same key: node.crt is replaced. Also when
 * that has expired. */
int pki_ca_renew_own(struct pki_ca *ca, int64_t now, struct pki_error *err);

/* Revokes every certificate of name that is good at now; *count is how many. RDMAD_E_HANDLE: none.
 * RDMAD_E_BUSY: it is this node, without which nobody can join. */
int pki_ca_revoke(struct pki_ca *ca, const char *name, int64_t now, unsigned *count,
                  struct pki_error *err);

/* Writes the CA's list into revoked.crl anew, with certs (NULL: none) added. */
int pki_ca_write_list(struct pki_ca *ca, const STACK_OF(X509) * certs, int64_t now,
                      struct pki_error *err);

#endif
