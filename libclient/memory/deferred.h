/* SPDX-License-Identifier: MIT */
/*
 * deferred.h - pieces that were freed while somebody held bytes of them, or while they were lent to
 * others.
 *
 * Such a piece is not the program's any more (to free it again aborts), but is handed out again
 * only when the last holder has given it up. Until then it waits in one of two lists: one for
 * pieces that ops and locks hold, which is looked through when one of those ends (hold.c); and one
 * for pieces that are lent, which is looked through when a lease ends (lent.c), and can be long as
 * long as leases last.
 */
#ifndef RDMAD_LIBCLIENT_DEFERRED_H
#define RDMAD_LIBCLIENT_DEFERRED_H

#include "libclient/memory/pool.h"

/* Takes a piece that was retired from the arena, and returns it now or when nobody else uses it any
 * more. */
void rdmad_deferred_add(struct rdmad_pool *pool, uint64_t offset, uint64_t bytes);
/* With the holders' lock: returns the pieces that nobody holds any more. */
void rdmad_deferred_collect(struct rdmad_pool *pool);
/* Without the lock: some of that range is not lent any more. */
void rdmad_deferred_unlent(struct rdmad_pool *pool, uint64_t offset, uint64_t length);
/* Why a piece that was freed is still kept, in words; NULL: no such piece starts at offset. */
const char *rdmad_deferred_why(struct rdmad_pool *pool, uint64_t offset);
/* How much was freed and cannot be handed out because it is lent. */
uint64_t rdmad_deferred_lent_bytes(struct rdmad_pool *pool);
/* The pool ends. */
void rdmad_deferred_dispose(struct rdmad_holders *h);

#endif
