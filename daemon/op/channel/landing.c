/* SPDX-License-Identifier: MIT */
/*
 * landing.c - messages that the fabric receives straight into the posted receive.
 *
 * The head of such a DATA comes first, and is judged like any message: it takes the receive that is
 * next. From then on the fabric writes there what comes (channel_landing says where), and says when
 * that was all (channel_landed): the message is whole, and completes in its turn.
 *
 * When the receive is cancelled or its message refused, the fabric lets go of the memory at once
 * and throws away what still comes. If the connection breaks before the end, or the sender takes
 * the message back in the middle, it is as if it had not come: the receive is posted again, and the
 * sender sends the message again when both ends have synchronised. A receive whose memory vanished
 * fails, and its message waits for the next.
 */
#include "daemon/op/channel/landing.h"
#include "daemon/op/channel/core.h"

struct fabric_landing *landing_start(struct op_arrival *a) {
    a->landing_at = (struct fabric_landing){.base = a->op->local};
    assert(a->state == ARRIVAL_NEW);
    a->state = ARRIVAL_LANDING;
    a->channel->in.landings++;
    return &a->landing_at;
}

void landing_stop(struct op_arrival *a, int status) {
    if (a->state != ARRIVAL_LANDING)
        return;
    a->channel->fabric->ops->abandon(&a->landing_at);
    arrival_end(a, status);
}

/* The other end would not hear of it otherwise before the connection is known to be broken. They
 * are the last that came: nothing else comes by a connection meanwhile. */
void landings_void(struct op_channel *ch) {
    struct list *all = &ch->in.arrivals;
    for (struct list *pos = all->prev; ch->in.landings; pos = pos->prev) {
        assert(pos != all);
        landing_stop(list_entry(pos, struct op_arrival, node), RDMAD_E_PEER_LOST);
    }
}

void channel_landed(struct fabric_landing *landing, int status) {
    struct op_arrival *a = container_of(landing, struct op_arrival, landing_at);
    if (status == RDMAD_E_FAULT && !a->cancel)
        a->cancel = status;
    arrival_end(a, status ? RDMAD_E_PEER_LOST : RDMAD_OK);
    channel_touch(a->channel);
}
