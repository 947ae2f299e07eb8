/* SPDX-License-Identifier: MIT */
/*
 * held_epoll.h - an epoll whose mutex somebody holds for as long as he likes.
 *
 * A thread takes events into memory that is not there yet: the kernel holds the epoll's mutex while
 * it waits for the page, which comes by userfaultfd when we say so. Any user with a file system of
 * his own (FUSE) can do the same. The last close of a file that the epoll watches waits meanwhile,
 * and no signal ends that.
 *
 *     struct held_epoll held;
 *     if (!held_epoll_make(&held))
 *         skip(...);                  // this kernel has no userfaultfd, or not for us
 *     held_epoll_watch(&held, fd);
 *     held_epoll_hold(&held);         // from here on the last close of fd's file waits
 *     ...
 *     held_epoll_let_go(&held);
 */
#ifndef RDMAD_TEST_HELD_EPOLL_H
#define RDMAD_TEST_HELD_EPOLL_H

#include <pthread.h>
#include <stdbool.h>

struct held_epoll {
    int epoll, pages, event;
    void *page;
    pthread_t thread;
};

bool held_epoll_make(struct held_epoll *h);
/* Before it is held. fd may be closed afterwards: the file is watched as long as anybody has it. */
bool held_epoll_watch(struct held_epoll *h, int fd);
/* Returns when the mutex is held, or almost. */
void held_epoll_hold(struct held_epoll *h);
/* Ends it as well. */
void held_epoll_let_go(struct held_epoll *h);

#endif
