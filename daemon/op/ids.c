/* SPDX-License-Identifier: MIT */
/*
 * ids.c - the hash table behind ids.h: chains, at most as many things as buckets.
 *
 * When there is no memory to grow, chains get longer; only the very first bucket array is needed.
 */
#include "daemon/op/ids.h"
#include <rdmad/abi.h>
#include <stdlib.h>

#define FIRST_BUCKETS 16u
#define MOST_BUCKETS (1u << 20)

static struct list *bucket_of(const struct ids *ids, uint64_t id) {
    uint64_t mixed = id * UINT64_C(0x9e3779b97f4a7c15);
    return &ids->bucket[(mixed >> 32) & (ids->buckets - 1)];
}

static void grow(struct ids *ids) {
    uint32_t buckets = ids->buckets ? 2 * ids->buckets : FIRST_BUCKETS;
    struct ids larger = {.bucket = calloc(buckets, sizeof(*larger.bucket)), .buckets = buckets};
    if (!larger.bucket)
        return;
    for (uint32_t i = 0; i < buckets; i++)
        list_init(&larger.bucket[i]);
    for (uint32_t i = 0; i < ids->buckets; i++)
        for (struct list *pos; (pos = list_pop(&ids->bucket[i]));)
            list_append(bucket_of(&larger, list_entry(pos, struct id_node, node)->id), pos);
    free(ids->bucket);
    ids->bucket = larger.bucket;
    ids->buckets = buckets;
}

void ids_fini(struct ids *ids) {
    free(ids->bucket);
    *ids = (struct ids){0};
}

int ids_add(struct ids *ids, struct id_node *thing, uint64_t id) {
    list_init(&thing->node);
    if (ids_find(ids, id))
        return RDMAD_E_EXISTS;
    if (ids->used >= ids->buckets && ids->buckets < MOST_BUCKETS)
        grow(ids);
    if (!ids->buckets)
        return RDMAD_E_NOMEM;
    thing->id = id;
    list_append(bucket_of(ids, id), &thing->node);
    ids->used++;
    return 0;
}

void ids_remove(struct ids *ids, struct id_node *thing) {
    if (list_empty(&thing->node))
        return;
    list_remove(&thing->node);
    ids->used--;
}

struct id_node *ids_find(const struct ids *ids, uint64_t id) {
    if (!ids->buckets)
        return NULL;
    list_for_each (pos, bucket_of(ids, id)) {
        struct id_node *thing = list_entry(pos, struct id_node, node);
        if (thing->id == id)
            return thing;
    }
    return NULL;
}
