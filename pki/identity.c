/* SPDX-License-Identifier: MIT */
#include "pki/identity.h"
#include "pki/files.h"
#include "pki/key.h"
#include <stdio.h>
#include <stdlib.h>

#define PKI_TRUST_MAX 64u /* files in trust/ */
#define CHAIN_MAX 8       /* certificates in node.crt */
#define TRUST_FILE_MAX 64 /* in one file of trust/ */

/* Says of what is missing that it is, as an error of the identity. */
static int missing(const struct pki_dir *dir, const char *name, const char *advice,
                   struct pki_error *err) {
    return pki_fail(err, RDMAD_E_CONFIG, "%s/%s is missing; %s", dir->path, name, advice);
}

/* A path for sentences; long ones are cut. */
static const char *path_of(const struct pki_dir *dir, const char *name, char buf[160]) {
    snprintf(buf, 160, "%.90s/%.64s", dir->path, name);
    return buf;
}

static int load_node(struct pki_identity *id, const struct pki_dir *dir, struct pki_error *err) {
    char *pem, path[160];
    size_t size;
    int rc = pki_file_read(dir, PKI_NODE_CERT, PKI_PUBLIC, &pem, &size, err);
    if (rc)
        return rc;
    rc = pki_certs_parse(pem, size, path_of(dir, PKI_NODE_CERT, path), CHAIN_MAX, &id->chain, err);
    free(pem);
    if (rc)
        return rc;
    id->cert = sk_X509_shift(id->chain);
    id->not_before = pki_seconds(X509_get0_notBefore(id->cert));
    id->not_after = pki_seconds(X509_get0_notAfter(id->cert));
    pki_fingerprint_text(id->cert, id->fingerprint);
    if (pki_name_of(id->cert, id->name))
        return RDMAD_OK;
    return pki_fail(err, RDMAD_E_NAME,
                    "%s names no node: its first DNS name, or without any its common name, must be "
                    "letters, digits, '.', '_' and '-'",
                    path);
}

static int load_key(struct pki_identity *id, const struct pki_dir *dir, struct pki_error *err) {
    char *pem, path[160];
    size_t size;
    int rc = pki_file_read(dir, PKI_NODE_KEY, PKI_SECRET, &pem, &size, err);
    if (rc == PKI_NOT_THERE)
        return missing(dir, PKI_NODE_KEY, "it belongs to " PKI_NODE_CERT, err);
    if (rc)
        return rc;
    rc = pki_key_parse(pem, size, path_of(dir, PKI_NODE_KEY, path), &id->key, err);
    pki_wipe(pem, size);
    if (rc || EVP_PKEY_eq(X509_get0_pubkey(id->cert), id->key) == 1)
        return rc;
    return pki_fail(err, RDMAD_E_CONFIG, "%s is not the key of " PKI_NODE_CERT " beside it", path);
}

static int load_trusted(struct pki_identity *id, const struct pki_dir *trust, const char *name,
                        struct pki_error *err) {
    char *pem, path[160];
    size_t size;
    STACK_OF(X509) *certs = NULL;
    int rc = pki_file_read(trust, name, PKI_PUBLIC, &pem, &size, err);
    if (rc)
        return rc == PKI_NOT_THERE ? RDMAD_OK : rc; /* removed since it was listed */
    rc = pki_certs_parse(pem, size, path_of(trust, name, path), TRUST_FILE_MAX, &certs, err);
    free(pem);
    for (X509 *cert; !rc && (cert = sk_X509_shift(certs));)
        if (!sk_X509_push(id->trust, cert)) {
            X509_free(cert);
            rc = pki_fail(err, RDMAD_E_NOMEM, "out of memory for %s", path);
        }
    sk_X509_pop_free(certs, X509_free);
    return rc;
}

static int load_trust(struct pki_identity *id, const struct pki_dir *dir, struct pki_error *err) {
    static const char advice[] = "put the certificates of the cluster's CA, or of single peers, "
                                 "there as NAME.crt";
    struct pki_dir trust;
    struct pki_names names;
    int rc = pki_dir_enter(dir, PKI_TRUST, &trust, err);
    if (rc == PKI_NOT_THERE)
        return missing(dir, PKI_TRUST "/", advice, err);
    if (rc)
        return rc;
    rc = pki_names_read(&trust, ".crt", PKI_TRUST_MAX, &names, err);
    for (unsigned i = 0; !rc && i < names.count; i++)
        rc = load_trusted(id, &trust, names.names[i], err);
    pki_names_free(&names);
    pki_dir_close(&trust);
    if (!rc && sk_X509_num(id->trust) == 0)
        rc = missing(dir, PKI_TRUST "/*.crt", advice, err);
    return rc;
}

static int load_revoked(struct pki_identity *id, const struct pki_dir *dir, struct pki_error *err) {
    char *pem, path[160];
    size_t size;
    int rc = pki_file_read(dir, PKI_REVOKED, PKI_PUBLIC, &pem, &size, err);
    id->crl_until = INT64_MAX;
    if (rc)
        return rc == PKI_NOT_THERE ? RDMAD_OK : rc;
    rc = pki_crls_parse(pem, size, path_of(dir, PKI_REVOKED, path), &id->crls, err);
    free(pem);
    for (int i = 0; !rc && i < sk_X509_CRL_num(id->crls); i++) {
        const ASN1_TIME *next = X509_CRL_get0_nextUpdate(sk_X509_CRL_value(id->crls, i));
        if (next && pki_seconds(next) < id->crl_until)
            id->crl_until = pki_seconds(next);
    }
    return rc;
}

X509_STORE *pki_store_make(const struct pki_identity *id, struct pki_error *err) {
    X509_STORE *store = X509_STORE_new();
    bool good = store != NULL;
    for (int i = 0; good && i < sk_X509_num(id->trust); i++)
        good = X509_STORE_add_cert(store, sk_X509_value(id->trust, i)) == 1;
    for (int i = 0; good && i < sk_X509_CRL_num(id->crls); i++)
        good = X509_STORE_add_crl(store, sk_X509_CRL_value(id->crls, i)) == 1;
    unsigned long flags = X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST;
    if (id->crls)
        flags |= X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL;
    if (good && X509_STORE_set_flags(store, flags) == 1)
        return store;
    X509_STORE_free(store);
    pki_fail_ssl(err, RDMAD_E_NOMEM, "cannot take up trust/ and revoked.crl of %s", id->dir);
    return NULL;
}

int pki_load(const char *path, struct pki_identity **out, struct pki_error *err) {
    struct pki_dir dir;
    int rc = pki_dir_open(path, &dir, err);
    if (rc)
        return rc;
    struct pki_identity *id = calloc(1, sizeof(*id));
    if (!id || !(id->trust = sk_X509_new_null()))
        rc = pki_fail(err, RDMAD_E_NOMEM, "out of memory to load %s", path);
    if (!rc) {
        snprintf(id->dir, sizeof(id->dir), "%s", path);
        rc = load_node(id, &dir, err);
    }
    if (!rc)
        rc = load_key(id, &dir, err);
    if (!rc)
        rc = load_trust(id, &dir, err);
    if (!rc)
        rc = load_revoked(id, &dir, err);
    if (!rc && !(id->store = pki_store_make(id, err)))
        rc = RDMAD_E_NOMEM;
    if (!rc)
        id->is_ca = pki_file_there(&dir, PKI_CA_KEY);
    pki_dir_close(&dir);
    if (rc)
        pki_identity_free(id);
    else
        *out = id;
    return rc;
}

void pki_identity_free(struct pki_identity *id) {
    if (!id)
        return;
    X509_free(id->cert);
    EVP_PKEY_free(id->key);
    sk_X509_pop_free(id->chain, X509_free);
    sk_X509_pop_free(id->trust, X509_free);
    sk_X509_CRL_pop_free(id->crls, X509_CRL_free);
    X509_STORE_free(id->store);
    free(id);
}

int64_t pki_renewal_time(const struct pki_identity *id) {
    return pki_due(id->cert);
}
