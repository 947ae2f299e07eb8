/* SPDX-License-Identifier: MIT */
/*
 * holders.c - the beginning and the end of a pool's records, and the two questions that are asked
 * of them most.
 */
#include "libclient/memory/holders.h"
#include "libclient/base/clock.h"

bool rdmad_holders_init(struct rdmad_holders *h, uint64_t bytes) {
    h->map = rdmad_hold_map_new(bytes);
    if (!h->map)
        return false;
    h->last_lent = &h->lent;
    pthread_mutex_init(&h->lock, NULL);
    rdmad_cond_init(&h->changed);
    return true;
}

void rdmad_holders_fini(struct rdmad_holders *h) {
    if (!h->map)
        return;
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    rdmad_hold_map_free(h->map);
    rdmad_hold_map_free(h->lent_map);
}

bool rdmad_is_held(struct rdmad_holders *h, uint64_t offset, uint64_t length) {
    return !rdmad_hold_map_unheld(h->map, offset, length);
}

bool rdmad_is_lent(struct rdmad_holders *h, uint64_t offset, uint64_t length) {
    struct rdmad_hold_map *map = __atomic_load_n(&h->lent_map, __ATOMIC_ACQUIRE);
    return map && !rdmad_hold_map_unheld(map, offset, length);
}
