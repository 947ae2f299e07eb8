/* SPDX-License-Identifier: MIT */
/*
 * A blob that a peer's daemon sent: what is read from it keeps to its bounds, and written again it
 * is the same bytes.
 *
 * The first byte chooses the kind, and whether version, kind and the flag that follows are put
 * right, so that the fuzzer gets beyond them at once.
 */
#include "daemon/fabric/verbs/wire/blob.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition) {
    if (!condition)
        abort();
}

static void check_end(const struct endpoint *e) {
    must(e->lanes >= 1 && e->lanes <= VERBS_LANES_MAX && e->max_message > 0);
    must(e->mtu >= 1 && e->mtu <= 5);
    for (unsigned i = 0; i < e->lanes; i++)
        must(e->qp_num[i] >= 2 && e->qp_num[i] < 1u << 24 && e->psn[i] < 1u << 24);
}

static void same(const struct fabric_blob *a, const struct fabric_blob *b) {
    must(a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0);
}

static void try_hello(const struct fabric_blob *blob) {
    struct verbs_hello hello;
    struct fabric_blob again;
    if (!blob_read_hello(blob, &hello))
        return;
    if (!hello.cm)
        check_end(&hello.end);
    blob_write_hello(&hello, &again);
    same(blob, &again);
}

static void try_offer(const struct fabric_blob *blob) {
    struct verbs_offer offer;
    struct fabric_blob again;
    if (!blob_read_offer(blob, &offer))
        return;
    must(offer.number != 0 && (!offer.cm || offer.port != 0));
    if (!offer.cm)
        check_end(&offer.end);
    blob_write_offer(&offer, &again);
    same(blob, &again);
}

static void try_key(const struct fabric_blob *blob) {
    struct verbs_key key;
    struct fabric_blob again;
    if (!blob_read_key(blob, &key))
        return;
    must(key.count >= 1 && key.count <= VERBS_LANES_MAX);
    blob_write_key(&key, &again);
    same(blob, &again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const kinds[])(const struct fabric_blob *) = {try_hello, try_offer, try_key};
    if (size < 1 || size - 1 > FABRIC_BLOB_MAX)
        return -1;
    /* On the heap, so that the sanitizer sees the first byte beyond its size. */
    struct fabric_blob *blob = malloc(sizeof *blob);
    must(blob != NULL);
    *blob = (struct fabric_blob){.size = (uint8_t)(size - 1)};
    memcpy(blob->bytes, data + 1, size - 1);
    unsigned kind = data[0] % 3u;
    if (data[0] & 0x80 && blob->size >= 3) {
        blob->bytes[0] = VERBS_BLOB_VERSION;
        blob->bytes[1] = (uint8_t)(kind + 1);
        blob->bytes[2] %= 9;
    }
    kinds[kind](blob);
    free(blob);
    return 0;
}
