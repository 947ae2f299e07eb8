/* SPDX-License-Identifier: MIT */
/*
 * holders.h - what a pool knows of those who use its memory: the map of what is held, the program's
 * locks, who waits for one, what is lent to others by leases, and the pieces that were freed while
 * they were held or lent.
 *
 * Locks, in the order in which they are taken: the session's, a pool's holders'. Ops take neither
 * unless they are refused, or somebody waits for what they give up (attention).
 */
#ifndef RDMAD_LIBCLIENT_HOLDERS_H
#define RDMAD_LIBCLIENT_HOLDERS_H

#include "libclient/memory/hold_map.h"
#include <pthread.h>
#include <stddef.h>

struct rdmad_buf_lock;
struct rdmad_deferred;
struct rdmad_lent;

struct rdmad_holders {
    struct rdmad_hold_map *map;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something was given up while attention was not 0 */
    unsigned attention;     /* atomic: threads that wait, and deferred frees */
    struct rdmad_buf_lock *locks;
    struct rdmad_deferred *deferred;      /* freed, and held by ops or locks */
    struct rdmad_deferred *deferred_lent; /* freed, and under leases, which may last long */
    struct rdmad_hold_map *lent_map;      /* atomic; NULL: nothing was ever lent */
    struct rdmad_lent *lent, **last_lent; /* with the session's lock: what is lent, oldest first */
};

/* False: out of memory. */
bool rdmad_holders_init(struct rdmad_holders *h, uint64_t bytes);
/* Nobody may use the pool any more. Also allowed after an init that failed, or none. */
void rdmad_holders_fini(struct rdmad_holders *h);

/* Whether an op or a lock holds a byte of the range now. */
bool rdmad_is_held(struct rdmad_holders *h, uint64_t offset, uint64_t length);
/* Whether a byte of it is under a lease or in a budget. */
bool rdmad_is_lent(struct rdmad_holders *h, uint64_t offset, uint64_t length);

#endif
