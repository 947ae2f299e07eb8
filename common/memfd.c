/* SPDX-License-Identifier: MIT */
/*
 * memfd.c - sealed shared memory.
 *
 * A size is sealed, since a client that shrank it would hand the daemon a SIGBUS. Pages are charged
 * to whoever touches them first, so there are none before rdmad_memfd_populate: a machine that has
 * no room says so there, and not in the middle of a transfer.
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

static int memfd_error(void) {
    return errno == ENOMEM || errno == ENOSPC ? RDMAD_E_NOMEM : RDMAD_E_SYSTEM;
}

/* Closes fd and turns errno into a code, without letting close change errno. */
static int memfd_fail(int fd) {
    int saved = errno;

    if (fd >= 0)
        close(fd);
    errno = saved;
    return memfd_error();
}

int rdmad_memfd_create(const char *name, size_t *bytes, bool hugetlb) {
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
        return memfd_fail(-1);
    }
    if (hugetlb)
        flags |= MFD_HUGETLB | MFD_HUGE_2MB;

    int fd = memfd_create(name, flags);
    if (fd < 0)
        return memfd_fail(fd);
    if (ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, SIZE_SEALS) < 0)
        return memfd_fail(fd);
    *bytes = size;
    return fd;
}

int rdmad_memfd_freeze(int fd) {
    return fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0 ? RDMAD_E_SYSTEM : 0;
}

int rdmad_memfd_seal(int fd) {
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals >= 0 && seals & F_SEAL_SEAL)
        return 0;
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) < 0 ? RDMAD_E_SYSTEM : 0;
}

void *rdmad_memfd_map(int fd, size_t bytes, bool writable) {
    int prot = PROT_READ | (writable ? PROT_WRITE : 0);
    void *p = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* As a kernel before 5.14 makes them. Nobody's value is lost: others may use the memory already. */
static void memfd_touch(char *base, size_t bytes, bool writable) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (size_t at = 0; at < bytes; at += page) {
        if (writable)
            __atomic_fetch_or(base + at, 0, __ATOMIC_RELAXED);
        else
            (void)*(volatile char *)(base + at);
    }
}

int rdmad_memfd_populate(void *base, size_t bytes, bool writable) {
    int rc;

    do
        rc = madvise(base, bytes, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        return 0;
    if (errno == EINVAL) {
        memfd_touch(base, bytes, writable);
        return 0;
    }
    if (errno == EFAULT) /* of huge pages there are fewer than were promised */
        errno = ENOMEM;
    return memfd_error();
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
