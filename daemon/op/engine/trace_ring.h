/* SPDX-License-Identifier: MIT */
/*
 * trace_ring.h - records of ops on their way from a worker to who traces, without a lock.
 *
 * One thread puts, another takes. A ring that is full takes nothing more: what comes then is
 * dropped and counted, so a reader who does not read costs the worker nothing but that count.
 */
#ifndef RDMAD_OP_ENGINE_TRACE_RING_H
#define RDMAD_OP_ENGINE_TRACE_RING_H

#include "daemon/plane/plane.h"

struct trace_ring {
    struct plane_traced *records;
    uint32_t mask;
    uint32_t head;    /* atomic, of who puts: so many were put, */
    uint32_t tail;    /* atomic, of who takes: and so many taken */
    uint64_t dropped; /* atomic, of who puts */
};

/* records: so many, a power of two. False: out of memory. */
bool trace_ring_init(struct trace_ring *ring, uint32_t records);
void trace_ring_fini(struct trace_ring *ring);

/* The worker's. */
void trace_ring_put(struct trace_ring *ring, const struct plane_traced *record);

/* The reader's: the oldest, until it is taken; NULL: there is none. */
const struct plane_traced *trace_ring_first(const struct trace_ring *ring);
void trace_ring_take(struct trace_ring *ring);
uint64_t trace_ring_dropped(const struct trace_ring *ring); /* so far */

#endif
