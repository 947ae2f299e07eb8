/* SPDX-License-Identifier: MIT */
/*
 * lanes.c - connections to peers on which we initiate.
 *
 * A lane goes round: plane_lane_hello makes it a link, plane_lane_open connects it, lane_link_up,
 * lane_link_lost. When the link breaks, the fabric has given back its parts before it says so;
 * whatever waits on the lane goes to the held lists of its leases, which have no keys from then on,
 * and comes out of them when a new link is up and plane_lease_key has been called for the lease.
 * Whether to connect again is the control thread's to decide; plane_lane_drop is its way to give
 * up, and then everything on the lane ends as PEER_LOST.
 *
 * Each of these calls may give the fabric something to do or a new time to wake at, so each takes
 * the lane's seat out of its sleep.
 */
#include "daemon/op/seam/lanes.h"
#include "daemon/op/channel/channel.h"
#include "daemon/op/channel/doors.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/route.h"
#include "daemon/op/notify/allowance.h"
#include "daemon/op/seam/call.h"
#include "daemon/op/seam/objects.h"
#include <stdio.h>
#include <stdlib.h>

/* The worker hears of it with its first call. */
struct plane_lane *plane_lane_new(struct plane *p, unsigned fabric, unsigned worker, void *cookie) {
    struct plane_lane *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    lane->plane = p;
    lane->worker = &p->worker[worker];
    lane->op.cookie = cookie;
    route_init(&lane->op.route, &lane->worker->links[fabric]);
    list_init(&lane->op.leases);
    list_init(&lane->op.channels);
    return lane;
}

const struct fabric_ops *plane_lane_fabric(const struct plane_lane *lane) {
    return lane->op.route.seat->ops;
}

static struct call *lane_call(struct plane_lane *lane, void (*apply)(struct call *),
                              plane_done *done, void *arg) {
    struct call *c = call_prepare(lane->plane, lane->worker, CALL_LANE, apply, done, arg);
    call_lane(c)->lane = lane;
    return c;
}

static struct plane_lane *plane_lane_of(struct op_lane *lane) {
    return container_of(lane, struct plane_lane, op);
}

/* ---- up and down ------------------------------------------------------------------------- */

static void set_number(struct op_lane *lane, uint64_t number, uint64_t datagram) {
    __atomic_store_n(&lane->number, number, __ATOMIC_RELAXED);
    __atomic_store_n(&lane->datagram, datagram, __ATOMIC_RELAXED);
}

/* From here to the next lane_link_up nothing is posted. */
static void take_down(struct op_lane *lane) {
    lane->up = false;
    lane->lost = true;
    route_down(&lane->route);
    list_for_each (pos, &lane->leases)
        lease_unkey(list_entry(pos, struct op_lease, lane_node));
}

/* The peer may have its end though ours is not up: the number is told in either case. */
static void answer_lane(struct op_lane *lane, const struct error *why) {
    struct call *c = plane_lane_of(lane)->opening;
    plane_lane_of(lane)->opening = NULL;
    const struct fabric_link *link = lane->route.link;
    if (link)
        set_number(lane, link->number, weak_most(link, RDMAD_CHANNEL_DATAGRAM));
    c->result = *why;
    call_finish(c);
}

/* Ends the link, if there is one. */
static void drop_link(struct worker *w, struct op_lane *lane, const char *why) {
    struct error err;
    bool was_up = lane->up;
    take_down(lane);
    if (lane->route.link)
        lane->route.seat->ops->link_close(lane->route.link); /* gives back what is posted */
    lane->route.link = NULL;
    if (was_up)
        channels_lane_down(w, lane);
    if (plane_lane_of(lane)->opening) {
        error_set(&err, RDMAD_E_CANCELED, "%s", why);
        answer_lane(lane, &err);
    }
}

static void hello_lane(struct call *c) {
    struct worker *w = c->worker;
    struct op_lane *lane = &call_lane(c)->lane->op;
    struct seat *seat = lane->route.seat;
    seat_wake(seat, w->now_ns);
    drop_link(w, lane, "the connection to the peer is made anew");
    lane->hellos++;
    set_number(lane, 0, 0);
    struct fabric_link *link;
    if (seat->ops->link_new(seat->fabric, lane, &link, &c->blob, &c->result) == 0) {
        lane->route.link = link;
        lane->lost = false;
    }
    call_finish(c);
}

void plane_lane_hello(struct plane_lane *lane, plane_blob_done *done, void *arg) {
    struct call *c = lane_call(lane, hello_lane, NULL, arg);
    c->blob_done = done;
    lane->hellos++;
    call_post(c);
}

static void open_lane(struct call *c) {
    const struct call_lane *about = call_lane(c);
    struct op_lane *lane = &about->lane->op;
    struct seat *seat = lane->route.seat;
    seat_wake(seat, c->worker->now_ns);
    if (!lane->route.link || lane->up || plane_lane_of(lane)->opening) {
        call_fail(c, RDMAD_E_INVAL, "a connection to a peer is opened once after each hello");
        return;
    }
    if (lane->lost) { /* between its hello and now */
        c->result = lane->lost_why;
        call_finish(c);
        return;
    }
    plane_lane_of(lane)->opening = c;
    struct error err;
    if (seat->ops->link_open(lane->route.link, about->lane->host, &about->offer, &err) < 0) {
        take_down(lane);
        answer_lane(lane, &err);
    }
}

void plane_lane_open(struct plane_lane *lane, const char *host, const struct fabric_blob *offer,
                     plane_done *done, void *arg) {
    struct call *c = lane_call(lane, open_lane, done, arg);
    snprintf(lane->host, sizeof(lane->host), "%s", host);
    call_lane(c)->offer = *offer;
    call_post(c);
}

void lane_link_up(void *worker, void *cookie) {
    struct op_lane *lane = cookie;
    if (!lane || !plane_lane_of(lane)->opening)
        return;
    lane->up = lane->route.up = true;
    answer_lane(lane, &(struct error){0});
    channels_lane_up(worker, lane);
}

/* Of a link that was given up for another meanwhile, nobody wants to hear. */
static void tell_lost(struct mail *mail) {
    struct op_lane *lane = container_of(mail, struct op_lane, lost_mail);
    const struct plane_lane *pl = plane_lane_of(lane);
    const struct plane_events *events = &pl->plane->events;
    if (!pl->dropped && lane->lost_hello == pl->hellos)
        events->lane_lost(events->user, lane->cookie, &lane->lost_why);
}

void lane_link_lost(void *worker, void *cookie, const struct error *why) {
    struct worker *w = worker;
    struct op_lane *lane = cookie;
    if (!lane || lane->lost)
        return;
    bool was_up = lane->up;
    take_down(lane);
    lane->lost_why = *why;
    if (plane_lane_of(lane)->opening) {
        answer_lane(lane, why);
    } else if (was_up) {
        lane->lost_hello = lane->hellos;
        channels_lane_down(w, lane);
        mailbox_post(w->control, &lane->lost_mail, tell_lost);
    }
}

uint64_t plane_lane_number(const struct plane_lane *lane) {
    return __atomic_load_n(&lane->op.number, __ATOMIC_RELAXED);
}

uint64_t plane_lane_datagram(const struct plane_lane *lane) {
    return __atomic_load_n(&lane->op.datagram, __ATOMIC_RELAXED);
}

/* ---- the end ----------------------------------------------------------------------------- */

/* Their lane is gone for good: what waits for keys waits in vain. */
static void abandon_lease(struct worker *w, struct op_lease *lease) {
    list_remove(&lease->lane_node);
    lease->route = NULL;
    allowance_lost(lease);
    for (struct list *pos; (pos = list_first(&lease->held));)
        op_cancel(w, list_entry(pos, struct op, node), RDMAD_E_PEER_LOST);
}

static void drop_lane(struct call *c) {
    struct worker *w = c->worker;
    struct op_lane *lane = &call_lane(c)->lane->op;
    seat_wake(lane->route.seat, w->now_ns);
    bool was_up = lane->up;
    take_down(lane); /* moves what is not posted yet to the leases */
    for (struct list *pos; (pos = list_first(&lane->leases));)
        abandon_lease(w, list_entry(pos, struct op_lease, lane_node));
    drop_link(w, lane, "the connection to the peer was dropped");
    if (was_up)
        channels_lane_down(w, lane);
    channels_lane_dropped(lane);
    c->garbage = call_lane(c)->lane;
    call_finish(c);
}

void plane_lane_drop(struct plane_lane *lane, plane_done *done, void *arg) {
    assert(!lane->dropped);
    lane->dropped = true;
    call_post(lane_call(lane, drop_lane, done, arg));
}
