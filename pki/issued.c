/* SPDX-License-Identifier: MIT */
#include "pki/issued.h"
#include "pki/cert.h"
#include "pki/files.h"
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUFFIX ".crt"

static void file_of(const char *name, char file[RDMAD_NAME_MAX + 8]) {
    snprintf(file, RDMAD_NAME_MAX + 8, "%s" SUFFIX, name);
}

static int certs_read(const struct pki_dir *issued, const char *file, STACK_OF(X509) * *out,
                      struct pki_error *err) {
    char *pem = NULL;
    size_t size = 0;
    int rc = pki_file_read(issued, file, PKI_PUBLIC, &pem, &size, err);
    if (rc)
        return rc;
    rc = pki_certs_parse(pem, size, file, 2 * (int)PKI_ISSUED_MAX, out, err);
    free(pem);
    return rc;
}

int pki_issued_read(const struct pki_dir *dir, const char *name, int64_t now, STACK_OF(X509) * *out,
                    struct pki_error *err) {
    struct pki_dir issued;
    char file[RDMAD_NAME_MAX + 8];
    int rc = pki_dir_enter(dir, PKI_ISSUED, &issued, err);
    if (!rc) {
        file_of(name, file);
        rc = certs_read(&issued, file, out, err);
        pki_dir_close(&issued);
    }
    if (rc == PKI_NOT_THERE) {
        *out = sk_X509_new_null();
        return *out ? RDMAD_OK : pki_fail(err, RDMAD_E_NOMEM, "out of memory for %s", name);
    }
    for (int i = rc ? 0 : sk_X509_num(*out); i-- > 0;)
        if (pki_seconds(X509_get0_notAfter(sk_X509_value(*out, i))) <= now)
            X509_free(sk_X509_delete(*out, i));
    return rc;
}

int pki_issued_names(const struct pki_dir *dir, struct pki_names *out, struct pki_error *err) {
    struct pki_dir issued;
    *out = (struct pki_names){0};
    int rc = pki_dir_enter(dir, PKI_ISSUED, &issued, err);
    if (rc)
        return rc == PKI_NOT_THERE ? RDMAD_OK : rc;
    rc = pki_names_read(&issued, SUFFIX, PKI_NAMES_MAX, out, err);
    pki_dir_close(&issued);
    for (unsigned i = 0; !rc && i < out->count; i++)
        out->names[i][strlen(out->names[i]) - strlen(SUFFIX)] = '\0';
    return rc;
}

/* ---- revoked -------------------------------------------------------------------------------- */

static bool is_list_of(X509_CRL *list, X509 *ca) {
    return !X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(ca)) &&
           X509_CRL_verify(list, X509_get0_pubkey(ca)) == 1;
}

int pki_revoked_read(const struct pki_dir *dir, X509 *ca, X509_CRL **ours,
                     STACK_OF(X509_CRL) * *others, struct pki_error *err) {
    char *pem = NULL;
    size_t size = 0;
    *ours = NULL;
    *others = NULL;
    int rc = pki_file_read(dir, PKI_REVOKED, PKI_PUBLIC, &pem, &size, err);
    if (!rc) {
        rc = pki_crls_parse(pem, size, PKI_REVOKED, others, err);
        free(pem);
    } else if (rc == PKI_NOT_THERE) {
        *others = sk_X509_CRL_new_null();
        rc = *others ? RDMAD_OK : pki_fail(err, RDMAD_E_NOMEM, "out of memory for " PKI_REVOKED);
    }
    for (int i = rc ? 0 : sk_X509_CRL_num(*others); i-- > 0;)
        if (!*ours && is_list_of(sk_X509_CRL_value(*others, i), ca))
            *ours = sk_X509_CRL_delete(*others, i);
    return rc;
}

int pki_revoked_write(const struct pki_dir *dir, X509_CRL *ours, const STACK_OF(X509_CRL) * others,
                      struct pki_error *err) {
    BIO *bio = BIO_new(BIO_s_mem());
    char *data = NULL;
    bool good = bio && PEM_write_bio_X509_CRL(bio, ours) == 1;
    for (int i = 0; good && i < sk_X509_CRL_num(others); i++)
        good = PEM_write_bio_X509_CRL(bio, sk_X509_CRL_value(others, i)) == 1;
    long size = good ? BIO_get_mem_data(bio, &data) : 0;
    int rc;
    if (!good)
        rc = pki_fail_ssl(err, RDMAD_E_NOMEM, "cannot write " PKI_REVOKED " as PEM");
    else if (size > (long)PKI_FILE_MAX)
        rc = pki_fail(err, RDMAD_E_LIMIT,
                      "%s/" PKI_REVOKED " would have %ld bytes, at most %u are read; too much is "
                      "revoked: make a new CA",
                      dir->path, size, PKI_FILE_MAX);
    else
        rc = pki_file_write(dir, PKI_REVOKED, PKI_PUBLIC, data, (size_t)size, err);
    BIO_free(bio);
    return rc;
}

bool pki_revoked_has(const X509_CRL *list, const X509 *cert) {
    X509_REVOKED *entry = NULL;
    return list && X509_CRL_get0_by_serial((X509_CRL *)list, &entry,
                                           (ASN1_INTEGER *)X509_get0_serialNumber(cert)) > 0;
}

/* ---- good ----------------------------------------------------------------------------------- */

int pki_issued_good(const struct pki_dir *dir, X509 *ca, const char *name, int64_t now,
                    STACK_OF(X509) * *out, struct pki_error *err) {
    STACK_OF(X509_CRL) *others = NULL;
    X509_CRL *list = NULL;
    int rc = pki_issued_read(dir, name, now, out, err);
    if (!rc)
        rc = pki_revoked_read(dir, ca, &list, &others, err);
    for (int i = rc ? 0 : sk_X509_num(*out); i-- > 0;)
        if (pki_revoked_has(list, sk_X509_value(*out, i)))
            X509_free(sk_X509_delete(*out, i));
    sk_X509_CRL_pop_free(others, X509_CRL_free);
    X509_CRL_free(list);
    return rc;
}

int pki_issued_room(const STACK_OF(X509) * good, const char *name, struct pki_error *err) {
    if (sk_X509_num(good) < (int)PKI_ISSUED_MAX)
        return RDMAD_OK;
    return pki_fail(err, RDMAD_E_LIMIT,
                    "%s has %u certificates that have neither expired nor been revoked, no more "
                    "are given to one name",
                    name, PKI_ISSUED_MAX);
}

/* All of certs into one file. */
static int certs_write(const struct pki_dir *issued, const char *name, const STACK_OF(X509) * certs,
                       struct pki_error *err) {
    BIO *bio = BIO_new(BIO_s_mem());
    char *data = NULL, file[RDMAD_NAME_MAX + 8];
    int rc = bio ? RDMAD_OK : pki_fail(err, RDMAD_E_NOMEM, "out of memory for %s", name);
    for (int i = 0; !rc && i < sk_X509_num(certs); i++)
        rc = pki_cert_print(bio, sk_X509_value(certs, i), err);
    if (!rc) {
        long size = BIO_get_mem_data(bio, &data);
        file_of(name, file);
        rc = pki_file_write(issued, file, PKI_PUBLIC, data, (size_t)size, err);
    }
    BIO_free(bio);
    return rc;
}

int pki_issued_add(const struct pki_dir *dir, X509 *ca, const char *name, X509 *cert, int64_t now,
                   struct pki_error *err) {
    STACK_OF(X509) *certs = NULL;
    struct pki_dir issued;
    int rc = pki_issued_good(dir, ca, name, now, &certs, err);
    if (!rc)
        rc = pki_issued_room(certs, name, err);
    if (!rc && (X509_up_ref(cert) != 1 || !sk_X509_unshift(certs, cert)))
        rc = pki_fail(err, RDMAD_E_NOMEM, "out of memory for %s", name);
    if (!rc && !(rc = pki_dir_enter_or_make(dir, PKI_ISSUED, false, &issued, err))) {
        rc = certs_write(&issued, name, certs, err);
        pki_dir_close(&issued);
    }
    sk_X509_pop_free(certs, X509_free);
    return rc;
}
