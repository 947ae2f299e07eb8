/* SPDX-License-Identifier: MIT */
#include "pki/next.h"
#include "pki/context.h"
#include "pki/key.h"
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

/* The i-th of leaf and chain; NULL: there are no more. */
static X509 *nth(const struct pki_identity *id, int i) {
    return i == 0 ? id->cert : sk_X509_value(id->chain, i - 1);
}

int pki_next_print(const struct pki_identity *id, uint8_t **out, size_t *size,
                   struct pki_error *err) {
    unsigned char *at;
    X509 *cert;
    *size = 0;
    for (int i = 0; (cert = nth(id, i)); i++) {
        int n = i2d_X509(cert, NULL);
        *size += n > 0 ? (size_t)n : 0;
    }
    *out = at = OPENSSL_malloc(*size);
    if (!*out)
        return pki_fail(err, RDMAD_E_NOMEM, "out of memory for the certificate of %s", id->name);
    for (int i = 0; (cert = nth(id, i)); i++)
        i2d_X509(cert, &at);
    return RDMAD_OK;
}

int pki_next_parse(const uint8_t *der, size_t size, STACK_OF(X509) * *out, struct pki_error *err) {
    const unsigned char *at = der, *end = der + size;
    STACK_OF(X509) *certs = sk_X509_new_null();
    int rc = certs ? RDMAD_OK : pki_fail(err, RDMAD_E_NOMEM, "out of memory for certificates");
    while (!rc && at < end && sk_X509_num(certs) < PKI_NEXT_CHAIN_MAX) {
        X509 *cert = d2i_X509(NULL, &at, end - at);
        if (!cert || !sk_X509_push(certs, cert)) {
            X509_free(cert);
            rc = pki_fail_ssl(err, RDMAD_E_PROTOCOL, "what it shows is no certificate");
        } else {
            rc = pki_key_check(X509_get0_pubkey(cert), "the key of a certificate that it shows",
                               err);
        }
    }
    if (!rc && at < end)
        rc = pki_fail(err, RDMAD_E_PROTOCOL, "it shows more than %d certificates",
                      PKI_NEXT_CHAIN_MAX);
    if (rc)
        sk_X509_pop_free(certs, X509_free);
    else
        *out = certs;
    return rc;
}

int pki_next_check(const struct pki_identity *id, X509 *before, bool is_server,
                   STACK_OF(X509) * certs, int64_t *until, struct pki_error *err) {
    char name[RDMAD_NAME_MAX + 1], was[RDMAD_NAME_MAX + 1];
    X509 *next = sk_X509_value(certs, 0);
    if (!next || !pki_name_of(next, name) || !pki_name_of(before, was) || strcmp(name, was) != 0)
        return pki_fail(err, RDMAD_E_PERM, "the certificate that it shows has another name");
    if (EVP_PKEY_eq(X509_get0_pubkey(next), X509_get0_pubkey(before)) != 1)
        return pki_fail(err, RDMAD_E_PERM, "the certificate that it shows is for another key");
    if (X509_check_purpose(next, is_server ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT,
                           0) != 1)
        return pki_fail(err, RDMAD_E_PERM, "the certificate that it shows is not for this use");
    return pki_check_until(id, next, certs, until, err);
}
