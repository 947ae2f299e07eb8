/* SPDX-License-Identifier: MIT */
/* What lies in the identity directory is read, or refused with a sentence: certificates, lists,
 * keys; and tokens that people type. Bytes after the first are the file. */
#include "pki/cert.h"
#include "pki/key.h"
#include "pki/token.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_words(int rc, const struct pki_error *err) {
    if (rc && (err->code != rc || !err->text[0]))
        abort();
}

static void look_at(X509 *cert) {
    char name[RDMAD_NAME_MAX + 1], subject[PKI_SUBJECT_TEXT], text[PKI_FINGERPRINT_TEXT];
    char date[PKI_DATE_TEXT];
    if (pki_name_of(cert, name) != (name[0] != '\0'))
        abort();
    (void)pki_is_ca(cert);
    (void)pki_serves_joins(cert);
    pki_subject_text(cert, subject);
    pki_fingerprint_text(cert, text);
    pki_date_text(pki_seconds(X509_get0_notAfter(cert)), date);
}

static void read_certs(const char *text, size_t size) {
    struct pki_error err = {0};
    STACK_OF(X509) *certs = NULL;
    int rc = pki_certs_parse(text, size, "F", 4, &certs, &err);
    expect_words(rc, &err);
    if (!rc && (sk_X509_num(certs) < 1 || sk_X509_num(certs) > 4))
        abort();
    for (int i = 0; !rc && i < sk_X509_num(certs); i++)
        look_at(sk_X509_value(certs, i));
    if (!rc)
        sk_X509_pop_free(certs, X509_free);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pki_error err = {0};
    STACK_OF(X509_CRL) *crls = NULL;
    EVP_PKEY *key = NULL;
    struct pki_token token;
    if (!size)
        return 0;
    char *text = malloc(size);
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    size--;
    switch (data[0] % 4) {
    case 0:
        read_certs(text, size);
        break;
    case 1:
        expect_words(pki_crls_parse(text, size, "F", &crls, &err), &err);
        sk_X509_CRL_pop_free(crls, X509_CRL_free);
        break;
    case 2:
        expect_words(pki_key_parse(text, size, "F", &key, &err), &err);
        EVP_PKEY_free(key);
        break;
    default:
        (void)pki_token_parse(text, &token);
    }
    free(text);
    return 0;
}
