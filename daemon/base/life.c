/* SPDX-License-Identifier: MIT */
/*
 * life.c - the chain: life n's key is the hash of life n+1's, and the hash of the first names the
 * node.
 */
#include "daemon/base/life.h"
#include <string.h>

static void back(uint8_t key[HASH_BYTES], uint32_t lives) {
    while (lives--)
        hash_bytes(key, HASH_BYTES, key);
}

void life_make(const uint8_t secret[HASH_BYTES], uint32_t number, struct life *out) {
    uint8_t first[HASH_BYTES];
    memcpy(out->key, secret, sizeof(out->key));
    back(out->key, LIFE_LAST + 1 - number);
    memcpy(first, out->key, sizeof(first));
    back(first, number);
    memcpy(out->node, first, sizeof(out->node));
    out->number = number;
}

void life_recall(const struct life *life, struct life_past *out) {
    out->life = *life;
    memcpy(out->key[0], life->key, sizeof(out->key[0]));
    for (unsigned i = 1; i <= LIFE_REACH; i++)
        hash_bytes(out->key[i - 1], HASH_BYTES, out->key[i]);
}

bool life_follows(const struct life_past *past, const struct life *earlier) {
    const struct life *l = &past->life;
    if (!earlier->number || earlier->number > l->number ||
        l->number - earlier->number > LIFE_REACH ||
        memcmp(l->node, earlier->node, sizeof(l->node)) != 0)
        return false;
    return memcmp(past->key[l->number - earlier->number], earlier->key, HASH_BYTES) == 0;
}

bool life_is(const struct life *a, const struct life *b) {
    return a->number && a->number == b->number && !memcmp(a->node, b->node, sizeof(a->node)) &&
           !memcmp(a->key, b->key, sizeof(a->key));
}
