/* SPDX-License-Identifier: MIT */
/*
 * rendezvous.c - large messages: a window at the sender, a READ at the receiver.
 *
 * The sender's window is for the one connection on which the receiver reads (via). When that is
 * another, the window is opened anew and the new key told; the READ waits meanwhile like any op on
 * a lease whose link broke, and goes on where it was. Windows are driven: window_drive looks at
 * what is there, what is wanted, and takes the next step; what takes its time says so later.
 *
 * The receiver's READ is an op of the daemon's own, through a lease that exists only for it. In one
 * daemon the lease's window is over the sender's buffer, on the receiver's worker: so large
 * messages are copied in slices and take turns with everything else.
 */
#include "daemon/op/channel/channel.h"
#include <stdlib.h>

/* ---- the sender's side ------------------------------------------------------------------- */

bool window_ready(const struct op_send *s) {
    return s->window.state == WINDOW_OPEN && s->window.spec.via == s->channel->via;
}

/* There is no window for the message, and there will be none. One that waits is over with that. */
static void failed(struct op_send *s, int code) {
    struct op_channel *ch = s->channel;
    s->wants_window = false;
    if (s->where == SEND_WAITING) {
        send_over(s, code, RDMAD_FAILED_UNTOUCHED);
    } else if (s->where == SEND_SENT && s->op && !s->cancel) {
        s->cancel = code;
        s->withdraw = ch->news = true;
    }
    channel_touch(ch);
}

/* False: it was over with that. */
static bool open_window(struct op_send *s) {
    struct op_channel *ch = s->channel;
    struct op_window *ow = &s->window;
    const struct seat *seat = ow->seat;
    ow->spec = (struct fabric_window_spec){.peer = ch->peer_in,
                                           .via = ch->via,
                                           .cookie = ow,
                                           .base = s->op->local,
                                           .memory = s->op->memory,
                                           .length = s->op->length,
                                           .rights = RDMAD_RIGHT_READ,
                                           .deadline_ns = CLOCK_NEVER,
                                           .audit = &ow->worker->channels->audit};
    struct error err;
    int rc = seat->ops->window_open(seat->fabric, &ow->spec, &ow->window, &s->key, &err);
    bool over = false;
    if (rc == FABRIC_PENDING) {
        ow->state = WINDOW_OPENING;
    } else if (rc == 0) {
        ow->state = WINDOW_OPEN;
    } else if (rc == RDMAD_E_PEER_LOST) {
        s->lost_via = ch->via; /* until there is another */
    } else {
        over = s->where == SEND_WAITING;
        failed(s, rc);
    }
    return !over;
}

static void close_window(struct op_send *s) {
    struct op_window *ow = &s->window;
    bool gone = ow->seat->ops->window_close(ow->window, RDMAD_E_LEASE_RELEASED);
    ow->state = gone ? WINDOW_NONE : WINDOW_CLOSING;
}

bool window_drive(struct op_send *s) {
    const struct op_channel *ch = s->channel;
    struct op_window *ow = &s->window;
    bool wanted = s->wants_window && ch->via;
    bool there = ow->state == WINDOW_OPEN || ow->state == WINDOW_OPENING;
    if (!ch->remote)
        return true;
    if ((there || wanted) && ow->state != WINDOW_CLOSING)
        seat_wake(ow->seat, ow->worker->now_ns);
    if (there && (!wanted || ow->spec.via != ch->via))
        close_window(s);
    if (wanted && ow->state == WINDOW_NONE && s->lost_via != ch->via)
        return open_window(s);
    return true;
}

void send_window_opened(struct op_send *s, const struct fabric_blob *key, const struct error *err) {
    if (err) {
        s->window.state = WINDOW_NONE;
        if (err->code == RDMAD_E_PEER_LOST)
            s->lost_via = s->window.spec.via;
        else
            failed(s, err->code);
        return;
    }
    s->window.state = WINDOW_OPEN;
    s->key = *key;
    s->channel->news = true;
    channel_touch(s->channel);
    window_drive(s);
}

void send_window_closed(struct op_send *s) {
    s->window.state = WINDOW_NONE;
    channel_touch(s->channel);
    send_settle(s);
}

/* ---- the receiver's side ----------------------------------------------------------------- */

static void read_ended(struct worker *w, struct op *op, int status, uint8_t outcome) {
    struct op_arrival *a = op->ended_arg;
    (void)w;
    (void)outcome;
    a->reading = NULL;
    a->ended = true;
    a->read_status = status;
    channel_touch(a->channel);
}

static bool lease_there(struct op_arrival *a, const struct channel_message *m) {
    struct op_channel *ch = a->channel;
    struct op_lane *lane = ch->lane;
    if (!lane)
        return false;
    a->lease.leased_link = true;
    a->lease.route = &lane->route;
    a->lease.key = m->key;
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
    return w->local.ops->window_open(w->local.fabric, &spec, &a->lease.window, &a->lease.key,
                                     &err) == 0;
}

bool reading_start(struct op_arrival *a, const struct channel_message *m) {
    struct op_channel *ch = a->channel;
    struct op_share *share = malloc(sizeof(*share));
    if (!share)
        return false;
    a->lease = (struct op_lease){
        .length = m->length, .rights = RDMAD_RIGHT_READ, .deadline_ns = CLOCK_NEVER};
    op_lease_init(&a->lease);
    if (!(ch->remote ? lease_there(a, m) : lease_here(a, m))) {
        free(share);
        return false;
    }
    a->leased = true;
    a->lease.share = share_get(ch->session, a->lease.route, share);
    const struct op *recv = a->op;
    const struct rdmad_sqe what = {.opcode = RDMAD_OP_READ,
                                   .pool_offset = (uint64_t)(recv->local - recv->pool->base),
                                   .length = m->length};
    a->reading = op_start_own(ch->worker, ch->session, recv->pool, &a->lease, &what, CLOCK_NEVER,
                              read_ended, a);
    if (a->reading)
        return true;
    reading_close(a);
    return false;
}

void reading_key(struct op_arrival *a, const struct fabric_blob *key) {
    if (a->lease.route && a->lease.route->up)
        lease_key(a->channel->worker, &a->lease, key);
}

void reading_stop(struct op_arrival *a) {
    op_cancel(a->channel->worker, a->reading, RDMAD_E_CANCELED);
}

void reading_close(struct op_arrival *a) {
    struct worker *w = a->channel->worker;
    a->ended = false;
    if (!a->leased)
        return;
    a->leased = false;
    if (a->lease.window)
        w->local.ops->window_close(a->lease.window, RDMAD_E_LEASE_RELEASED);
    share_put(a->lease.share);
    list_remove(&a->lease.lane_node);
}
