/* SPDX-License-Identifier: MIT */
/*
 * ids.c - the hash table behind ids.h: chains, at most as many things as buckets.
 *
 * When there is no memory to grow, chains get longer; only the very first bucket array is needed.
 */
#include "daemon/op/tool/ids.h"
#include <rdmad/abi.h>
#include <stddef.h>
#include <stdlib.h>

#define FIRST_BUCKETS 16u
#define MOST_BUCKETS (1u << 20)

static struct id_node **chain_of(const struct ids *ids, uint64_t id) {
    uint64_t mixed = id * UINT64_C(0x9e3779b97f4a7c15);
    return &ids->bucket[(mixed >> 32) & (ids->buckets - 1)];
}

static void ids_put(struct ids *ids, struct id_node *thing) {
    struct id_node **chain = chain_of(ids, thing->id);
    thing->next = *chain;
    *chain = thing;
}

static void ids_grow(struct ids *ids) {
    struct ids larger = {.buckets = ids->buckets ? 2 * ids->buckets : FIRST_BUCKETS,
                         .used = ids->used};
    larger.bucket = calloc(larger.buckets, sizeof(struct id_node *));
    if (!larger.bucket)
        return;
    for (uint32_t i = 0; i < ids->buckets; i++)
        for (struct id_node *next, *thing = ids->bucket[i]; thing; thing = next) {
            next = thing->next;
            ids_put(&larger, thing);
        }
    free(ids->bucket);
    *ids = larger;
}

void ids_fini(struct ids *ids) {
    free(ids->bucket);
    *ids = (struct ids){0};
}

int ids_add(struct ids *ids, struct id_node *thing, uint64_t id) {
    if (ids_find(ids, id))
        return RDMAD_E_EXISTS;
    if (ids->used >= ids->buckets && ids->buckets < MOST_BUCKETS)
        ids_grow(ids);
    if (!ids->buckets)
        return RDMAD_E_NOMEM;
    thing->id = id;
    ids_put(ids, thing);
    ids->used++;
    return 0;
}

void ids_remove(struct ids *ids, struct id_node *thing) {
    if (!ids->buckets)
        return;
    struct id_node **at = chain_of(ids, thing->id);
    while (*at && *at != thing)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = thing->next;
    ids->used--;
}

struct id_node *ids_find(const struct ids *ids, uint64_t id) {
    if (!ids->buckets)
        return NULL;
    struct id_node *thing = *chain_of(ids, id);
    while (thing && thing->id != id)
        thing = thing->next;
    return thing;
}
