/* SPDX-License-Identifier: MIT */
#include "pki/sign.h"
#include "common/uri.h"
#include "pki/cert.h"
#include "pki/key.h"
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#define SERIAL_BYTES 16 /* random, so that nobody can foresee what is signed */

/* Ed25519 has its own. */
static const EVP_MD *digest_of(const EVP_PKEY *key) {
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? NULL : EVP_sha256();
}

static bool set_serial(X509 *cert) {
    uint8_t bytes[SERIAL_BYTES];
    BIGNUM *n = RAND_bytes(bytes, sizeof(bytes)) == 1 ? BN_new() : NULL;
    bytes[0] = (uint8_t)((bytes[0] & 0x7f) | 0x40); /* positive, and always as long */
    bool good = n && BN_bin2bn(bytes, sizeof(bytes), n) &&
                BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert));
    BN_free(n);
    return good;
}

static bool set_name(X509_NAME *to, const char *name) {
    return X509_NAME_add_entry_by_txt(to, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1,
                                      0) == 1;
}

static bool add_extension(X509V3_CTX *ctx, X509 *cert, int nid, const char *value) {
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, ctx, nid, value);
    bool good = e && X509_add_ext(cert, e, -1) == 1;
    X509_EXTENSION_free(e);
    return good;
}

/* The value is text in OpenSSL's own little language: a name has none of its special bytes. */
static bool add_extensions(const struct pki_terms *t, X509 *cert, X509 *issuer) {
    X509V3_CTX ctx;
    char names[RDMAD_NAME_MAX + 64];
    snprintf(names, sizeof(names), "DNS:%s%s", t->name,
             t->serves_joins ? ",URI:" PKI_JOIN_SERVICE : "");
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509V3_set_ctx_nodb(&ctx);
    bool good =
        add_extension(&ctx, cert, NID_basic_constraints,
                      t->is_ca ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
        add_extension(&ctx, cert, NID_key_usage,
                      t->is_ca ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature") &&
        add_extension(&ctx, cert, NID_subject_key_identifier, "hash") &&
        add_extension(&ctx, cert, NID_authority_key_identifier, "keyid");
    if (t->is_ca)
        return good;
    return good && add_extension(&ctx, cert, NID_ext_key_usage, "serverAuth,clientAuth") &&
           add_extension(&ctx, cert, NID_subject_alt_name, names);
}

static bool set_time(ASN1_TIME *to, int64_t seconds) {
    return ASN1_TIME_set(to, (time_t)seconds) != NULL;
}

int pki_cert_sign(const struct pki_terms *t, EVP_PKEY *subject, X509 *issuer, EVP_PKEY *issuer_key,
                  X509 **out, struct pki_error *err) {
    X509 *cert = X509_new();
    bool good = cert && X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
                set_time(X509_getm_notBefore(cert), t->not_before) &&
                set_time(X509_getm_notAfter(cert), t->not_after) &&
                set_name(X509_get_subject_name(cert), t->name) &&
                X509_set_issuer_name(cert, X509_get_subject_name(issuer ? issuer : cert)) == 1 &&
                X509_set_pubkey(cert, subject) == 1 &&
                add_extensions(t, cert, issuer ? issuer : cert) &&
                X509_sign(cert, issuer_key, digest_of(issuer_key)) > 0;
    if (good) {
        *out = cert;
        return RDMAD_OK;
    }
    X509_free(cert);
    return pki_fail_ssl(err, RDMAD_E_SYSTEM, "cannot sign a certificate for %s", t->name);
}

/* ---- requests ------------------------------------------------------------------------------- */

int pki_request_make(const char *name, EVP_PKEY *key, uint8_t **der, size_t *size,
                     struct pki_error *err) {
    X509_REQ *request = X509_REQ_new();
    int length = -1;
    *der = NULL;
    if (request && X509_REQ_set_version(request, X509_REQ_VERSION_1) == 1 &&
        set_name(X509_REQ_get_subject_name(request), name) &&
        X509_REQ_set_pubkey(request, key) == 1 && X509_REQ_sign(request, key, digest_of(key)) > 0)
        length = i2d_X509_REQ(request, der);
    X509_REQ_free(request);
    if (length <= 0)
        return pki_fail_ssl(err, RDMAD_E_SYSTEM, "cannot make a request for %s", name);
    *size = (size_t)length;
    return RDMAD_OK;
}

/* The one common name of its subject. */
static int request_name(const X509_REQ *request, char name[RDMAD_NAME_MAX + 1],
                        struct pki_error *err) {
    const X509_NAME *subject = X509_REQ_get_subject_name(request);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at >= 0 && X509_NAME_get_index_by_NID(subject, NID_commonName, at) < 0) {
        const ASN1_STRING *text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
        int length = ASN1_STRING_length(text);
        if (length > 0 && length <= (int)RDMAD_NAME_MAX) {
            memcpy(name, ASN1_STRING_get0_data(text), (size_t)length);
            name[length] = '\0';
            if (strlen(name) == (size_t)length && rdmad_name_ok(name))
                return RDMAD_OK;
        }
    }
    return pki_fail(
        err, RDMAD_E_NAME,
        "the request names no node: letters, digits, '.', '_' and '-' are allowed, 63 at "
        "most");
}

int pki_request_read(const uint8_t *der, size_t size, char name[RDMAD_NAME_MAX + 1], EVP_PKEY **key,
                     struct pki_error *err) {
    const unsigned char *at = der;
    X509_REQ *request = size <= INT32_MAX ? d2i_X509_REQ(NULL, &at, (long)size) : NULL;
    EVP_PKEY *theirs = request ? X509_REQ_get_pubkey(request) : NULL;
    int rc;
    if (!request || at != der + size) {
        rc = pki_fail(err, RDMAD_E_PROTOCOL, "the request for a certificate is malformed");
    } else if (!(rc = pki_key_check(theirs, "the key of the request", err)) &&
               X509_REQ_verify(request, theirs) != 1) {
        rc = pki_fail(err, RDMAD_E_PROTOCOL,
                      "the request for a certificate is not signed by the key that it is for");
    }
    if (!rc)
        rc = request_name(request, name, err);
    X509_REQ_free(request);
    ERR_clear_error();
    if (rc)
        EVP_PKEY_free(theirs);
    else
        *key = theirs;
    return rc;
}

/* ---- lists of revoked certificates ---------------------------------------------------------- */

static bool list_add(X509_CRL *list, const ASN1_INTEGER *serial, const ASN1_TIME *when) {
    X509_REVOKED *entry = X509_REVOKED_new();
    if (entry && X509_REVOKED_set_serialNumber(entry, (ASN1_INTEGER *)serial) == 1 &&
        X509_REVOKED_set_revocationDate(entry, (ASN1_TIME *)when) == 1 &&
        X509_CRL_add0_revoked(list, entry) == 1)
        return true;
    X509_REVOKED_free(entry);
    return false;
}

static bool list_copy(X509_CRL *list, const X509_CRL *former, int64_t forget) {
    STACK_OF(X509_REVOKED) *old = former ? X509_CRL_get_REVOKED((X509_CRL *)former) : NULL;
    bool good = true;
    for (int i = 0; good && i < sk_X509_REVOKED_num(old); i++) {
        const X509_REVOKED *entry = sk_X509_REVOKED_value(old, i);
        const ASN1_TIME *when = X509_REVOKED_get0_revocationDate(entry);
        if (pki_seconds(when) >= forget)
            good = list_add(list, X509_REVOKED_get0_serialNumber(entry), when);
    }
    return good;
}

int64_t pki_list_number(const X509_CRL *list) {
    ASN1_INTEGER *number = list ? X509_CRL_get_ext_d2i(list, NID_crl_number, NULL, NULL) : NULL;
    int64_t n = 0;
    if (number && ASN1_INTEGER_get_int64(&n, number) != 1)
        n = 0;
    ASN1_INTEGER_free(number);
    return n;
}

static bool list_set_number(X509_CRL *list, const X509_CRL *former) {
    ASN1_INTEGER *number = ASN1_INTEGER_new();
    bool good = number && ASN1_INTEGER_set_int64(number, pki_list_number(former) + 1) == 1 &&
                X509_CRL_add1_ext_i2d(list, NID_crl_number, number, 0, 0) == 1;
    ASN1_INTEGER_free(number);
    return good;
}

static bool list_set_issuer(X509_CRL *list, X509 *ca) {
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, ca, NULL, NULL, list, 0);
    X509V3_set_ctx_nodb(&ctx);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, NID_authority_key_identifier, "keyid");
    bool good = e && X509_CRL_add_ext(list, e, -1) == 1 &&
                X509_CRL_set_issuer_name(list, X509_get_subject_name(ca)) == 1;
    X509_EXTENSION_free(e);
    return good;
}

int pki_list_sign(const struct pki_list_terms *t, const X509_CRL *former,
                  const STACK_OF(X509) * more, X509 *ca, EVP_PKEY *ca_key, X509_CRL **out,
                  struct pki_error *err) {
    X509_CRL *list = X509_CRL_new();
    ASN1_TIME *now = ASN1_TIME_set(NULL, (time_t)t->now);
    ASN1_TIME *from = ASN1_TIME_set(NULL, (time_t)t->from);
    ASN1_TIME *until = ASN1_TIME_set(NULL, (time_t)t->until);
    bool good = list && now && from && until &&
                X509_CRL_set_version(list, X509_CRL_VERSION_2) == 1 &&
                X509_CRL_set1_lastUpdate(list, from) == 1 &&
                X509_CRL_set1_nextUpdate(list, until) == 1 && list_set_issuer(list, ca) &&
                list_set_number(list, former) && list_copy(list, former, t->forget);
    for (int i = 0; good && i < sk_X509_num(more); i++)
        good = list_add(list, X509_get0_serialNumber(sk_X509_value(more, i)), now);
    good = good && X509_CRL_sort(list) == 1 && X509_CRL_sign(list, ca_key, digest_of(ca_key)) > 0;
    ASN1_TIME_free(now);
    ASN1_TIME_free(from);
    ASN1_TIME_free(until);
    if (good) {
        *out = list;
        return RDMAD_OK;
    }
    X509_CRL_free(list);
    return pki_fail_ssl(err, RDMAD_E_SYSTEM, "cannot sign the list of revoked certificates");
}
