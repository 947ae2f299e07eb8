/* SPDX-License-Identifier: MIT */
/*
 * identity.h - who this node is to others and whom it trusts, as the identity directory has it:
 *
 *   node.crt      the node's certificate, then those of its chain, if any (PEM)
 *   node.key      its key (PEM, 0600, without a passphrase)
 *   trust/NAME.crt  whom to trust (PEM): CAs, and certificates of single peers
 *   revoked.crl   lists of revoked certificates (PEM); there need not be one
 *
 * and where `cluster init` ran also ca.crt and ca.key, tokens/ and issued/ (pki/ca.h, pki/token.h).
 *
 * An identity does not change once it is loaded; to take up new files, load anew. It may be read
 * by any thread. Loading reads files of bounded number and size and never waits for a lock; it may
 * wait for the disk.
 */
#ifndef RDMAD_PKI_IDENTITY_H
#define RDMAD_PKI_IDENTITY_H

#include "pki/cert.h"
#include "pki/dir.h"
#include <openssl/x509.h>

struct pki_identity {
    char dir[PKI_PATH_MAX];
    char name[RDMAD_NAME_MAX + 1]; /* the node's */
    int64_t not_before, not_after; /* of node.crt; seconds since 1970 */
    char fingerprint[PKI_FINGERPRINT_TEXT];
    bool is_ca;        /* ca.key is here: this node's daemon takes those that join */
    int64_t crl_until; /* when the first list of revoked.crl has to be renewed; INT64_MAX: never */
    X509 *cert;        /* the leaf; all of these stay the identity's */
    EVP_PKEY *key;
    STACK_OF(X509) * chain;    /* what node.crt has behind the leaf; may be empty */
    STACK_OF(X509) * trust;    /* all of trust/ */
    STACK_OF(X509_CRL) * crls; /* NULL: there is no revoked.crl */
    X509_STORE *store;         /* of trust and crls */
};

/* Reads and checks the directory. 0 and a fresh identity; PKI_NOT_THERE: there is no directory or
 * no node.crt in it; RDMAD_E_*: what is there is not right, err says what and what to do. */
int pki_load(const char *dir, struct pki_identity **out, struct pki_error *err);
void pki_identity_free(struct pki_identity *id); /* NULL is allowed */

/* Of its trust and crls, the caller's. NULL: out of memory. */
X509_STORE *pki_store_make(const struct pki_identity *id, struct pki_error *err);

/* When to ask for the next certificate: when two thirds of its life are over. */
int64_t pki_renewal_time(const struct pki_identity *id);

#endif
