/* SPDX-License-Identifier: MIT */
/*
 * lanes.c - connections to peers on which we initiate.
 *
 * A lane goes round: plane_lane_hello makes it a link, plane_lane_open connects it, and at some
 * time it is lost. When the link breaks, the fabric has given back its parts before it says so;
 * whatever waits on the lane goes to the held lists of its leases, which have no keys from then on,
 * and comes out of them when a new link is up and plane_lease_key has been called for the lease.
 * Whether to connect again is the control thread's to decide; plane_lane_drop is its way to give
 * up, and then everything on the lane ends as PEER_LOST.
 *
 * Each of these calls may give the fabric something to do or a new time to wake at, so each takes
 * the lane's fabric out of its sleep.
 */
#include "daemon/op/seam/lanes.h"
#include "daemon/op/channel/channel.h"
#include "daemon/op/channel/entry.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/route.h"
#include "daemon/op/engine/tally.h"
#include "daemon/op/notify/allowance.h"
#include "daemon/op/seam/call.h"
#include "daemon/op/seam/objects.h"
#include <stdio.h>
#include <stdlib.h>

/* The worker hears of it with its first call. */
struct plane_lane *plane_lane_new(struct plane *p, unsigned fabric, unsigned worker, bool secured,
                                  void *cookie) {
    struct plane_lane *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    lane->plane = p;
    lane->worker = &p->worker[worker];
    lane->cookie = cookie;
    lane->secured = secured;
    route_init(&lane->op.route, &lane->worker->links[fabric]);
    list_init(&lane->op.leases);
    list_init(&lane->op.channels);
    list_init(&lane->op.full);
    list_init(&lane->op.full_node);
    return lane;
}

void plane_lane_peer(struct plane_lane *lane, uint64_t number, const char *node) {
    assert(!lane->hellos);
    lane->op.peer = number;
    snprintf(lane->op.node, sizeof(lane->op.node), "%s", node);
}

const struct fabric_ops *plane_lane_fabric(const struct plane_lane *lane) {
    return lane->op.route.fabric->ops;
}

static struct call *lane_call(struct plane_lane *lane, void (*apply)(struct call *),
                              plane_done *done, void *arg) {
    struct call *c = call_prepare(lane->plane, lane->worker, CALL_LANE, apply, done, arg);
    call_lane(c)->lane = lane;
    return c;
}

/* The lane's fabric, awake. */
static struct plane_lane *lane_of_call(struct call *c) {
    struct plane_lane *lane = call_lane(c)->lane;
    op_fabric_wake(lane->op.route.fabric, c->worker->now_ns);
    return lane;
}

static void set_number(struct plane_lane *lane, uint64_t number, uint64_t datagram) {
    __atomic_store_n(&lane->number, number, __ATOMIC_RELAXED);
    __atomic_store_n(&lane->datagram, datagram, __ATOMIC_RELAXED);
}

uint64_t plane_lane_number(const struct plane_lane *lane) {
    return __atomic_load_n(&lane->number, __ATOMIC_RELAXED);
}

uint64_t plane_lane_datagram(const struct plane_lane *lane) {
    return __atomic_load_n(&lane->datagram, __ATOMIC_RELAXED);
}

enum fabric_encryption plane_lane_encryption(const struct plane_lane *lane) {
    return __atomic_load_n(&lane->encryption, __ATOMIC_RELAXED);
}

static void look_at_lane(struct call *c) {
    struct plane_lane *lane = call_lane(c)->lane;
    const struct op_route *route = &lane->op.route;
    struct plane_lane_stats *stats = &lane->op.stats;
    struct fabric_health health;
    if (lane->op.state == OP_LANE_UP && route->fabric->ops->health &&
        route->fabric->ops->health(route->link, &health)) {
        counter_add(&stats->retransmits, health.retransmits - lane->retransmits);
        lane->retransmits = health.retransmits;
        __atomic_store_n(&stats->rtt_ns, health.rtt_ns, __ATOMIC_RELAXED);
        __atomic_store_n(&stats->bytes_per_second, health.bytes_per_second, __ATOMIC_RELAXED);
        __atomic_store_n(&stats->looked_ns, c->worker->now_ns, __ATOMIC_RELAXED);
    }
    call_finish(c);
}

void plane_lane_look(struct plane_lane *lane) {
    assert(!lane->dropped);
    call_post(lane_call(lane, look_at_lane, NULL, NULL));
}

void plane_lane_stats(const struct plane_lane *lane, struct plane_lane_stats *out) {
    const struct plane_lane_stats *live = &lane->op.stats;
    *out = (struct plane_lane_stats){
        .ops = __atomic_load_n(&live->ops, __ATOMIC_RELAXED),
        .bytes_read = __atomic_load_n(&live->bytes_read, __ATOMIC_RELAXED),
        .bytes_written = __atomic_load_n(&live->bytes_written, __ATOMIC_RELAXED),
        .ops_failed = __atomic_load_n(&live->ops_failed, __ATOMIC_RELAXED),
        .ops_inflight = __atomic_load_n(&live->ops_inflight, __ATOMIC_RELAXED),
        .looked_ns = __atomic_load_n(&live->looked_ns, __ATOMIC_RELAXED),
        .rtt_ns = __atomic_load_n(&live->rtt_ns, __ATOMIC_RELAXED),
        .bytes_per_second = __atomic_load_n(&live->bytes_per_second, __ATOMIC_RELAXED),
        .retransmits = __atomic_load_n(&live->retransmits, __ATOMIC_RELAXED)};
    histogram_sum(&out->latency, &live->latency);
    for (unsigned code = 0; code < PLANE_CODES; code++)
        out->failed[code] = __atomic_load_n(&live->failed[code], __ATOMIC_RELAXED);
}

/* ---- from state to state ----------------------------------------------------------------- */

static void op_lane_enter(struct op_lane *lane, enum op_lane_state state) {
    static const unsigned from[] = {
        [OP_LANE_NONE] = 1u << OP_LANE_LOST,
        [OP_LANE_NEW] = 1u << OP_LANE_NONE,
        [OP_LANE_OPENING] = 1u << OP_LANE_NEW,
        [OP_LANE_UP] = 1u << OP_LANE_OPENING,
        [OP_LANE_LOST] = 1u << OP_LANE_NEW | 1u << OP_LANE_OPENING | 1u << OP_LANE_UP,
    };
    assert(from[state] >> lane->state & 1);
    lane->state = state;
    if (state == OP_LANE_UP)
        lane->route.up = true;
    if (state != OP_LANE_LOST)
        return;
    route_down(&lane->route); /* nothing is posted until it is UP again */
    list_for_each (pos, &lane->leases)
        lease_unkey(list_entry(pos, struct op_lease, lane_node));
}

/* Whatever link it has is of no use any more. Returns what it was. */
static enum op_lane_state lose_link(struct op_lane *lane) {
    enum op_lane_state was = lane->state;
    if (was != OP_LANE_NONE && was != OP_LANE_LOST)
        op_lane_enter(lane, OP_LANE_LOST);
    return was;
}

/* The peer may have its end though ours is not up: the number is told in either case. */
static void answer_open(struct plane_lane *lane, const struct error *why) {
    struct call *c = lane->opening;
    const struct fabric_link *link = lane->op.route.link;
    assert(c);
    lane->opening = NULL;
    if (link) {
        set_number(lane, link->number, weak_most(link, RDMAD_CHANNEL_DATAGRAM));
        __atomic_store_n(&lane->encryption, link->encryption, __ATOMIC_RELAXED);
    }
    c->result = *why;
    call_finish(c);
}

/* Ends the link, if there is one. */
static void drop_link(struct worker *w, struct plane_lane *lane, const char *why) {
    struct op_route *route = &lane->op.route;
    struct error err;
    enum op_lane_state was = lose_link(&lane->op);
    if (was == OP_LANE_NONE)
        return;
    route->fabric->ops->link_close(route->link); /* gives back what is posted */
    route->link = NULL;
    op_lane_enter(&lane->op, OP_LANE_NONE);
    if (was == OP_LANE_UP)
        channels_lane_down(w, &lane->op);
    if (lane->opening) {
        error_set(&err, RDMAD_E_CANCELED, "%s", why);
        answer_open(lane, &err);
    }
}

/* ---- up ---------------------------------------------------------------------------------- */

static void hello_lane(struct call *c) {
    struct plane_lane *lane = lane_of_call(c);
    const struct op_fabric *fabric = lane->op.route.fabric;
    drop_link(c->worker, lane, "the connection to the peer is made anew");
    lane->links++;
    lane->retransmits = 0;
    set_number(lane, 0, 0);
    struct fabric_link *link;
    if (fabric->ops->link_new(fabric->instance, lane, lane->secured, &link, &c->blob, &c->result) ==
        0) {
        lane->op.route.link = link;
        op_lane_enter(&lane->op, OP_LANE_NEW);
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
    struct plane_lane *lane = lane_of_call(c);
    struct op_route *route = &lane->op.route;
    if (lane->op.state == OP_LANE_LOST) { /* between its hello and now */
        c->result = lane->lost_why;
        call_finish(c);
        return;
    }
    if (lane->op.state != OP_LANE_NEW) {
        call_fail(c, RDMAD_E_INVAL, "a connection to a peer is opened once after each hello");
        return;
    }
    lane->opening = c;
    op_lane_enter(&lane->op, OP_LANE_OPENING);
    if (route->fabric->ops->link_open(route->link, lane->host, &call_lane(c)->offer,
                                      &lane->lost_why) < 0) {
        op_lane_enter(&lane->op, OP_LANE_LOST);
        answer_open(lane, &lane->lost_why);
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
    struct plane_lane *lane = cookie;
    if (!lane || lane->op.state != OP_LANE_OPENING)
        return;
    op_lane_enter(&lane->op, OP_LANE_UP);
    answer_open(lane, &(struct error){0});
    channels_lane_up(worker, &lane->op);
}

/* ---- down -------------------------------------------------------------------------------- */

/* The loss of a link that was given up for another meanwhile is not told. */
static void tell_lost(struct mail *mail) {
    struct plane_lane *lane = container_of(mail, struct plane_lane, lost_mail);
    const struct plane_events *events = &lane->plane->events;
    if (!lane->dropped && lane->lost_link == lane->hellos)
        events->lane_lost(events->user, lane->cookie, &lane->lost_why);
}

void lane_link_lost(void *worker, void *cookie, const struct error *why) {
    struct worker *w = worker;
    struct plane_lane *lane = cookie;
    if (!lane || lane->op.state == OP_LANE_LOST || lane->op.state == OP_LANE_NONE)
        return;
    enum op_lane_state was = lose_link(&lane->op);
    lane->lost_why = *why;
    if (was == OP_LANE_OPENING) {
        answer_open(lane, why);
    } else if (was == OP_LANE_UP) {
        lane->lost_link = lane->links;
        channels_lane_down(w, &lane->op);
        mailbox_post(w->control, &lane->lost_mail, tell_lost);
    }
}

static void rest_lane(struct call *c) {
    struct op_lane *lane = &lane_of_call(c)->op;
    route_down(&lane->route);
    list_for_each (pos, &lane->leases)
        lease_unkey(list_entry(pos, struct op_lease, lane_node));
    if (lane->route.out)
        call_fail(c, RDMAD_E_BUSY, "ops are under way on the link");
    else
        call_finish(c);
}

void plane_lane_rest(struct plane_lane *lane, plane_done *done, void *arg) {
    assert(!lane->dropped);
    call_post(lane_call(lane, rest_lane, done, arg));
}

static void unlink_lane(struct call *c) {
    drop_link(c->worker, lane_of_call(c), "the connection to the peer was lost");
    call_finish(c);
}

void plane_lane_unlink(struct plane_lane *lane, plane_done *done, void *arg) {
    assert(!lane->dropped);
    call_post(lane_call(lane, unlink_lane, done, arg));
}

/* Their lane is gone for good: what waits for keys waits in vain. */
static void abandon_lease(struct worker *w, struct op_lease *lease) {
    list_remove(&lease->lane_node);
    lease->route = NULL;
    share_route_gone(lease->share);
    allowance_lost(lease);
    int why = lease->reason ? lease->reason : RDMAD_E_PEER_LOST;
    for (struct list *pos; (pos = list_first(&lease->held));)
        op_cancel(w, list_entry(pos, struct op, node), why);
}

static void drop_lane(struct call *c) {
    struct worker *w = c->worker;
    struct plane_lane *lane = lane_of_call(c);
    enum op_lane_state was = lose_link(&lane->op); /* moves what is not posted yet to the leases */
    for (struct list *pos; (pos = list_first(&lane->op.leases));)
        abandon_lease(w, list_entry(pos, struct op_lease, lane_node));
    drop_link(w, lane, "the connection to the peer was dropped");
    if (was == OP_LANE_UP)
        channels_lane_down(w, &lane->op);
    channels_lane_dropped(&lane->op);
    tally_settle_now(w);
    c->garbage = lane;
    call_finish(c);
}

void plane_lane_drop(struct plane_lane *lane, plane_done *done, void *arg) {
    assert(!lane->dropped);
    lane->dropped = true;
    call_post(lane_call(lane, drop_lane, done, arg));
}
