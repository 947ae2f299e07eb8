/* SPDX-License-Identifier: MIT */
/*
 * upper_fd.c - see upper_fd.h. The kernel's table of descriptors grows with the highest number, so
 * there is a bound to how high they go.
 */
#include "daemon/base/upper_fd.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define LEAST_MAX 65536

int upper_fd_least(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 4 > LEAST_MAX)
        return LEAST_MAX;
    return (int)(limit.rlim_cur / 4);
}

int upper_fd(int fd) {
    int saved = errno, least = upper_fd_least();
    int moved = fd < 0 || fd >= least ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, least);
    if (moved >= 0)
        close(fd);
    errno = saved;
    return moved < 0 ? fd : moved;
}
