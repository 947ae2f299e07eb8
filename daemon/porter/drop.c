/* SPDX-License-Identifier: MIT */
/*
 * drop.c - last references, let go of by a process that exits.
 *
 * When a process exits the kernel does not let sockets linger; and files that are queued in a
 * socket were never opened by that process, so nothing is flushed. So a child gets the descriptors,
 * the parent closes its own, which are not the last then, and the child exits. What could still
 * make it wait (a lock on a file of a hung file system) makes only the child wait. When
 * DROPPERS_MAX of them wait the porter closes by itself, and if it does not come back the daemon
 * replaces it.
 */
#include "daemon/porter/drop.h"
#include "daemon/porter/child.h"
#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

#define DROPPERS_MAX 32u

static pid_t droppers[DROPPERS_MAX];

static void drop_close(const int *fds, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
}

static pid_t *drop_place(void) {
    for (unsigned i = 0; i < DROPPERS_MAX; i++)
        if (!droppers[i])
            return &droppers[i];
    return NULL;
}

void drop_ended(pid_t pid) {
    for (unsigned i = 0; i < DROPPERS_MAX; i++)
        if (droppers[i] == pid)
            droppers[i] = 0;
}

void drop_fds(const int *fds, unsigned n) {
    int keep[DROP_MAX + 1], go[2];
    pid_t *place = drop_place();
    char byte;
    assert(n <= DROP_MAX);
    if (!n)
        return;
    if (!place || pipe2(go, O_CLOEXEC)) {
        drop_close(fds, n);
        return;
    }
    for (unsigned i = 0; i < n; i++)
        keep[i] = fds[i];
    keep[n] = go[0];
    pid_t pid = child_fork(keep, n + 1);
    if (pid == 0) {
        (void)!read(go[0], &byte, 1);
        _exit(0);
    }
    *place = pid > 0 ? pid : 0;
    close(go[0]);
    drop_close(fds, n);
    close(go[1]);
}
