/* SPDX-License-Identifier: MIT */
/*
 * stream.c - what a connected socket tells: something came, what waited has gone, it closed or
 * broke.
 */
#include "daemon/peer/control/stream.h"
#include "daemon/peer/control/handshake.h"
#include "daemon/peer/control/transport.h"
#include "daemon/peer/control/turn.h"
#include "daemon/peer/control/unread.h"
#include "daemon/state/identity.h"
#include <assert.h>

static void stream_heard(void *arg) {
    struct peer *p = arg;
    p->heard_ns = state_now(p->peers->state);
    if (p->handshake)
        handshake_heard(p);
    else
        turn_heard(p);
}

static void stream_drained(void *arg) {
    struct peer *p = arg;
    unread_forget(p);
    p->peers->ops->drained(p);
}

static void stream_ended(void *arg, bool closed, int system_error) {
    struct peer *p = arg;
    struct error why;

    if (closed)
        peer_why_closed(p, &why);
    else
        peer_why_broke(p, system_error, &why);
    p->unused |= closed && !p->outgoing && !p->used; /* if it said so, that may not be read */
    if (p->handshake)
        handshake_ended(p, &why);
    else
        turn_ended(p, &why);
}

static const struct transport_calls stream_calls = {
    .heard = stream_heard, .drained = stream_drained, .ended = stream_ended};

void stream_begin(struct peer *p) {
    bool by_tls = identity_of(p->peers->state) != NULL;
    assert(p->way && p->stage == PEER_GREETING);
    transport_begin(p->way, by_tls, &stream_calls, p);
    if (by_tls)
        handshake_begin(p);
    else
        p->peers->ops->open(p);
}
