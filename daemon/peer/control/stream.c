/* SPDX-License-Identifier: MIT */
/*
 * stream.c - what libevent says of a connected socket: something came, what waited has gone, it
 * closed or broke.
 */
#include "daemon/peer/control/stream.h"
#include "daemon/peer/control/turn.h"
#include <assert.h>
#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

static void stream_readable(struct bufferevent *bev, void *arg) {
    struct peer *p = arg;
    (void)bev;
    p->heard_ns = state_now(p->peers->state);
    turn_heard(p);
}

static void stream_drained(struct bufferevent *bev, void *arg) {
    struct peer *p = arg;
    (void)bev;
    p->peers->ops->drained(p);
}

static void stream_ended(struct bufferevent *bev, short what, void *arg) {
    struct peer *p = arg;
    struct error why;
    int saved = EVUTIL_SOCKET_ERROR();

    (void)bev;
    errno = saved;
    if (what & BEV_EVENT_EOF)
        error_set(&why, RDMAD_E_PEER_LOST, "the daemon at %s closed the connection", p->address);
    else
        error_errno(&why, RDMAD_E_PEER_LOST, "the connection to the daemon at %s broke",
                    p->address);
    turn_ended(p, &why);
}

void stream_begin(struct peer *p) {
    assert(p->bev && p->stage == PEER_GREETING);
    bufferevent_setcb(p->bev, stream_readable, stream_drained, stream_ended, p);
    bufferevent_enable(p->bev, EV_READ);
}
