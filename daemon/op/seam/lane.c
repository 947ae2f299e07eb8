/* SPDX-License-Identifier: MIT */
/*
 * lane.c - connections to peers on which we initiate, and the offers by which they connect to us.
 *
 * A lane goes round: lane_hello makes it a link, lane_open connects it, lane_up, lane_lost. When
 * the link breaks, the fabric has given back its parts before it says so; whatever waits on the
 * lane goes to the held lists of its leases, which have no keys from then on, and comes out of them
 * when a new link is up and plane_lease_key has been called for the lease. Whether to connect again
 * is the control thread's to decide; lane_drop is its way to give up, and then everything on the
 * lane ends as PEER_LOST.
 *
 * Each of these calls may give the fabric something to do or a new time to wake at, so each takes
 * the lane's or the peer's seat out of its sleep.
 */
#include "daemon/op/channel/channel.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/route.h"
#include "daemon/op/seam/call.h"

static void set_number(struct op_lane *lane, uint64_t number, uint64_t datagram) {
    __atomic_store_n(&lane->number, number, __ATOMIC_RELAXED);
    __atomic_store_n(&lane->datagram, datagram, __ATOMIC_RELAXED);
}

/* From here to the next lane_up nothing is posted. */
static void down(struct op_lane *lane) {
    lane->up = false;
    lane->lost = true;
    route_down(&lane->route);
    list_for_each (pos, &lane->leases)
        lease_unkey(list_entry(pos, struct op_lease, lane_node));
}

/* The peer may have its end though ours is not up: the number is told in either case. */
static void answer_opening(struct op_lane *lane, const struct error *why) {
    struct call *c = lane->opening;
    lane->opening = NULL;
    const struct fabric_link *link = lane->route.link;
    if (link)
        set_number(lane, link->number, weak_most(link, RDMAD_CHANNEL_DATAGRAM));
    c->result = *why;
    call_finish(c);
}

/* Ends the link, if there is one. */
static void unlink_lane(struct worker *w, struct op_lane *lane, const char *why) {
    struct error err;
    bool was_up = lane->up;
    down(lane);
    if (lane->route.link)
        lane->route.seat->ops->link_close(lane->route.link); /* gives back what is posted */
    lane->route.link = NULL;
    if (was_up)
        channels_lane_down(w, lane);
    if (lane->opening) {
        error_set(&err, RDMAD_E_CANCELED, "%s", why);
        answer_opening(lane, &err);
    }
}

void lane_hello(struct call *c) {
    struct worker *w = c->worker;
    struct op_lane *lane = &c->lane->op;
    struct seat *seat = lane->route.seat;
    seat_wake(seat, w->now_ns);
    unlink_lane(w, lane, "the connection to the peer is made anew");
    lane->hellos++;
    set_number(lane, 0, 0);
    struct fabric_link *link;
    if (seat->ops->link_new(seat->fabric, lane, &link, &c->blob, &c->result) == 0) {
        lane->route.link = link;
        lane->lost = false;
    }
    call_finish(c);
}

void lane_open(struct call *c) {
    struct op_lane *lane = &c->lane->op;
    struct seat *seat = lane->route.seat;
    seat_wake(seat, c->worker->now_ns);
    if (!lane->route.link || lane->up || lane->opening) {
        call_fail(c, RDMAD_E_INVAL, "a connection to a peer is opened once after each hello");
        return;
    }
    if (lane->lost) { /* between its hello and now */
        c->result = lane->lost_why;
        call_finish(c);
        return;
    }
    lane->opening = c;
    struct error err;
    if (seat->ops->link_open(lane->route.link, c->lane->host, &c->given, &err) < 0) {
        down(lane);
        answer_opening(lane, &err);
    }
}

void lane_up(void *worker, void *cookie) {
    struct op_lane *lane = cookie;
    if (!lane || !lane->opening)
        return;
    lane->up = lane->route.up = true;
    answer_opening(lane, &(struct error){0});
    channels_lane_up(worker, lane);
}

void lane_lost(void *worker, void *cookie, const struct error *why) {
    struct worker *w = worker;
    struct op_lane *lane = cookie;
    if (!lane || lane->lost)
        return;
    bool was_up = lane->up;
    down(lane);
    lane->lost_why = *why;
    if (lane->opening) {
        answer_opening(lane, why);
    } else if (was_up) {
        lane->lost_hello = lane->hellos;
        channels_lane_down(w, lane);
        mailbox_post(w->control, &lane->lost_mail, event_lane_lost);
    }
}

/* Their lane is gone for good: what waits for keys waits in vain. */
static void abandon(struct worker *w, struct op_lease *lease) {
    list_remove(&lease->lane_node);
    lease->route = NULL;
    list_splice(&lease->held, &lease->notify_waiting);
    for (struct list *pos; (pos = list_first(&lease->held));)
        op_cancel(w, list_entry(pos, struct op, node), RDMAD_E_PEER_LOST);
}

void lane_drop(struct call *c) {
    struct worker *w = c->worker;
    struct op_lane *lane = &c->lane->op;
    seat_wake(lane->route.seat, w->now_ns);
    bool was_up = lane->up;
    down(lane); /* moves what is not posted yet to the leases */
    for (struct list *pos; (pos = list_first(&lane->leases));)
        abandon(w, list_entry(pos, struct op_lease, lane_node));
    unlink_lane(w, lane, "the connection to the peer was dropped");
    if (was_up)
        channels_lane_down(w, lane);
    channels_lane_dropped(lane);
    c->garbage = c->lane;
    call_finish(c);
}

void peer_offer(struct call *c) {
    seat_wake(c->seat, c->worker->now_ns);
    c->seat->ops->offer(c->seat->fabric, c->peer, &c->given, &c->blob, &c->result);
    call_finish(c);
}

void peer_forget(struct call *c) {
    seat_wake(c->seat, c->worker->now_ns);
    if (c->seat->ops->forget)
        c->seat->ops->forget(c->seat->fabric, c->peer, c->via);
    call_finish(c);
}

void peer_expel(struct call *c) {
    seat_wake(c->seat, c->worker->now_ns);
    c->seat->ops->expel(c->seat->fabric, c->peer);
    call_finish(c);
}
