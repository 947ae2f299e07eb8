/* SPDX-License-Identifier: MIT */
/*
 * late_event.c - now, or when the client reads.
 */
#include "daemon/state/late_event.h"

void session_tell(struct session *s, struct late_event *e) {
    if (late_event_waits(e))
        return;
    if (!s->closing && session_lags(s))
        list_append(&s->late_events, &e->node);
    else
        e->send(e);
}

void session_tell_late(struct session *s) {
    struct list *node;
    while (!session_lags(s) && (node = list_pop(&s->late_events))) {
        struct late_event *e = list_entry(node, struct late_event, node);
        e->send(e);
    }
}
