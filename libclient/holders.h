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
#include <sys/types.h>

struct rdmad_pool;
struct rdmad_session;
struct rdmad_buf_lock;
struct rdmad_deferred;

struct rdmad_holders {
    struct rdmad_hold_map *map;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something was given up while attention was not 0 */
    unsigned attention;     /* atomic: threads that wait, and deferred frees */
    struct rdmad_buf_lock *locks;
    struct rdmad_deferred *deferred;      /* freed, and held by ops or locks */
    struct rdmad_deferred *deferred_lent; /* freed, and under leases: those may last */
    struct rdmad_hold_map *lent_map;      /* atomic; NULL: nothing was ever lent */
};

/* A range under a lease or in a budget; of no length: none. */
struct rdmad_lent {
    uint64_t pool; /* handle */
    uint64_t offset, length;
};

/* False: out of memory. */
bool rdmad_holders_init(struct rdmad_holders *h, uint64_t bytes);
/* Nobody uses the pool any more; also after a failed or without an init. */
void rdmad_holders_fini(struct rdmad_holders *h);

/* Takes a range, or says in who, of size bytes, who holds it (RDMAD_E_BUSY). who is relative to
 * the range's start. */
int rdmad_holders_take(struct rdmad_pool *pool, uint64_t offset, uint64_t length, bool writes,
                       char *who, size_t size);
/* Gives it up, and wakes who waits. */
void rdmad_holders_drop(struct rdmad_pool *pool, uint64_t offset, uint64_t length, bool writes);
/* Writes sentences on up to max holders of bytes of the range (only writers, unless writes) and
 * returns how many there are. With neither lock. */
unsigned rdmad_holders_name(struct rdmad_pool *pool, uint64_t offset, uint64_t length, bool writes,
                            unsigned max, char *who, size_t size);

/* lock.c: with the holders' lock. Adds sentences on locks. */
struct rdmad_holder_list;
void rdmad_locks_list(const struct rdmad_pool *pool, struct rdmad_holder_list *list);

/* A list under construction. */
struct rdmad_holder_list {
    uint64_t offset, length; /* of what is asked about */
    bool writes;
    unsigned max, count;
    char *text;
    size_t size, used;
};
/* Whether a holder of that range is of interest. */
bool rdmad_holder_fits(const struct rdmad_holder_list *list, uint64_t offset, uint64_t length,
                       bool writes);
void rdmad_holder_add(struct rdmad_holder_list *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* lent.c: with the session's lock. Others may reach memory from now on: RDMAD_E_NOMEM, or
 * RDMAD_E_LIMIT when more leases than can be counted are on the same bytes. */
int rdmad_lend(struct rdmad_pool *pool, const void *memory, uint64_t length,
               struct rdmad_lent *out);
/* With the session's lock: nobody can reach it any more. */
void rdmad_lent_back(struct rdmad_session *s, struct rdmad_lent *lent);
/* The same without the lock. */
void rdmad_lent_end(struct rdmad_session *s, struct rdmad_lent *lent);
bool rdmad_is_lent(struct rdmad_pool *pool, uint64_t offset, uint64_t length);
/* By whom, in words. With neither lock. */
void rdmad_lent_name(struct rdmad_pool *pool, uint64_t offset, uint64_t length, char *who,
                     size_t size);

/* alloc.c: with the holders' lock. Frees the deferred pieces that nobody holds any more. */
void rdmad_deferred_collect(struct rdmad_pool *pool);
/* Without it: some of that range is not lent any more. */
void rdmad_deferred_unlent(struct rdmad_pool *pool, uint64_t offset, uint64_t length);
/* The pool ends. */
void rdmad_deferred_dispose(struct rdmad_holders *h);
void rdmad_locks_dispose(struct rdmad_holders *h);

#endif
