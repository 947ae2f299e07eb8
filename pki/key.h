/* SPDX-License-Identifier: MIT */
/*
 * key.h - private and public keys. Ours are ECDSA on P-256; of others P-256, P-384, Ed25519 and RSA
 * of 2048 to 8192 bits are taken: what TLS 1.3 signs with, and what cannot make a check slow.
 */
#ifndef RDMAD_PKI_KEY_H
#define RDMAD_PKI_KEY_H

#include "pki/error.h"
#include <openssl/evp.h>

/* A fresh P-256 key, the caller's (EVP_PKEY_free). */
int pki_key_make(EVP_PKEY **out, struct pki_error *err);

/* Reads a PEM private key without a passphrase; `what` names it in sentences. */
int pki_key_parse(const char *pem, size_t size, const char *what, EVP_PKEY **out,
                  struct pki_error *err);
/* As PEM (PKCS #8, not encrypted) in a fresh buffer; the caller frees it by pki_wipe. */
int pki_key_print(const EVP_PKEY *key, char **out, size_t *size, struct pki_error *err);

/* Whether type and size are among those that are taken. NULL, which OpenSSL has for the key of a
 * certificate or request that it could not decode (the rest may be good), is not. */
int pki_key_check(const EVP_PKEY *key, const char *what, struct pki_error *err);

#endif
