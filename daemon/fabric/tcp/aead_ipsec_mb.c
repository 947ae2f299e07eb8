/* SPDX-License-Identifier: MIT */
/*
 * aead_ipsec_mb.c - AES-128-GCM by Intel's library libipsec-mb, for CPUs with VAES and AVX-512,
 * whoever made them.
 *
 * Of the library's manager only three functions are used. They keep all that they need in the key
 * and in a context of the call, so one manager, made at the first use, serves all workers. On other
 * CPUs its AES-GCM is no faster than OpenSSL's for long records, so it is not used there.
 */
#include "daemon/fabric/tcp/aead_ipsec_mb.h"

#ifdef RDMAD_IPSEC_MB

#include "daemon/base/list.h"
#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KEY_ALIGNMENT 64u

struct ipsec_mb {
    struct aead base;
    struct gcm_key_data key __attribute__((aligned(KEY_ALIGNMENT)));
};

static struct {
    aes_gcm_pre_t key_make;
    aes_gcm_enc_dec_t seal, open;
} library; /* written once */

static void library_open(void) {
    const uint64_t needed = IMB_CPUFLAGS_AVX512 | IMB_FEATURE_VAES | IMB_FEATURE_VPCLMULQDQ;
    IMB_MGR *manager = alloc_mb_mgr(0);
    if (!manager)
        return;
    if ((manager->features & needed) == needed) {
        init_mb_mgr_avx512(manager);
        library.key_make = manager->gcm128_pre;
        library.seal = manager->gcm128_enc;
        library.open = manager->gcm128_dec;
    }
    free_mb_mgr(manager);
}

static bool library_there(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, library_open);
    return library.key_make != NULL;
}

static bool ipsec_mb_seal(struct aead *a, const uint8_t *nonce, const uint8_t *known, uint32_t size,
                          uint8_t *bytes, uint32_t n) {
    const struct ipsec_mb *i = container_of(a, struct ipsec_mb, base);
    struct gcm_context_data context;
    library.seal(&i->key, &context, bytes, bytes, n, nonce, known, size, bytes + n, AEAD_TAG);
    return true;
}

static bool ipsec_mb_open(struct aead *a, const uint8_t *nonce, const uint8_t *known, uint32_t size,
                          const uint8_t *bytes, uint32_t n, uint8_t *to) {
    const struct ipsec_mb *i = container_of(a, struct ipsec_mb, base);
    struct gcm_context_data context;
    uint8_t tag[AEAD_TAG];
    library.open(&i->key, &context, to, bytes, n, nonce, known, size, tag, AEAD_TAG);
    return CRYPTO_memcmp(tag, bytes + n, AEAD_TAG) == 0;
}

static void ipsec_mb_free(struct aead *a) {
    struct ipsec_mb *i = container_of(a, struct ipsec_mb, base);
    explicit_bzero(i, sizeof *i);
    free(i);
}

static const struct aead_ops ops = {
    .by = FABRIC_IPSEC_MB,
    .seal = ipsec_mb_seal,
    .open = ipsec_mb_open,
    .free = ipsec_mb_free,
};

struct aead *aead_ipsec_mb(enum aead_suite suite, const uint8_t *key, bool seals) {
    (void)seals; /* a key does both */
    if (suite != AEAD_AES_128_GCM || !library_there())
        return NULL;
    struct ipsec_mb *i = aligned_alloc(KEY_ALIGNMENT, sizeof *i);
    if (!i)
        return NULL;
    i->base.ops = &ops;
    library.key_make(key, &i->key);
    return &i->base;
}

#else

struct aead *aead_ipsec_mb(enum aead_suite suite, const uint8_t *key, bool seals) {
    (void)suite, (void)key, (void)seals;
    return NULL;
}

#endif
