/* SPDX-License-Identifier: MIT */
/*
 * own.h - writing this node's own files of the identity directory: its key, certificates, trust.
 */
#ifndef RDMAD_PKI_OWN_H
#define RDMAD_PKI_OWN_H

#include "pki/dir.h"
#include <openssl/x509.h>

/* The key of node.key, the caller's; made and written if there is none. */
int pki_own_key(const struct pki_dir *dir, EVP_PKEY **key, struct pki_error *err);
int pki_own_write_key(const struct pki_dir *dir, const char *file, const EVP_PKEY *key,
                      struct pki_error *err);

/* The leaf of node.crt, the caller's. 0, PKI_NOT_THERE or RDMAD_E_*. */
int pki_own_read_cert(const struct pki_dir *dir, X509 **cert, struct pki_error *err);
/* cert, and behind it (NULL: nothing) the CA's. */
int pki_own_write_cert(const struct pki_dir *dir, const char *file, const X509 *cert,
                       const X509 *ca, struct pki_error *err);

/* Makes the CA a trusted one, as trust/cluster-FINGERPRINT.crt, beside what is there. */
int pki_own_trust(const struct pki_dir *dir, const X509 *ca, struct pki_error *err);

#endif
