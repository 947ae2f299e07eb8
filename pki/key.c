/* SPDX-License-Identifier: MIT */
#include "pki/key.h"
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

int pki_key_make(EVP_PKEY **out, struct pki_error *err) {
    *out = EVP_EC_gen("P-256");
    return *out ? RDMAD_OK : pki_fail_ssl(err, RDMAD_E_SYSTEM, "cannot make a key");
}

/* Nobody is there to be asked, and OpenSSL would ask the terminal. */
static int no_passphrase(char *buf, int size, int writing, void *arg) {
    (void)buf, (void)size, (void)writing, (void)arg;
    return -1;
}

int pki_key_parse(const char *pem, size_t size, const char *what, EVP_PKEY **out,
                  struct pki_error *err) {
    BIO *bio = BIO_new_mem_buf(pem, (int)size);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;
    BIO_free(bio);
    if (!key)
        return pki_fail_ssl(err, RDMAD_E_CONFIG,
                            "%s has no private key in PEM without a passphrase", what);
    int rc = pki_key_check(key, what, err);
    if (rc)
        EVP_PKEY_free(key);
    else
        *out = key;
    return rc;
}

int pki_key_print(const EVP_PKEY *key, char **out, size_t *size, struct pki_error *err) {
    BIO *bio = BIO_new(BIO_s_mem());
    char *data = NULL;
    long length = 0;
    if (bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1)
        length = BIO_get_mem_data(bio, &data);
    *out = length > 0 ? malloc((size_t)length + 1) : NULL;
    if (*out) {
        memcpy(*out, data, (size_t)length);
        (*out)[length] = '\0';
        *size = (size_t)length;
        OPENSSL_cleanse(data, (size_t)length);
    }
    BIO_free(bio);
    return *out ? RDMAD_OK : pki_fail_ssl(err, RDMAD_E_NOMEM, "cannot write a key as PEM");
}

int pki_key_check(const EVP_PKEY *key, const char *what, struct pki_error *err) {
    char curve[64] = "";
    if (!key)
        return pki_fail_ssl(err, RDMAD_E_UNSUPPORTED, "%s cannot be read", what);
    int bits = EVP_PKEY_get_bits(key);
    switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_EC:
        if (EVP_PKEY_get_group_name(key, curve, sizeof(curve), NULL) == 1 &&
            (!strcmp(curve, "prime256v1") || !strcmp(curve, "secp384r1")))
            return RDMAD_OK;
        return pki_fail(err, RDMAD_E_UNSUPPORTED,
                        "%s is on the curve %s; P-256 and P-384 are taken", what,
                        *curve ? curve : "of its own");
    case EVP_PKEY_ED25519:
        return RDMAD_OK;
    case EVP_PKEY_RSA:
        if (bits >= 2048 && bits <= 8192)
            return RDMAD_OK;
        return pki_fail(err, RDMAD_E_UNSUPPORTED,
                        "%s is an RSA key of %d bits; 2048 to 8192 are taken", what, bits);
    default:
        return pki_fail(err, RDMAD_E_UNSUPPORTED,
                        "%s is of a type that is not taken; P-256, P-384, Ed25519 and RSA are",
                        what);
    }
}
