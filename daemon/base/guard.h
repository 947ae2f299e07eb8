/* SPDX-License-Identifier: MIT */
/*
 * guard.h - touching memory that a client can make vanish.
 *
 * A client can punch holes into its pool; on hugetlb, or when memory is short, the next touch is
 * SIGBUS. Data-plane threads therefore copy to and from client memory only through guard_copy (or
 * by system calls, which return EFAULT). guard_install must have run once in the process. Each
 * thread has its own guard; a SIGBUS outside guard_copy kills the process as before.
 */
#ifndef RDMAD_BASE_GUARD_H
#define RDMAD_BASE_GUARD_H

#include <stddef.h>

int guard_install(void); /* 0 or RDMAD_E_SYSTEM; installs the SIGBUS handler */

/* memmove. Returns NULL, or the address whose touch failed (dst is then partly written). */
const void *guard_copy(void *dst, const void *src, size_t n);

#endif
