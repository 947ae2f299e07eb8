/* SPDX-License-Identifier: MIT */
/*
 * reading.c - large messages at the receiver: a READ.
 *
 * It is an op of the daemon's own, through a lease that exists only for it. When the sender's link
 * is another, the READ waits like any op on a lease whose link broke, and goes on where it was when
 * a new key comes. In one daemon the lease's window is over the sender's buffer, on the receiver's
 * worker: so large messages are copied in slices and take turns with everything else.
 *
 * A READ that failed at the receiver's own side ends its receive, and the message waits for the
 * next one. Only one that the sender's side refused, or whose memory vanished, is gone.
 */
#include "daemon/op/channel/reading.h"
#include "daemon/op/channel/core.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/route.h"
#include "daemon/op/engine/submit.h"
#include <stdlib.h>
#include <string.h>

/* Our device or our memory failed, which says nothing of the message. */
static bool is_receivers_own(int status) {
    return status == RDMAD_E_FABRIC || status == RDMAD_E_NOMEM;
}

static void read_ended(struct worker *w, struct op *op, int status, uint8_t outcome) {
    struct op_arrival *a = op->ended_arg;
    (void)w;
    (void)outcome;
    a->reading = NULL;
    if (is_receivers_own(status)) {
        if (!a->cancel)
            a->cancel = status;
        status = RDMAD_E_PEER_LOST;
    }
    arrival_end(a, status);
    channel_touch(a->channel);
}

static struct fabric_blob message_key(const struct channel_message *m) {
    struct fabric_blob key = {.size = m->key.size};
    memcpy(key.bytes, m->key.bytes, m->key.size);
    return key;
}

static bool lease_there(struct op_arrival *a, const struct channel_message *m) {
    struct op_channel *ch = a->channel;
    struct op_lane *lane = ch->lane;
    if (!lane)
        return false;
    a->lease.leased_link = true;
    a->lease.route = &lane->route;
    a->lease.key = message_key(m);
    a->lease.keyed = lane->route.up && channel_key_good(ch, m);
    list_append(&lane->leases, &a->lease.lane_node);
    return true;
}

static bool lease_here(struct op_arrival *a, const struct channel_message *m) {
    struct worker *w = a->channel->worker;
    const struct fabric_window_spec spec = {.base = (void *)(uintptr_t)m->payload,
                                            .length = m->length,
                                            .rights = RDMAD_RIGHT_READ,
                                            .deadline_ns = CLOCK_NEVER,
                                            .audit = &w->channels->audit};
    struct error err;
    a->lease.route = &w->local_route;
    a->lease.keyed = true;
    return w->local.ops->window_open(w->local.instance, &spec, &a->lease.window, &a->lease.key,
                                     &err) == 0;
}

bool reading_start(struct op_arrival *a, const struct channel_message *m) {
    struct op_channel *ch = a->channel;
    assert(a->state == ARRIVAL_NEW && !a->lease.share);
    struct op_share *share = share_spare();
    if (!share)
        return false;
    a->lease = (struct op_lease){
        .length = m->length, .rights = RDMAD_RIGHT_READ, .deadline_ns = CLOCK_NEVER};
    op_lease_init(&a->lease);
    if (!(ch->remote ? lease_there(a, m) : lease_here(a, m))) {
        share_spare_free(share);
        return false;
    }
    a->lease.share = share_get(ch->session, a->lease.route, share);
    const struct op *recv = a->op;
    const struct rdmad_sqe what = {.opcode = RDMAD_OP_READ,
                                   .pool_offset = (uint64_t)(recv->local - recv->pool->base),
                                   .length = m->length};
    a->reading = op_start_own(ch->worker, ch->session, recv->pool, &a->lease, &what, CLOCK_NEVER,
                              read_ended, a);
    if (a->reading) {
        a->state = ARRIVAL_READING;
        return true;
    }
    reading_close(a);
    return false;
}

void reading_key(struct op_arrival *a, const struct channel_message *m) {
    const struct fabric_blob key = message_key(m);
    if (a->lease.route && a->lease.route->up)
        lease_key(a->channel->worker, &a->lease, &key);
}

void reading_stop(struct op_arrival *a) {
    op_cancel(a->channel->worker, a->reading, RDMAD_E_CANCELED);
}

void reading_close(struct op_arrival *a) {
    struct worker *w = a->channel->worker;
    assert(!a->reading);
    if (!a->lease.share)
        return;
    if (a->lease.window)
        w->local.ops->window_close(a->lease.window, RDMAD_E_LEASE_RELEASED);
    share_put(a->lease.share);
    a->lease.share = NULL;
    list_remove(&a->lease.lane_node);
}
