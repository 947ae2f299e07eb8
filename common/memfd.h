/* SPDX-License-Identifier: MIT */
/*
 * memfd.h - sealed anonymous memory that two processes share.
 *
 * Its life: created empty, of a size that is sealed from the start; mapped by both sides; populated
 * by the one that is to pay for the pages; frozen, after which nobody can take a page away or map
 * it writable once more, and the writable mappings that exist go on.
 */
#ifndef RDMAD_COMMON_MEMFD_H
#define RDMAD_COMMON_MEMFD_H

#include <rdmad/abi.h>
#include <stdbool.h>

/*
 * Creates a memfd of bytes (rounded up to its page size, returned in *bytes), without pages, and
 * seals its size (F_SEAL_SHRINK|GROW). Returns the descriptor, CLOEXEC, or RDMAD_E_NOMEM /
 * RDMAD_E_SYSTEM (errno).
 */
int rdmad_memfd_create(const char *name, size_t *bytes, bool hugetlb);

/* From now on no new writable mapping, no write and no hole (F_SEAL_FUTURE_WRITE), and no further
 * seals. */
int rdmad_memfd_freeze(int fd);

/* From now on no further seals. It can still be mapped writable, and its owner can take pages away.
 */
int rdmad_memfd_seal(int fd);

/* Maps the whole memfd shared. Returns NULL on failure (errno). */
void *rdmad_memfd_map(int fd, size_t bytes, bool writable);

/* Makes every page of a mapping that is not there yet, at the cost of the caller's cgroup. The
 * contents of the others stay. Returns 0, RDMAD_E_NOMEM or RDMAD_E_SYSTEM (errno). */
int rdmad_memfd_populate(void *base, size_t bytes, bool writable);

/* 0 when fd is a memfd of exactly bytes whose size is sealed, else RDMAD_E_FDS. */
int rdmad_memfd_verify(int fd, size_t bytes);

#endif
