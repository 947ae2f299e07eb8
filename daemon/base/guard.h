/* SPDX-License-Identifier: MIT */
/*
 * guard.h - touching memory that can vanish.
 *
 * Memory of clients is sealed before it is used (shared_memory.h), so clients cannot make it
 * vanish. But the machine takes away memory that it finds broken, and the next touch is SIGBUS.
 * Data-plane threads therefore copy to and from client memory only through guard_copy (or by system
 * calls, which return EFAULT), or through guard_cas and guard_add for single words. guard_install
 * must have run once in the process. Each thread has its own guard; a SIGBUS outside of one kills
 * the process as before.
 */
#ifndef RDMAD_BASE_GUARD_H
#define RDMAD_BASE_GUARD_H

#include <stddef.h>
#include <stdint.h>

int guard_install(void); /* 0 or RDMAD_E_SYSTEM; installs the SIGBUS handler */

/* memmove. Returns NULL, or the address whose touch failed (dst is then partly written). */
const void *guard_copy(void *dst, const void *src, size_t n);

/* Compare and swap, and fetch and add, of a word aligned to its size: sequentially consistent, and
 * atomic with whatever any CPU of this machine does to it. *was is what was there before. Return
 * NULL, or the address whose touch failed: then the word is as it was, and *was is not set. */
const void *guard_cas(uint64_t *word, uint64_t compare, uint64_t swap, uint64_t *was);
const void *guard_add(uint64_t *word, uint64_t add, uint64_t *was);

#endif
