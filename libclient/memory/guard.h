/* SPDX-License-Identifier: MIT */
/*
 * guard.h - guard mode: accesses by the CPU that conflict with an op in flight, or use a buffer
 * that was freed, end the program with a sentence.
 *
 * The happy path: with RDMAD_GUARD=1 in the environment, rdmad_alloc puts each buffer on pages of
 * its own. While an op reads a buffer its pages can only be read, while one fills it they cannot be
 * touched, and after rdmad_free neither, until the pages are handed out again, which is as late as
 * the pool's room allows. Whoever touches them nevertheless gets a SIGSEGV; its handler
 * (guard_fault.c) finds buffer and op, prints the sentence, and aborts. The daemon has a mapping of
 * its own, so transfers notice nothing.
 *
 * Ops hold ranges, but only whole pages can be protected. On a page that an op holds in part, an
 * access beside the op's range is no conflict: it opens the page (until an op begins or ends on it)
 * and goes on. So a later conflict on the same page can be missed, but nothing is reported that is
 * no conflict. Memory that the program lays out itself (rdmad_pool_base) is protected only in pages
 * that an op covers as a whole. A system call that is given protected memory fails with EFAULT, as
 * the kernel does not signal.
 *
 * Buffers begin at their first page's start. The rest of the last page is filled with a pattern
 * that is looked at when the buffer is freed.
 *
 * Pools of huge pages cannot be protected so finely: rdmad_pool_create makes them of small ones,
 * imported ones are not guarded, which is said on standard error.
 */
#ifndef RDMAD_LIBCLIENT_GUARD_H
#define RDMAD_LIBCLIENT_GUARD_H

#include "libclient/memory/hold_record.h"
#include "libclient/memory/pool.h"

/* NULL: out of memory, or the pool's pages cannot be protected, which is no error. */
struct rdmad_guard *rdmad_guard_new(struct rdmad_pool *pool);
void rdmad_guard_free(struct rdmad_guard *g); /* NULL is allowed */

/* Do the work of rdmad_alloc and rdmad_free. offset was retired from the arena. */
uint64_t rdmad_guard_take(struct rdmad_pool *pool, size_t bytes);
void rdmad_guard_give(struct rdmad_pool *pool, uint64_t offset);
/* offset, which the program frees, is no live buffer: if guard mode knows what it is, ends the
 * program with a sentence about it. */
void rdmad_guard_explain_free(struct rdmad_pool *pool, uint64_t offset);

/* An op begins and ends. */
void rdmad_guard_hold(struct rdmad_pool *pool, const struct rdmad_hold *hold);
void rdmad_guard_release(struct rdmad_pool *pool, const struct rdmad_hold *hold);

#endif
