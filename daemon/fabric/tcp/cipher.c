/* SPDX-License-Identifier: MIT */
/*
 * cipher.c - which library encrypts.
 *
 * It is chosen once in a process. The faster one is believed only after what it seals was opened by
 * OpenSSL, what OpenSSL sealed by it, and a changed tag was refused.
 */
#include "daemon/fabric/tcp/cipher.h"
#include "daemon/base/log.h"
#include "daemon/fabric/tcp/aead_ipsec_mb.h"
#include "daemon/fabric/tcp/aead_openssl.h"
#include <pthread.h>
#include <string.h>

#define PROBE_MAX 1000u

/* What one seals the other opens, and refuses when a bit was changed. */
static bool understands(struct aead *seals, struct aead *opens, uint32_t n) {
    static const uint8_t nonce[AEAD_NONCE] = {7}, known[5] = {23, 3, 3, 1, 2};
    uint8_t said[PROBE_MAX + AEAD_TAG], sealed[PROBE_MAX + AEAD_TAG], heard[PROBE_MAX];
    for (uint32_t i = 0; i < n; i++)
        said[i] = (uint8_t)(i * 31 + n);
    memcpy(sealed, said, n);
    if (!seals->ops->seal(seals, nonce, known, sizeof known, sealed, n) ||
        !opens->ops->open(opens, nonce, known, sizeof known, sealed, n, heard) ||
        memcmp(said, heard, n) != 0)
        return false;
    sealed[n + AEAD_TAG - 1] ^= 1;
    return !opens->ops->open(opens, nonce, known, sizeof known, sealed, n, heard);
}

static enum fabric_encryption chosen; /* for AES-128-GCM; written once */

static void choose(void) {
    static const uint32_t sizes[] = {1, 16, 17, 255, PROBE_MAX};
    static const uint8_t key[AEAD_KEY_MAX] = {1, 2, 3, 4};
    struct aead *fast[2], *slow[2];
    bool good = true;
    chosen = FABRIC_OPENSSL;
    for (unsigned seals = 0; seals < 2; seals++) {
        fast[seals] = aead_ipsec_mb(AEAD_AES_128_GCM, key, seals);
        slow[seals] = aead_openssl(AEAD_AES_128_GCM, key, seals);
        good &= fast[seals] && slow[seals];
    }
    bool there = good;
    for (unsigned i = 0; good && i < sizeof sizes / sizeof *sizes; i++)
        good = understands(fast[1], slow[0], sizes[i]) && understands(slow[1], fast[0], sizes[i]);
    for (unsigned seals = 0; seals < 2; seals++) {
        aead_free(fast[seals]);
        aead_free(slow[seals]);
    }
    if (good)
        chosen = FABRIC_IPSEC_MB;
    else if (there)
        LOG(WARNING, ("libipsec-mb and OpenSSL do not understand each other on this CPU: data "
                      "connections are encrypted by OpenSSL"));
}

enum fabric_encryption cipher_library(enum aead_suite suite) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return suite == AEAD_AES_128_GCM ? chosen : FABRIC_OPENSSL;
}

struct aead *cipher_new(enum aead_suite suite, const uint8_t *key, bool seals) {
    return cipher_library(suite) == FABRIC_IPSEC_MB ? aead_ipsec_mb(suite, key, seals)
                                                    : aead_openssl(suite, key, seals);
}
