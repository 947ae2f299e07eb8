/* SPDX-License-Identifier: MIT */
/*
 * watch.c - registering with epoll.
 */
#include "daemon/op/engine/watch.h"
#include <assert.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int watch_fd(struct worker *w, int fd, uint32_t events, void *what) {
    struct epoll_event ev = {.events = events, .data.ptr = what};
    return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static int watch_links(struct worker *w) {
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < w->nlinks; i++) {
        struct op_fabric *fabric = &w->links[i];
        int fd = fabric->ops->wait_fd(fabric->instance);
        if (fd >= 0)
            rc = watch_fd(w, fd, EPOLLIN, fabric);
    }
    return rc;
}

int watch_open(struct worker *w, struct error *err) {
    assert(w->epoll_fd < 0 && w->timer_fd < 0 && w->mailbox.fd >= 0);
    w->timer_ns = CLOCK_NEVER;
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    /* The timer is edge-triggered, so that nobody has to read it. */
    if (w->epoll_fd < 0 || w->timer_fd < 0 ||
        watch_fd(w, w->mailbox.fd, EPOLLIN, &w->mailbox) < 0 ||
        watch_fd(w, w->timer_fd, EPOLLIN | EPOLLET, &w->timer_fd) < 0 || watch_links(w) < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "worker %u: cannot set up its epoll", w->index);
    return 0;
}

void watch_close(struct worker *w) {
    if (w->timer_fd >= 0)
        close(w->timer_fd);
    if (w->epoll_fd >= 0)
        close(w->epoll_fd);
    w->timer_fd = w->epoll_fd = -1;
}

int watch_ring_add(struct worker *w, struct op_ring *r, struct error *err) {
    if (watch_fd(w, r->ring->doorbell, EPOLLIN | EPOLLET, r) < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "ring: cannot watch its eventfd");
    ring_tell_crowded(r->ring, w->spin.crowd.crowded);
    return 0;
}

void watch_ring_remove(struct worker *w, struct op_ring *r) {
    epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, r->ring->doorbell, NULL);
}

/* The doorbell stays registered, because adding it again could fail, now that the client has it.
 * When it is listened to again epoll tells at once if it ever rang, so nothing is missed. */
void watch_ring_listen(struct worker *w, struct op_ring *r, bool listen) {
    struct epoll_event ev = {.events = EPOLLET | (listen ? EPOLLIN : 0), .data.ptr = r};
    epoll_ctl(w->epoll_fd, EPOLL_CTL_MOD, r->ring->doorbell, &ev);
}
