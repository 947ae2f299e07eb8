/* SPDX-License-Identifier: MIT */
/*
 * memfd.c - sealed shared memory.
 *
 * A pool's size is sealed, since a client that shrank it would hand the daemon a SIGBUS. Pages are
 * allocated at once: a machine that has no room says so here, and not in the middle of a transfer.
 */
#include "common/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define HUGE_PAGE ((size_t)2 << 20)

static int failure(void) {
    return errno == ENOMEM || errno == ENOSPC ? RDMAD_E_NOMEM : RDMAD_E_SYSTEM;
}

/* Closes fd and turns errno into a code, without letting close change errno. */
static int fail(int fd) {
    int saved = errno;

    if (fd >= 0)
        close(fd);
    errno = saved;
    return failure();
}

static int create(const char *name, size_t *bytes, bool hugetlb, int seals) {
    size_t page = hugetlb ? HUGE_PAGE : (size_t)sysconf(_SC_PAGESIZE);
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    size_t size;

    if (*bytes == 0 || __builtin_add_overflow(*bytes, page - 1, &size)) {
        errno = EINVAL;
        return RDMAD_E_SYSTEM;
    }
    size &= ~(page - 1);
    /* More than the machine has would not fail: the kernel would kill processes to make room. */
    if (size / (size_t)sysconf(_SC_PAGESIZE) >= (size_t)sysconf(_SC_PHYS_PAGES)) {
        errno = ENOMEM;
        return fail(-1);
    }
    if (hugetlb)
        flags |= MFD_HUGETLB | MFD_HUGE_2MB;

    int fd = memfd_create(name, flags);
    if (fd < 0)
        return fail(fd);
    if (ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0)
        return fail(fd);
    *bytes = size;
    return fd;
}

int rdmad_memfd_allocate(int fd, size_t offset, size_t bytes) {
    int rc;

    do
        rc = fallocate(fd, 0, (off_t)offset, (off_t)bytes);
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? failure() : 0;
}

static int create_whole(const char *name, size_t *bytes, bool hugetlb, int seals) {
    int fd = create(name, bytes, hugetlb, seals);

    return fd >= 0 && rdmad_memfd_allocate(fd, 0, *bytes) ? fail(fd) : fd;
}

int rdmad_memfd_create(const char *name, size_t *bytes, bool hugetlb) {
    return create_whole(name, bytes, hugetlb, SIZE_SEALS | F_SEAL_SEAL);
}

int rdmad_memfd_create_sparse(const char *name, size_t *bytes, bool hugetlb) {
    return create(name, bytes, hugetlb, SIZE_SEALS | F_SEAL_SEAL);
}

int rdmad_memfd_create_unfrozen(const char *name, size_t *bytes) {
    return create_whole(name, bytes, false, SIZE_SEALS);
}

int rdmad_memfd_freeze(int fd) {
    return fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0 ? RDMAD_E_SYSTEM : 0;
}

void *rdmad_memfd_map(int fd, size_t bytes, bool writable) {
    int prot = PROT_READ | (writable ? PROT_WRITE : 0);
    void *p = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);

    return p == MAP_FAILED ? NULL : p;
}

int rdmad_memfd_verify(int fd, size_t bytes) {
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS); /* fails on everything but a memfd */

    if (seals < 0 || (seals & SIZE_SEALS) != SIZE_SEALS)
        return RDMAD_E_FDS;
    if (fstat(fd, &st) < 0 || st.st_size < 0 || (size_t)st.st_size != bytes)
        return RDMAD_E_FDS;
    return 0;
}
