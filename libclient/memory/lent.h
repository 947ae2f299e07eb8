/* SPDX-License-Identifier: MIT */
/*
 * lent.h - memory that others may reach: what lies under a lease that was granted here, or in a
 * service's budget.
 *
 * The happy path: a range is marked in the pool's second map (hold_map.h, where a lease counts as
 * a reader) before the daemon hears of the lease, and unmarked when nobody can reach it any more:
 * when the lease's end was told or a revoke was answered, when a service's close was answered.
 * rdmad_free asks that map, and deferred.h keeps what it says for later.
 *
 * A session that is lost hears of no end. What is lent then stays lent: the pool is of no use any
 * more, and the daemon may still live and serve it.
 */
#ifndef RDMAD_LIBCLIENT_LENT_H
#define RDMAD_LIBCLIENT_LENT_H

#include "libclient/memory/pool.h"

/* A member of the lease or service by which a range is lent. All with the session's lock. */
struct rdmad_lent {
    struct rdmad_lent *next, **link; /* of its pool's; link is what points here */
    struct rdmad_pool *pool;         /* NULL: lends nothing */
    uint64_t offset, length;
    uint64_t lease;      /* the lease's number, once it is known */
    const char *service; /* or the service's name */
};

/* Others may reach memory from now on. Returns its pool, NULL if it lies in none. *rc: 0,
 * RDMAD_E_NOMEM, or RDMAD_E_LIMIT when more leases than can be counted are on the same bytes. A
 * range of no bytes is not lent. Without the lock. */
struct rdmad_pool *rdmad_lend(struct rdmad_session *s, const void *memory, uint64_t length,
                              struct rdmad_lent *lent, int *rc);
/* Nobody can reach it any more. */
void rdmad_lent_back(struct rdmad_lent *lent);
/* The same without the lock. */
void rdmad_lent_end(struct rdmad_session *s, struct rdmad_lent *lent);
/* lent itself is about to be freed; its range stays lent. */
void rdmad_lent_forget(struct rdmad_lent *lent);
/* The pool ends before the leases and services by which it is lent. */
void rdmad_lent_pool_ends(struct rdmad_pool *pool);

/* By whom a range is lent, in words. Without the lock. */
void rdmad_lent_name(struct rdmad_pool *pool, uint64_t offset, uint64_t length, char *who,
                     size_t size);

#endif
