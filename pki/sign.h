/* SPDX-License-Identifier: MIT */
/*
 * sign.h - making certificates, requests for them and lists of revoked ones. Nothing here reads or
 * writes a file, and no clock is looked at.
 */
#ifndef RDMAD_PKI_SIGN_H
#define RDMAD_PKI_SIGN_H

#include "pki/error.h"
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdint.h>

struct pki_terms {
    const char *name;              /* the node's, or what a CA is called; at most 63 bytes */
    int64_t not_before, not_after; /* seconds since 1970 */
    bool is_ca;
    bool serves_joins; /* PKI_JOIN_SERVICE, in a node's */
};

/* A certificate for subject's public half. issuer NULL: signed by itself, with issuer_key ==
 * subject. The caller frees it. A node's is for both ends of TLS and for nothing else; a CA's may
 * sign certificates of nodes and lists of revoked ones, but no CAs. */
int pki_cert_sign(const struct pki_terms *terms, EVP_PKEY *subject, X509 *issuer,
                  EVP_PKEY *issuer_key, X509 **out, struct pki_error *err);

/* A request of `name` for a certificate of key (PKCS #10) as DER; the caller frees it by
 * OPENSSL_free. */
int pki_request_make(const char *name, EVP_PKEY *key, uint8_t **der, size_t *size,
                     struct pki_error *err);
/* Judges a request from outside: that it is whole, its key of a kind that is taken, its signature
 * of that key, and its name valid. Gives those two, the key being the caller's; nothing else of a
 * request is looked at. */
int pki_request_read(const uint8_t *der, size_t size, char name[RDMAD_NAME_MAX + 1], EVP_PKEY **key,
                     struct pki_error *err);

/* A list of what `former` (NULL: none) has, without what was revoked before `forget`, and of the
 * certificates in `more` (NULL: none), which are revoked at now. Its number is one higher. It is
 * good from `from`, which is before now as a certificate's not_before is. */
struct pki_list_terms {
    int64_t now, from, until, forget;
};
int pki_list_sign(const struct pki_list_terms *terms, const X509_CRL *former,
                  const STACK_OF(X509) * more, X509 *ca, EVP_PKEY *ca_key, X509_CRL **out,
                  struct pki_error *err);
/* Its number; 0 if it has none, or there is no list (NULL). */
int64_t pki_list_number(const X509_CRL *list);

#endif
