/* SPDX-License-Identifier: MIT */
/*
 * kept.c - a small table, and the moves that bring descriptors to the numbers 3, 4 and so on.
 */
#include "daemon/ipc/kept.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

bool kept_add(struct kept *k, int fd, const char *name) {
    struct sockaddr_un a = {.sun_family = AF_UNSPEC};
    socklen_t size = sizeof(a) - 1; /* a path of full length has no end of its own */
    if (k->count == KEPT_MAX || getsockname(fd, (struct sockaddr *)&a, &size) ||
        a.sun_family != AF_UNIX || !a.sun_path[0])
        return false;
    struct kept_socket *s = &k->socket[k->count++];
    s->fd = fd;
    snprintf(s->path, sizeof(s->path), "%s", a.sun_path);
    snprintf(s->name, sizeof(s->name), "%s", name);
    return true;
}

int kept_take(struct kept *k, const char *path) {
    for (unsigned i = 0; k && i < k->count; i++) {
        if (strcmp(k->socket[i].path, path) != 0)
            continue;
        int fd = k->socket[i].fd;
        k->socket[i] = k->socket[--k->count];
        return fd;
    }
    return -1;
}

const char *kept_name(const struct kept *k, const char *path) {
    for (unsigned i = 0; k && i < k->count; i++)
        if (!strcmp(k->socket[i].path, path))
            return k->socket[i].name;
    return NULL;
}

/* Above all numbers that are to be given, so that none is overwritten before it was moved. */
static bool kept_move_away(struct kept *k) {
    for (unsigned i = 0; i < k->count; i++) {
        int high = fcntl(k->socket[i].fd, F_DUPFD_CLOEXEC, FIRST_FD + (int)k->count);
        if (high < 0)
            return false;
        k->socket[i].fd = high;
    }
    return true;
}

bool kept_pass(struct kept *k, char *names, size_t size) {
    size_t used = 0;
    names[0] = '\0';
    if (!kept_move_away(k) || close_range(FIRST_FD, ~0u, CLOSE_RANGE_CLOEXEC))
        return false;
    for (unsigned i = 0; i < k->count; i++) {
        if (dup2(k->socket[i].fd, FIRST_FD + (int)i) < 0) /* the copy is not close-on-exec */
            return false;
        int n = snprintf(names + used, size - used, "%s%s", i ? ":" : "", k->socket[i].name);
        used += (size_t)n;
        if (used >= size)
            return false;
    }
    return true;
}
