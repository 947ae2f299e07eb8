/* SPDX-License-Identifier: MIT */
/*
 * beneath.h - opens what lies below a directory and nothing else: no "..", no symbolic link on the
 * way or at the end, whoever put it there.
 */
#ifndef RDMACTL_BENEATH_H
#define RDMACTL_BENEATH_H

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

/* -1 and errno. */
static inline int open_beneath(int dir, const char *path, int flags, mode_t mode) {
    struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC | O_NOFOLLOW,
                           .mode = flags & O_CREAT ? mode : 0,
                           .resolve =
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

#endif
