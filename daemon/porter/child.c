/* SPDX-License-Identifier: MIT */
/*
 * child.c - a child process that has no more of its parent's descriptors than it needs.
 *
 * The parent waits until the child has closed the others: as long as the parent has all of them,
 * too, none of these closes is the last, and so none waits.
 */
#include "daemon/porter/child.h"
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int by_descriptor(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static void close_others(int *keep, unsigned n) {
    unsigned from = 0;
    qsort(keep, n, sizeof(*keep), by_descriptor);
    for (unsigned i = 0; i < n; i++) {
        if ((unsigned)keep[i] > from)
            close_range(from, (unsigned)keep[i] - 1, 0);
        from = (unsigned)keep[i] + 1;
    }
    close_range(from, ~0u, 0);
}

pid_t child_fork(const int *keep, unsigned n) {
    int all[CHILD_FDS_MAX], ready[2];
    char byte;
    assert(n <= CHILD_FDS_MAX - 2);
    if (pipe2(ready, O_CLOEXEC))
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        memcpy(all, keep, n * sizeof(*keep));
        all[n] = ready[1];
        all[n + 1] = STDERR_FILENO;
        close_others(all, n + 2);
        close(ready[1]);
        return 0;
    }
    close(ready[1]);
    if (pid > 0)
        (void)!read(ready[0], &byte, 1);
    close(ready[0]);
    return pid;
}
