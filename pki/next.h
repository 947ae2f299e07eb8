/* SPDX-License-Identifier: MIT */
/*
 * next.h - a node's next certificate on a connection that it made by the one before.
 *
 * A certificate is no secret, so whoever shows one proves nothing. But the connection's handshake
 * has proven the key, and a renewal keeps the key: a certificate for the same name and the same key
 * speaks for whoever is at the other end. One for another key needs another handshake.
 */
#ifndef RDMAD_PKI_NEXT_H
#define RDMAD_PKI_NEXT_H

#include "pki/identity.h"
#include <openssl/x509.h>

#define PKI_NEXT_CHAIN_MAX 8 /* certificates, with the node's own */

/* DER of id's certificate and those of its chain, one behind the other; OPENSSL_free. */
int pki_next_print(const struct pki_identity *id, uint8_t **out, size_t *size,
                   struct pki_error *err);
/* And back. Keys that are not taken are refused (pki/key.h), so judging them has a bound. */
int pki_next_parse(const uint8_t *der, size_t size, STACK_OF(X509) * *out, struct pki_error *err);

/* Whether the first of certs may stand for `before`, the certificate of the handshake, in which the
 * other end was the server or not. *until as of pki_check_until. */
int pki_next_check(const struct pki_identity *id, X509 *before, bool is_server,
                   STACK_OF(X509) * certs, int64_t *until, struct pki_error *err);

#endif
