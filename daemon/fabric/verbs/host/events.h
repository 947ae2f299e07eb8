/* SPDX-License-Identifier: MIT */
/*
 * events.h - the device's asynchronous events.
 */
#ifndef RDMAD_FABRIC_VERBS_HOST_EVENTS_H
#define RDMAD_FABRIC_VERBS_HOST_EVENTS_H

#include <infiniband/verbs.h>

struct fabric_host;

enum event_kind {
    EVENT_PORT,   /* the port or its tables changed: ask again */
    EVENT_QP,     /* the members' */
    EVENT_DEVICE, /* the device is broken: let go of it */
    EVENT_NOTE,   /* nothing to do but to say so */
};
struct event_rule {
    enum event_kind kind;
    int level; /* of its log line */
    const char *name, *says;
};
const struct event_rule *event_rule(enum ibv_event_type type); /* never NULL */
/* Reads and acts on all events that wait. */
void events_take(struct fabric_host *h);

#endif
