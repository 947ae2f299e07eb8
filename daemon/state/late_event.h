/* SPDX-License-Identifier: MIT */
/*
 * late_event.h - an event that waits until its client reads.
 *
 * It is embedded in the object that it is about (a lease, a handle, a channel, who waits at a
 * service), which makes the message when it is sent. So there is no queue that many events could
 * overflow and no memory that could be missing, an object has one event of a kind waiting at most,
 * and a client that never reads has as many as its limits let it have objects.
 */
#ifndef RDMAD_STATE_LATE_EVENT_H
#define RDMAD_STATE_LATE_EVENT_H

#include "daemon/state/session.h"

struct late_event {
    struct list node;                   /* in session->late_events while it waits */
    void (*send)(struct late_event *e); /* may free the object */
};

static inline void late_event_init(struct late_event *e, void (*send)(struct late_event *e)) {
    list_init(&e->node);
    e->send = send;
}

static inline bool late_event_waits(const struct late_event *e) {
    return !list_empty(&e->node);
}

/* Its client hears of it some other way, or never. */
static inline void late_event_drop(struct late_event *e) {
    list_remove(&e->node);
}

/* Sends it now; or, while the client does not read, when it reads again. One that waits goes on
 * waiting in its place. */
void session_tell(struct session *s, struct late_event *e);
/* The client reads again: sends what waits, the oldest first, until it stops reading. */
void session_tell_late(struct session *s);

#endif
