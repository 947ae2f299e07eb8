/* SPDX-License-Identifier: MIT */
#include "pki/cert.h"
#include "common/uri.h"
#include "pki/key.h"
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A NUL inside is where two readers would see two names. */
static bool take_name(const ASN1_STRING *text, char out[RDMAD_NAME_MAX + 1]) {
    int length = ASN1_STRING_length(text);
    if (length < 1 || length > (int)RDMAD_NAME_MAX)
        return false;
    memcpy(out, ASN1_STRING_get0_data(text), (size_t)length);
    out[length] = '\0';
    return strlen(out) == (size_t)length && rdmad_name_ok(out);
}

static bool common_name(const X509 *cert, char out[RDMAD_NAME_MAX + 1]) {
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0)
        return false;
    return take_name(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), out);
}

bool pki_name_of(const X509 *cert, char out[RDMAD_NAME_MAX + 1]) {
    int critical = 0; /* -1: there is none; -2: several */
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, &critical, NULL);
    const ASN1_STRING *dns = NULL;
    bool good = false;

    out[0] = '\0';
    for (int i = 0; names && !dns && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS)
            dns = name->d.dNSName;
    }
    if (dns)
        good = take_name(dns, out);
    else if (names || critical == -1)
        good = common_name(cert, out);
    GENERAL_NAMES_free(names);
    ERR_clear_error();
    if (!good)
        out[0] = '\0';
    return good;
}

bool pki_serves_joins(const X509 *cert) {
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    bool found = false;
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_URI)
            continue;
        const ASN1_STRING *uri = name->d.uniformResourceIdentifier;
        found |=
            ASN1_STRING_length(uri) == (int)sizeof(PKI_JOIN_SERVICE) - 1 &&
            !memcmp(ASN1_STRING_get0_data(uri), PKI_JOIN_SERVICE, sizeof(PKI_JOIN_SERVICE) - 1);
    }
    GENERAL_NAMES_free(names);
    ERR_clear_error();
    return found;
}

bool pki_is_ca(X509 *cert) {
    return X509_check_ca(cert) == 1;
}

void pki_fingerprint(const X509 *cert, uint8_t out[PKI_FINGERPRINT_BYTES]) {
    unsigned size = 0;
    if (X509_digest(cert, EVP_sha256(), out, &size) != 1 || size != PKI_FINGERPRINT_BYTES)
        memset(out, 0, PKI_FINGERPRINT_BYTES);
}

const char *pki_fingerprint_text(const X509 *cert, char buf[PKI_FINGERPRINT_TEXT]) {
    uint8_t bytes[PKI_FINGERPRINT_BYTES];
    pki_fingerprint(cert, bytes);
    for (unsigned i = 0; i < sizeof(bytes); i++)
        snprintf(buf + 2 * i, 3, "%02x", bytes[i]);
    return buf;
}

const char *pki_subject_text(const X509 *cert, char buf[PKI_SUBJECT_TEXT]) {
    BIO *bio = BIO_new(BIO_s_mem());
    char *data = NULL;
    long length = 0;
    if (bio && X509_NAME_print_ex(bio, X509_get_subject_name(cert), 0, XN_FLAG_RFC2253) >= 0)
        length = BIO_get_mem_data(bio, &data);
    snprintf(buf, PKI_SUBJECT_TEXT, "%.*s", length > 0 ? (int)length : 9,
             length > 0 ? data : "(no name)");
    BIO_free(bio);
    return buf;
}

int64_t pki_seconds(const ASN1_TIME *time) {
    struct tm tm;
    return time && ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : INT64_MIN;
}

int64_t pki_due(const X509 *cert) {
    int64_t from = pki_seconds(X509_get0_notBefore(cert));
    int64_t until = pki_seconds(X509_get0_notAfter(cert));
    return until - (until - from) / 3;
}

const char *pki_date_text(int64_t seconds, char buf[PKI_DATE_TEXT]) {
    time_t t = (time_t)seconds;
    struct tm tm;
    if (!gmtime_r(&t, &tm) || !strftime(buf, PKI_DATE_TEXT, "%Y-%m-%d %H:%M:%S UTC", &tm))
        snprintf(buf, PKI_DATE_TEXT, "no date");
    return buf;
}

/* ---- PEM ------------------------------------------------------------------------------------ */

static int cert_check(X509 *cert, const char *what, struct pki_error *err) {
    char subject[PKI_SUBJECT_TEXT], name[PKI_SUBJECT_TEXT + 96];
    snprintf(name, sizeof(name), "the key of %s in %.90s", pki_subject_text(cert, subject), what);
    if (X509_get_version(cert) != X509_VERSION_3)
        return pki_fail(err, RDMAD_E_UNSUPPORTED,
                        "%s has a certificate of version %ld (%s); only version 3 says what it may "
                        "be used for",
                        what, X509_get_version(cert) + 1, subject);
    return pki_key_check(X509_get0_pubkey(cert), name, err);
}

/* The queue says why the last read failed: at the end of the file, that there is no more. */
static bool was_the_end(void) {
    unsigned long last = ERR_peek_last_error();
    bool end = ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
    if (end)
        ERR_clear_error();
    return end;
}

int pki_certs_parse(const char *pem, size_t size, const char *what, int max, STACK_OF(X509) * *out,
                    struct pki_error *err) {
    BIO *bio = BIO_new_mem_buf(pem, (int)size);
    STACK_OF(X509) *certs = sk_X509_new_null();
    X509 *cert = NULL;
    int rc = bio && certs ? RDMAD_OK : pki_fail(err, RDMAD_E_NOMEM, "out of memory for %s", what);
    ERR_clear_error();
    while (!rc && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        rc = cert_check(cert, what, err);
        if (!rc && sk_X509_num(certs) == max)
            rc = pki_fail(err, RDMAD_E_LIMIT, "%s has more than %d certificates", what, max);
        if (!rc && !sk_X509_push(certs, cert))
            rc = pki_fail(err, RDMAD_E_NOMEM, "out of memory for %s", what);
        if (rc)
            X509_free(cert);
    }
    if (!rc && !was_the_end())
        rc = pki_fail_ssl(err, RDMAD_E_CONFIG, "%s has a damaged certificate", what);
    if (!rc && sk_X509_num(certs) == 0)
        rc = pki_fail(err, RDMAD_E_CONFIG, "%s has no certificate in PEM", what);
    BIO_free(bio);
    if (rc)
        sk_X509_pop_free(certs, X509_free);
    else
        *out = certs;
    return rc;
}

int pki_crls_parse(const char *pem, size_t size, const char *what, STACK_OF(X509_CRL) * *out,
                   struct pki_error *err) {
    BIO *bio = BIO_new_mem_buf(pem, (int)size);
    STACK_OF(X509_CRL) *crls = sk_X509_CRL_new_null();
    X509_CRL *crl = NULL;
    int rc = bio && crls ? RDMAD_OK : pki_fail(err, RDMAD_E_NOMEM, "out of memory for %s", what);
    ERR_clear_error();
    while (!rc && (crl = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)))
        if (!sk_X509_CRL_push(crls, crl)) {
            X509_CRL_free(crl);
            rc = pki_fail(err, RDMAD_E_NOMEM, "out of memory for %s", what);
        }
    if (!rc && !was_the_end())
        rc = pki_fail_ssl(err, RDMAD_E_CONFIG, "%s has a damaged list of revoked certificates",
                          what);
    if (!rc && sk_X509_CRL_num(crls) == 0)
        rc =
            pki_fail(err, RDMAD_E_CONFIG,
                     "%s has no list of revoked certificates (CRL) in PEM; remove it if nothing is "
                     "revoked",
                     what);
    BIO_free(bio);
    if (rc)
        sk_X509_CRL_pop_free(crls, X509_CRL_free);
    else
        *out = crls;
    return rc;
}

int pki_cert_print(BIO *to, const X509 *cert, struct pki_error *err) {
    if (PEM_write_bio_X509(to, (X509 *)cert) == 1)
        return RDMAD_OK;
    return pki_fail_ssl(err, RDMAD_E_NOMEM, "cannot write a certificate as PEM");
}
