/* SPDX-License-Identifier: MIT */
/*
 * ids.c - the hash table behind ids.h: chains, about as many things as buckets.
 *
 * Bucket number n comes by splitting the chain of number n - low, where low is the largest power of
 * two that is not above n: what is in both agrees in the bits below low, and differs in that one.
 * Buckets are never moved: the first are in the table, all others in parts that double in length.
 */
#include "daemon/op/tool/ids.h"
#include <rdmad/abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define SPLITS_AN_ADD 2u /* so it catches up when there is memory again */

void ids_init(struct ids *ids, uint64_t secret) {
    *ids = (struct ids){.secret = secret};
}

void ids_fini(struct ids *ids) {
    for (unsigned i = 0; i < IDS_PARTS; i++)
        free(ids->part[i]);
    ids_init(ids, ids->secret);
}

static uint32_t low_of(uint32_t n) {
    return UINT32_C(1) << (31 - __builtin_clz(n));
}

/* Which bits of the product depend on which of the id nobody can tell without the secret. */
static uint32_t mixed(const struct ids *ids, uint64_t id) {
    uint64_t product = id * (ids->secret | 1);
    return (uint32_t)((product ^ product >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static unsigned part_of(uint32_t low) {
    return (unsigned)__builtin_ctz(low / IDS_LEAST);
}

static struct id_node **ids_bucket(const struct ids *ids, uint32_t n) {
    if (n < IDS_LEAST)
        return (struct id_node **)&ids->least[n];
    uint32_t low = low_of(n);
    return &ids->part[part_of(low)][n - low];
}

static struct id_node **chain_of(const struct ids *ids, uint64_t id) {
    uint32_t buckets = IDS_LEAST + ids->more, low = low_of(buckets), hash = mixed(ids, id);
    uint32_t n = hash & (2 * low - 1);
    return ids_bucket(ids, n < buckets ? n : n - low);
}

static bool part_ready(struct ids *ids, uint32_t low) {
    unsigned i = part_of(low);
    if (i < IDS_PARTS && !ids->part[i])
        ids->part[i] = malloc(low * sizeof(struct id_node *));
    return i < IDS_PARTS && ids->part[i];
}

/* One bucket more. False: out of memory, or there are as many as there may be. */
static bool ids_split(struct ids *ids) {
    uint32_t n = IDS_LEAST + ids->more, low = low_of(n);
    if (!part_ready(ids, low))
        return false;
    struct id_node **from = ids_bucket(ids, n - low), **to = ids_bucket(ids, n);
    *to = NULL;
    ids->more++;
    for (struct id_node *thing; (thing = *from);) {
        if (!(mixed(ids, thing->id) & low)) {
            from = &thing->next;
            continue;
        }
        *from = thing->next;
        thing->next = *to;
        *to = thing;
    }
    return true;
}

int ids_add(struct ids *ids, struct id_node *thing, uint64_t id) {
    if (ids_find(ids, id))
        return RDMAD_E_EXISTS;
    ids->used++;
    for (unsigned i = 0; i < SPLITS_AN_ADD && ids->used > IDS_LEAST + ids->more; i++)
        if (!ids_split(ids))
            break;
    struct id_node **chain = chain_of(ids, id);
    thing->id = id;
    thing->next = *chain;
    *chain = thing;
    return 0;
}

void ids_remove(struct ids *ids, struct id_node *thing) {
    struct id_node **at = chain_of(ids, thing->id);
    while (*at && *at != thing)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = thing->next;
    ids->used--;
}

struct id_node *ids_find(const struct ids *ids, uint64_t id) {
    struct id_node *thing = *chain_of(ids, id);
    while (thing && thing->id != id)
        thing = thing->next;
    return thing;
}
