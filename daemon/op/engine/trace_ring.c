/* SPDX-License-Identifier: MIT */
/*
 * trace_ring.c - see trace_ring.h.
 */
#include "daemon/op/engine/trace_ring.h"
#include <assert.h>
#include <stdlib.h>

bool trace_ring_init(struct trace_ring *ring, uint32_t records) {
    assert(records && !(records & (records - 1)));
    *ring = (struct trace_ring){.mask = records - 1};
    ring->records = calloc(records, sizeof(*ring->records));
    return ring->records != NULL;
}

void trace_ring_fini(struct trace_ring *ring) {
    free(ring->records);
    ring->records = NULL;
}

void trace_ring_put(struct trace_ring *ring, const struct plane_traced *record) {
    uint32_t head = ring->head;
    /* Acquire: the reader has copied what it has taken. */
    if (head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) > ring->mask) {
        __atomic_store_n(&ring->dropped, ring->dropped + 1, __ATOMIC_RELAXED);
        return;
    }
    ring->records[head & ring->mask] = *record;
    __atomic_store_n(&ring->head, head + 1, __ATOMIC_RELEASE);
}

const struct plane_traced *trace_ring_first(const struct trace_ring *ring) {
    uint32_t tail = ring->tail;
    if (__atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) == tail)
        return NULL;
    return &ring->records[tail & ring->mask];
}

void trace_ring_take(struct trace_ring *ring) {
    assert(trace_ring_first(ring));
    __atomic_store_n(&ring->tail, ring->tail + 1, __ATOMIC_RELEASE);
}

uint64_t trace_ring_dropped(const struct trace_ring *ring) {
    return __atomic_load_n(&ring->dropped, __ATOMIC_RELAXED);
}
