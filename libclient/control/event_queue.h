/* SPDX-License-Identifier: MIT */
/*
 * event_queue.h - who has something to tell, and the descriptor that wakes an event loop for it.
 *
 * There is no queue of events that could overflow: what has something to tell (a lease, a channel,
 * a connection that waits, memory that was handed over, a name) is in a list itself. Such a source
 * makes its events when they are taken.
 *
 * The session's descriptor (rdmad_session_fd) is an epoll set of the socket, the wakeups of all
 * rings, and an eventfd of our own, which is readable while a source is in the list. It is needed
 * because an event may come in while a reply is read; then the socket is empty. Once the session is
 * lost it stays readable.
 *
 * All with the session's lock.
 */
#ifndef RDMAD_LIBCLIENT_EVENT_QUEUE_H
#define RDMAD_LIBCLIENT_EVENT_QUEUE_H

#include <rdmad/rdmad.h>
#include <stdbool.h>
#include <stddef.h>

struct rdmad_session;

/* Lies in whatever may have events. */
struct rdmad_event_source {
    struct rdmad_event_source *next, **link; /* link is what points here; NULL: not queued */
    /* Fills one event into *out, which is zero. Returns whether there is more; then it stays the
     * first in the queue. If not, it may free itself. */
    bool (*take)(struct rdmad_event_source *source, struct rdmad_event *out);
};

/* The object of that type whose member source it is. */
#define RDMAD_SOURCE_OF(pointer, type) ((type *)((char *)(pointer)-offsetof(type, source)))

/* Queues it if it is not queued yet, and wakes threads that wait for events or for any change. */
void rdmad_event_queue(struct rdmad_session *s, struct rdmad_event_source *source);
/* Out of the queue, if it is in it. */
void rdmad_event_unqueue(struct rdmad_session *s, struct rdmad_event_source *source);
/* All of them out, before what they lie in is freed: one that stays would write into its neighbours
 * when it leaves. */
void rdmad_event_unqueue_all(struct rdmad_session *s);
/* Takes an event of the first source; there must be one. */
void rdmad_event_take_first(struct rdmad_session *s, struct rdmad_event *out);

/* Called after anything that may be an event: makes the eventfd readable or not, as is right now.
 */
void rdmad_event_signal(struct rdmad_session *s);
/* Puts a descriptor into the session's, if there is one. */
void rdmad_event_watch(struct rdmad_session *s, int fd);
/* Called after the session's state has changed: rings whose daemon is gone wake their event loops
 * by back_fd when there is something to do for them. */
void rdmad_event_back(struct rdmad_session *s);
/* Takes it out: nothing more comes by it. */
void rdmad_event_unwatch(struct rdmad_session *s, int fd);

#endif
