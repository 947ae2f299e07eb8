/* SPDX-License-Identifier: MIT */
/*
 * hole_guard.h - client memory from which its owner may take pages away.
 *
 * Memory that a later daemon is to map cannot be sealed against holes (F_SEAL_FUTURE_WRITE also
 * keeps everybody from mapping it writable once more). So the kernel is asked to make no page in
 * our mapping of it: the touch of a hole is SIGBUS (guard.h), EFAULT from a system call or a
 * registration, and no page of the client's is ever made on our account (userfaultfd(2),
 * UFFD_FEATURE_SIGBUS).
 */
#ifndef RDMAD_BASE_HOLE_GUARD_H
#define RDMAD_BASE_HOLE_GUARD_H

#include "daemon/base/error.h"
#include <stdbool.h>
#include <stddef.h>

/* Once in the process, before there are other threads. Where the kernel cannot, nothing is
 * guarded. */
void hole_guard_install(void);
/* NULL, or why nothing can be guarded. Lives as long as the process. */
const char *hole_guard_missing(void);

/* From now on, until it is unmapped. A shared mapping of small pages, of which nothing was touched.
 * Any thread. */
int hole_guard_add(void *base, size_t bytes, struct error *err);

#endif
