/* SPDX-License-Identifier: MIT */
/*
 * drop.c - last references, let go of by a process that exits.
 *
 * When a process exits the kernel does not let sockets linger; and files that are queued in a
 * socket were never opened by that process, so nothing is flushed. So a child gets the descriptors,
 * the parent closes its own, which are not the last then, and the child exits. What could still
 * make it wait (a lock on a file of a hung file system, an epoll whose owner holds it up) makes
 * only the child wait.
 *
 * A user has one such child, and what comes meanwhile waits for it. When DROP_MAX of his wait they
 * get a child all the same, because this process must not run out of descriptors. When there can be
 * no child (DROPPERS_MAX wait, or fork fails) the porter closes by itself, and if it does not come
 * back the daemon replaces it.
 */
#include "daemon/porter/drop.h"
#include "daemon/base/list.h"
#include "daemon/porter/child.h"
#include <assert.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DROPPERS_MAX 256u

_Static_assert(DROP_MAX + 1 <= CHILD_FDS_MAX - 2, "they and a pipe are kept in the child");

static struct {
    pid_t pid; /* 0: there is none in this place */
    uint64_t user;
} droppers[DROPPERS_MAX];

/* Of a user with a dropper, what waits for its end. */
struct drop_queue {
    struct list node; /* in queues */
    uint64_t user;
    unsigned n;
    int fds[DROP_MAX];
};
static struct list queues = LIST_INIT(queues);

static void drop_close(const int *fds, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
}

static void drop_now(uint64_t user, const int *fds, unsigned n) {
    int keep[DROP_MAX + 1], go[2];
    unsigned place = 0;
    char byte;
    while (place < DROPPERS_MAX && droppers[place].pid)
        place++;
    if (place == DROPPERS_MAX || pipe2(go, O_CLOEXEC)) {
        drop_close(fds, n);
        return;
    }
    memcpy(keep, fds, n * sizeof(*fds));
    keep[n] = go[0];
    pid_t pid = child_fork(keep, n + 1);
    if (pid == 0) {
        (void)!read(go[0], &byte, 1);
        _exit(0);
    }
    if (pid > 0) {
        droppers[place].pid = pid;
        droppers[place].user = user;
    }
    close(go[0]);
    drop_close(fds, n);
    close(go[1]);
}

static bool drop_has_dropper(uint64_t user) {
    for (unsigned i = 0; i < DROPPERS_MAX; i++)
        if (droppers[i].pid && droppers[i].user == user)
            return true;
    return false;
}

/* NULL: nothing of the user's waits. */
static struct drop_queue *drop_queue_of(uint64_t user) {
    list_for_each (node, &queues) {
        struct drop_queue *q = list_entry(node, struct drop_queue, node);
        if (q->user == user)
            return q;
    }
    return NULL;
}

static void drop_queue_end(struct drop_queue *q) {
    drop_now(q->user, q->fds, q->n);
    list_remove(&q->node);
    free(q);
}

static bool drop_later(uint64_t user, const int *fds, unsigned n) {
    struct drop_queue *q = drop_queue_of(user);
    if (q && q->n + n > DROP_MAX) {
        drop_queue_end(q);
        q = NULL;
    }
    if (!q) {
        q = malloc(sizeof(*q));
        if (!q)
            return false;
        q->user = user;
        q->n = 0;
        list_append(&queues, &q->node);
    }
    memcpy(q->fds + q->n, fds, n * sizeof(*fds));
    q->n += n;
    return true;
}

void drop_fds(uint64_t user, const int *fds, unsigned n) {
    assert(n && n <= DROP_MAX);
    if (!drop_has_dropper(user) || !drop_later(user, fds, n))
        drop_now(user, fds, n);
}

void drop_ended(pid_t pid) {
    for (unsigned i = 0; i < DROPPERS_MAX; i++) {
        if (!pid || droppers[i].pid != pid)
            continue;
        uint64_t user = droppers[i].user;
        droppers[i].pid = 0;
        struct drop_queue *q = drop_has_dropper(user) ? NULL : drop_queue_of(user);
        if (q)
            drop_queue_end(q);
        return;
    }
}
