/* SPDX-License-Identifier: MIT */
/* many_wait.c - each duplicate in each epoll is a waiter of its own. */
#include "tests/support/many_wait.h"
#include <sys/epoll.h>
#include <unistd.h>

bool many_wait_begin(struct many_wait *m, int sock) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    bool all = true;
    for (int i = 0; i < MANY_DUPS; i++)
        m->dups[i] = dup(sock);
    for (int e = 0; e < MANY_EPOLLS; e++) {
        m->epolls[e] = epoll_create1(EPOLL_CLOEXEC);
        for (int i = 0; i < MANY_DUPS && all; i++)
            all = epoll_ctl(m->epolls[e], EPOLL_CTL_ADD, m->dups[i], &event) == 0;
    }
    return all;
}

void many_wait_end(struct many_wait *m) {
    for (int e = 0; e < MANY_EPOLLS; e++)
        close(m->epolls[e]);
    for (int i = 0; i < MANY_DUPS; i++)
        close(m->dups[i]);
}
