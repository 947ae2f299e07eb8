/* SPDX-License-Identifier: MIT */
/*
 * deferred.h - pieces that were freed while somebody held bytes of them, or while they were lent to
 * others.
 *
 * Such a piece is not the program's any more (to free it once more aborts), but is handed out again
 * only when the last of them has given it up: until then it waits in one of two lists. Whoever
 * gives up something looks through the one of what ops and locks hold (hold.c); a lease that ends
 * through the other (lent.c), which may be long for as long as leases last.
 */
#ifndef RDMAD_LIBCLIENT_DEFERRED_H
#define RDMAD_LIBCLIENT_DEFERRED_H

#include "libclient/memory/pool.h"

/* A piece that was retired from the arena: returned now, or when it is free of others. */
void rdmad_deferred_add(struct rdmad_pool *pool, uint64_t offset, uint64_t bytes);
/* With the holders' lock: returns the pieces that nobody holds any more. */
void rdmad_deferred_collect(struct rdmad_pool *pool);
/* Without it: some of that range is not lent any more. */
void rdmad_deferred_unlent(struct rdmad_pool *pool, uint64_t offset, uint64_t length);
/* What keeps a piece that was freed before, in words; NULL: it is none of these. */
const char *rdmad_deferred_why(struct rdmad_pool *pool, uint64_t offset);
/* How much was freed and cannot be handed out because it is lent. */
uint64_t rdmad_deferred_lent_bytes(struct rdmad_pool *pool);
/* The pool ends. */
void rdmad_deferred_dispose(struct rdmad_holders *h);

#endif
