/* SPDX-License-Identifier: MIT */
#include "pki/own.h"
#include "pki/cert.h"
#include "pki/files.h"
#include "pki/key.h"
#include <stdio.h>
#include <stdlib.h>

int pki_own_write_key(const struct pki_dir *dir, const char *file, const EVP_PKEY *key,
                      struct pki_error *err) {
    char *pem = NULL;
    size_t size = 0;
    int rc = pki_key_print(key, &pem, &size, err);
    if (!rc)
        rc = pki_file_write(dir, file, PKI_SECRET, pem, size, err);
    pki_wipe(pem, size);
    return rc;
}

/* The key of node.key, made if there is none. */
int pki_own_key(const struct pki_dir *dir, EVP_PKEY **key, struct pki_error *err) {
    char *pem = NULL;
    size_t size = 0;
    int rc = pki_file_read(dir, PKI_NODE_KEY, PKI_SECRET, &pem, &size, err);
    if (!rc) {
        rc = pki_key_parse(pem, size, PKI_NODE_KEY, key, err);
        pki_wipe(pem, size);
        return rc;
    }
    if (rc != PKI_NOT_THERE)
        return rc;
    if ((rc = pki_key_make(key, err)))
        return rc;
    if ((rc = pki_own_write_key(dir, PKI_NODE_KEY, *key, err))) {
        EVP_PKEY_free(*key);
        *key = NULL; /* a joiner frees what it has */
    }
    return rc;
}

int pki_own_read_cert(const struct pki_dir *dir, X509 **cert, struct pki_error *err) {
    char *pem = NULL;
    size_t size = 0;
    STACK_OF(X509) *certs = NULL;
    int rc = pki_file_read(dir, PKI_NODE_CERT, PKI_PUBLIC, &pem, &size, err);
    if (rc)
        return rc;
    rc = pki_certs_parse(pem, size, PKI_NODE_CERT, 8, &certs, err);
    free(pem);
    if (!rc)
        *cert = sk_X509_shift(certs);
    sk_X509_pop_free(certs, X509_free);
    return rc;
}

int pki_own_write_cert(const struct pki_dir *dir, const char *file, const X509 *cert,
                       const X509 *ca, struct pki_error *err) {
    BIO *bio = BIO_new(BIO_s_mem());
    char *data = NULL;
    int rc = bio ? pki_cert_print(bio, cert, err)
                 : pki_fail(err, RDMAD_E_NOMEM, "out of memory for %s", file);
    if (!rc && ca)
        rc = pki_cert_print(bio, ca, err);
    if (!rc) {
        long size = BIO_get_mem_data(bio, &data);
        rc = pki_file_write(dir, file, PKI_PUBLIC, data, (size_t)size, err);
    }
    BIO_free(bio);
    return rc;
}

int pki_own_trust(const struct pki_dir *dir, const X509 *ca, struct pki_error *err) {
    struct pki_dir trust;
    char fingerprint[PKI_FINGERPRINT_TEXT], file[40];
    int rc = pki_dir_enter_or_make(dir, PKI_TRUST, true, &trust, err);
    if (rc)
        return rc;
    snprintf(file, sizeof(file), "cluster-%.16s.crt", pki_fingerprint_text(ca, fingerprint));
    rc = pki_own_write_cert(&trust, file, ca, NULL, err);
    pki_dir_close(&trust);
    return rc;
}
