/* SPDX-License-Identifier: MIT */
/*
 * aead_openssl.c - AES-128-GCM and ChaCha20-Poly1305 by OpenSSL (EVP_EncryptInit(3)).
 */
#include "daemon/fabric/tcp/aead_openssl.h"
#include "daemon/base/list.h"
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

struct openssl {
    struct aead base;
    EVP_CIPHER_CTX *ctx;
};

static EVP_CIPHER_CTX *ctx_of(struct aead *a) {
    return container_of(a, struct openssl, base)->ctx;
}

static bool openssl_begin(EVP_CIPHER_CTX *ctx, const uint8_t *nonce, const uint8_t *known,
                          uint32_t size) {
    int n;
    return EVP_CipherInit_ex(ctx, NULL, NULL, NULL, nonce, -1) == 1 &&
           EVP_CipherUpdate(ctx, NULL, &n, known, (int)size) == 1;
}

static bool openssl_seal(struct aead *a, const uint8_t *nonce, const uint8_t *known, uint32_t size,
                         uint8_t *bytes, uint32_t n) {
    EVP_CIPHER_CTX *ctx = ctx_of(a);
    int done, rest;
    return openssl_begin(ctx, nonce, known, size) &&
           EVP_CipherUpdate(ctx, bytes, &done, bytes, (int)n) == 1 &&
           EVP_CipherFinal_ex(ctx, bytes + done, &rest) == 1 &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, (int)AEAD_TAG, bytes + n) == 1;
}

static bool openssl_open(struct aead *a, const uint8_t *nonce, const uint8_t *known, uint32_t size,
                         const uint8_t *bytes, uint32_t n, uint8_t *to) {
    EVP_CIPHER_CTX *ctx = ctx_of(a);
    uint8_t tag[AEAD_TAG];
    int done, rest;
    memcpy(tag, bytes + n, sizeof tag);
    return openssl_begin(ctx, nonce, known, size) &&
           EVP_CipherUpdate(ctx, to, &done, bytes, (int)n) == 1 &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, (int)sizeof tag, tag) == 1 &&
           EVP_CipherFinal_ex(ctx, to + done, &rest) == 1;
}

static void openssl_free(struct aead *a) {
    struct openssl *o = container_of(a, struct openssl, base);
    EVP_CIPHER_CTX_free(o->ctx);
    free(o);
}

static const struct aead_ops ops = {
    .by = FABRIC_OPENSSL,
    .seal = openssl_seal,
    .open = openssl_open,
    .free = openssl_free,
};

struct aead *aead_openssl(enum aead_suite suite, const uint8_t *key, bool seals) {
    const EVP_CIPHER *cipher =
        suite == AEAD_AES_128_GCM ? EVP_aes_128_gcm() : EVP_chacha20_poly1305();
    struct openssl *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->base.ops = &ops;
    o->ctx = EVP_CIPHER_CTX_new();
    if (o->ctx && EVP_CipherInit_ex(o->ctx, cipher, NULL, key, NULL, seals) == 1)
        return &o->base;
    ERR_clear_error();
    openssl_free(&o->base);
    return NULL;
}
