/* SPDX-License-Identifier: MIT */
/*
 * A blob of the tcp fabric that a peer's daemon sent: what is read from it is in its bounds, and
 * written again it is the same bytes. The first byte chooses the kind, and whether the version is
 * put right.
 */
#include "daemon/fabric/tcp/blob.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct fabric_blob *a, const struct fabric_blob *b) {
    if (a->size != b->size || memcmp(a->bytes, b->bytes, a->size) != 0)
        abort();
}

static void try_hello(const struct fabric_blob *blob) {
    struct fabric_blob again;
    bool encrypt;
    if (!wish_read(blob, &encrypt))
        return;
    wish_put(&again, encrypt);
    same(blob, &again);
}

static void try_offer(const struct fabric_blob *blob) {
    struct fabric_blob again;
    struct invitation i;
    if (!offer_read(blob, &i))
        return;
    if (i.port == 0 || i.number == 0)
        abort();
    offer_put(&again, &i);
    same(blob, &again);
}

static void try_key(const struct fabric_blob *blob) {
    struct fabric_blob again;
    uint32_t slot;
    uint64_t key;
    if (!key_read(blob, &slot, &key))
        return;
    key_put(&again, slot, key);
    same(blob, &again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > FABRIC_BLOB_MAX)
        return 0;
    struct fabric_blob blob = {.size = (uint8_t)(size - 1)};
    memcpy(blob.bytes, data + 1, size - 1);
    if (data[0] & 4)
        blob.bytes[0] = 1 + (data[0] >> 3) % 3;
    if (data[0] % 4 == 0)
        try_hello(&blob);
    else if (data[0] % 4 == 1)
        try_key(&blob);
    else
        try_offer(&blob);
    return 0;
}
