/* SPDX-License-Identifier: MIT */
/*
 * issued.h - what the CA has given out, and what of that it has taken back.
 *
 * issued/NAME.crt has the certificates of that node that have not expired, the newest first, so
 * what a name costs is one file of bounded size. revoked.crl has the CA's list, and may have lists
 * of other CAs, which stay as they are. Who changes either holds the lock of the directory
 * (pki_lock).
 */
#ifndef RDMAD_PKI_ISSUED_H
#define RDMAD_PKI_ISSUED_H

#include "pki/dir.h"
#include <openssl/x509.h>

#define PKI_ISSUED_MAX 16u   /* of one name that are good */
#define PKI_NAMES_MAX 16384u /* names that are listed */

/* Those of name that have not expired at now; empty if there are none. The caller frees them. */
int pki_issued_read(const struct pki_dir *dir, const char *name, int64_t now, STACK_OF(X509) * *out,
                    struct pki_error *err);
/* The same without those that this CA has revoked. *out is the caller's even if it fails. */
int pki_issued_good(const struct pki_dir *dir, X509 *ca, const char *name, int64_t now,
                    STACK_OF(X509) * *out, struct pki_error *err);
/* RDMAD_E_LIMIT: the good ones of name are PKI_ISSUED_MAX already. */
int pki_issued_room(const STACK_OF(X509) * good, const char *name, struct pki_error *err);
/* Adds one, if there is room; those that are not good any more go. */
int pki_issued_add(const struct pki_dir *dir, X509 *ca, const char *name, X509 *cert, int64_t now,
                   struct pki_error *err);
/* The names that were ever issued something, in order. */
int pki_issued_names(const struct pki_dir *dir, struct pki_names *out, struct pki_error *err);

/* The lists of revoked.crl: the CA's own in *ours (NULL: none), others in *others (may be empty).
 * The caller frees both. */
int pki_revoked_read(const struct pki_dir *dir, X509 *ca, X509_CRL **ours,
                     STACK_OF(X509_CRL) * *others, struct pki_error *err);
int pki_revoked_write(const struct pki_dir *dir, X509_CRL *ours, const STACK_OF(X509_CRL) * others,
                      struct pki_error *err);
/* Whether list (NULL: an empty one) has the certificate. */
bool pki_revoked_has(const X509_CRL *list, const X509 *cert);

#endif
