/* SPDX-License-Identifier: MIT */
/*
 * memfd.h - sealed anonymous memory that two processes share.
 */
#ifndef RDMAD_COMMON_MEMFD_H
#define RDMAD_COMMON_MEMFD_H

#include <rdmad/abi.h>
#include <stdbool.h>

/*
 * Creates a memfd of bytes (rounded up to its page size, returned in *bytes), allocates its pages
 * so that using them cannot fail later, and seals its size (F_SEAL_SHRINK|GROW|SEAL). Returns the
 * descriptor, CLOEXEC, or RDMAD_E_NOMEM / RDMAD_E_SYSTEM (errno).
 */
int rdmad_memfd_create(const char *name, size_t *bytes, bool hugetlb);

/* As above, without pages: rdmad_memfd_allocate makes them, a piece at a time. */
int rdmad_memfd_create_sparse(const char *name, size_t *bytes, bool hugetlb);

/* The pages of a piece, which begins and ends with one. 0, or the errors of above. */
int rdmad_memfd_allocate(int fd, size_t offset, size_t bytes);

/* As rdmad_memfd_create, not sealed against seals: map it writable, then rdmad_memfd_freeze. */
int rdmad_memfd_create_unfrozen(const char *name, size_t *bytes);

/* No new writable mapping and no write from now on (F_SEAL_FUTURE_WRITE), then sealed whole. */
int rdmad_memfd_freeze(int fd);

/* Maps the whole memfd shared. Returns NULL on failure (errno). */
void *rdmad_memfd_map(int fd, size_t bytes, bool writable);

/* 0 when fd is a memfd of exactly bytes whose size is sealed, else RDMAD_E_FDS. */
int rdmad_memfd_verify(int fd, size_t bytes);

#endif
