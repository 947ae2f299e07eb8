/* SPDX-License-Identifier: MIT */
/*
 * event_queue.c - the list of sources, and the eventfd that follows it.
 */
#include "libclient/control/event_queue.h"
#include "libclient/base/session.h"
#include <assert.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

void rdmad_event_queue(struct rdmad_session *s, struct rdmad_event_source *source) {
    assert(source->take);
    if (!source->link) {
        source->next = NULL;
        source->link = s->last_source;
        *s->last_source = source;
        s->last_source = &source->next;
    }
    pthread_cond_broadcast(&s->changed);
}

void rdmad_event_unqueue(struct rdmad_session *s, struct rdmad_event_source *source) {
    if (!source->link)
        return;
    *source->link = source->next;
    if (source->next)
        source->next->link = source->link;
    else
        s->last_source = source->link;
    source->link = NULL;
}

void rdmad_event_unqueue_all(struct rdmad_session *s) {
    while (s->first_source)
        rdmad_event_unqueue(s, s->first_source);
}

void rdmad_event_take_first(struct rdmad_session *s, struct rdmad_event *out) {
    struct rdmad_event_source *first = s->first_source;
    assert(first);
    rdmad_event_unqueue(s, first);
    if (!first->take(first, out))
        return;
    first->next = s->first_source;
    first->link = &s->first_source;
    if (first->next)
        first->next->link = &first->next;
    else
        s->last_source = &first->next;
    s->first_source = first;
}

void rdmad_event_signal(struct rdmad_session *s) {
    bool ring = s->first_source || rdmad_is_lost(s);
    eventfd_t value;
    if (s->event_fd < 0 || ring == s->event_fd_set)
        return;
    if (ring ? eventfd_write(s->event_fd, 1) : eventfd_read(s->event_fd, &value))
        return;
    s->event_fd_set = ring;
}

void rdmad_event_watch(struct rdmad_session *s, int fd) {
    struct epoll_event e = {.events = EPOLLIN};
    if (s->epoll >= 0)
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e);
}

void rdmad_event_unwatch(struct rdmad_session *s, int fd) {
    if (s->epoll >= 0)
        epoll_ctl(s->epoll, EPOLL_CTL_DEL, fd, NULL);
}

void rdmad_event_back(struct rdmad_session *s) {
    eventfd_t value;
    if (s->back_fd < 0)
        return;
    (void)eventfd_read(s->back_fd, &value);
    if (rdmad_is_open(s) || rdmad_is_lost(s))
        (void)eventfd_write(s->back_fd, 1);
}
