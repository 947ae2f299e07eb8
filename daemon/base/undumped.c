/* SPDX-License-Identifier: MIT */
/*
 * undumped.c - mappings of which the kernel is told that they are not for core files.
 *
 * A kernel that does not know of that has larger cores; there is nothing to be done about it.
 * AddressSanitizer sees no end of a mapping, so under it memory is allocated, and dumped.
 */
#include "daemon/base/undumped.h"
#include "common/sanitizer.h"
#include <stdlib.h>
#include <sys/mman.h>

void undumped_mark(void *memory, size_t bytes) {
    (void)madvise(memory, bytes, MADV_DONTDUMP);
}

#ifdef SANITIZED_ADDRESS

void *undumped_new(size_t bytes) {
    return calloc(1, bytes);
}

void undumped_free(void *memory, size_t bytes) {
    (void)bytes;
    free(memory);
}

#else

void *undumped_new(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    undumped_mark(memory, bytes);
    return memory;
}

void undumped_free(void *memory, size_t bytes) {
    if (memory)
        munmap(memory, bytes);
}

#endif
