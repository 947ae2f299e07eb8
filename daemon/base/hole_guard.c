/* SPDX-License-Identifier: MIT */
/*
 * hole_guard.c - one userfaultfd for all mappings.
 *
 * It is asked for faults of missing pages, to be answered with SIGBUS instead of a message, so
 * nobody ever reads it. User mode only, which needs no privilege; with SIGBUS that covers faults
 * inside of system calls, too. A mapping leaves it when it is unmapped.
 */
#include "daemon/base/hole_guard.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static int uffd = -1;
static char why_unguarded[128] = "it was not asked for";

static int guard_open(void) {
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd < 0)
        return -1;
    if (ioctl(fd, UFFDIO_API, &api) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static int guard_range(int fd, void *base, size_t bytes) {
    struct uffdio_register range = {.range = {(uintptr_t)base, bytes},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    return ioctl(fd, UFFDIO_REGISTER, &range);
}

/* Whether a hole is an error, in the way in which memory is looked at. */
static bool guard_holds(int fd) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int memory = memfd_create("rdmad-hole", MFD_CLOEXEC);
    void *at = MAP_FAILED;
    if (memory >= 0 && ftruncate(memory, (off_t)page) == 0)
        at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    bool holds = at != MAP_FAILED && guard_range(fd, at, page) == 0 &&
                 madvise(at, page, MADV_POPULATE_READ) < 0 && errno == EFAULT;
    int saved = errno;
    if (at != MAP_FAILED)
        munmap(at, page);
    if (memory >= 0)
        close(memory);
    errno = holds ? 0 : saved;
    return holds;
}

void hole_guard_install(void) {
    int fd = guard_open();
    if (fd >= 0 && guard_holds(fd)) {
        uffd = fd;
        return;
    }
    snprintf(why_unguarded, sizeof(why_unguarded),
             "userfaultfd(2) with SIGBUS does not work here (%s)", strerror(errno));
    if (fd >= 0)
        close(fd);
}

const char *hole_guard_missing(void) {
    return uffd < 0 ? why_unguarded : NULL;
}

int hole_guard_add(void *base, size_t bytes, struct error *err) {
    if (uffd < 0)
        return error_set(err, RDMAD_E_UNSUPPORTED, "memory cannot be guarded: %s", why_unguarded);
    if (guard_range(uffd, base, bytes))
        return error_errno(err, RDMAD_E_SYSTEM, "memory of %zu bytes cannot be guarded", bytes);
    return 0;
}
