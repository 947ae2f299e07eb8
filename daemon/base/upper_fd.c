/* SPDX-License-Identifier: MIT */
/*
 * upper_fd.c - see upper_fd.h. The kernel's table of descriptors grows with the highest number, so
 * there is a bound to how high they go.
 */
#include "daemon/base/upper_fd.h"
#include "common/sanitizer.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef SANITIZED_THREAD
/* It takes what passes through a socket for an order of its threads, but does not know the sockets
 * that fcntl makes. So nothing is moved there. */
#define LEAST_MAX 1
#else
#define LEAST_MAX 131072
#endif

int upper_fd_least(void) {
    static _Atomic int least;
    struct rlimit limit;
    int now = atomic_load_explicit(&least, memory_order_relaxed);
    if (now)
        return now;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 2 > LEAST_MAX)
        limit.rlim_cur = 2 * (rlim_t)LEAST_MAX;
    now = (int)(limit.rlim_cur / 2);
    atomic_store_explicit(&least, now, memory_order_relaxed);
    return now;
}

int upper_fd(int fd) {
    int saved = errno, least = upper_fd_least();
    int moved = fd < 0 || fd >= least ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, least);
    if (moved >= 0)
        close(fd);
    errno = saved;
    return moved < 0 ? fd : moved;
}

bool upper_fd_is_below(int fd, uint64_t bound) {
    return fd >= upper_fd_least() && (uint64_t)fd < bound;
}
