/* SPDX-License-Identifier: MIT */
/*
 * lane.c - connections to peers on which we initiate, and windows through which they reach us.
 *
 * A lane is one link, opened by a peer's offer. When it breaks, the fabric has ended its ops before
 * it says so; what was not posted yet is failed here as untouched, and the leases that go over it
 * answer PEER_LOST until the control thread ends them. Dropping a lane under live leases is the
 * same to them.
 *
 * Each of these calls may give the fabric something to do or a new time to wake at, so each takes
 * the fabric's seat out of its sleep.
 */
#include "daemon/op/call.h"

void lane_open(struct call *c) {
    struct worker *w = c->worker;
    struct op_lane *lane = &c->lane->op;
    struct fabric_link *link;
    seat_wake(&w->link, w->now_ns);
    lane->opening = c;
    int rc = w->link.ops->link_open(w->link.fabric, c->lane->host, &c->lane->offer, lane, &link,
                                    &c->result);
    if (rc < 0) {
        lane->opening = NULL;
        lane->route.lost = true;
        call_finish(c);
        return;
    }
    lane->route.link = link;
}

void lane_up(void *worker, void *cookie) {
    struct op_lane *lane = cookie;
    (void)worker;
    if (!lane || !lane->opening)
        return;
    call_finish(lane->opening);
    lane->opening = NULL;
}

void lane_lost(void *worker, void *cookie, const struct error *why) {
    struct worker *w = worker;
    struct op_lane *lane = cookie;
    if (!lane || lane->route.lost)
        return;
    route_lose(w, &lane->route);
    if (lane->opening) {
        lane->opening->result = *why;
        call_finish(lane->opening);
        lane->opening = NULL;
        return;
    }
    lane->lost_why = *why;
    mailbox_post(w->control, &lane->lost_mail, event_lane_lost);
}

void lane_drop(struct call *c) {
    struct worker *w = c->worker;
    struct op_lane *lane = &c->lane->op;
    seat_wake(&w->link, w->now_ns);
    route_lose(w, &lane->route);
    for (struct list *pos; (pos = list_pop(&lane->leases));)
        list_entry(pos, struct op_lease, lane_node)->route = NULL;
    if (lane->route.link)
        w->link.ops->link_close(lane->route.link); /* completes what is posted */
    if (lane->opening)
        call_fail(lane->opening, RDMAD_E_CANCELED, "the connection to the peer was dropped");
    c->garbage = c->lane;
    call_finish(c);
}

void window_open(struct call *c) {
    struct worker *w = c->worker;
    struct fabric_window *window;
    seat_wake(&w->link, w->now_ns);
    if (w->link.ops->window_open(w->link.fabric, &c->window_spec, &window, &c->blob, &c->result) ==
        0)
        c->window->op.window = window;
    call_finish(c);
}

void window_extend(struct call *c) {
    seat_wake(&c->worker->link, c->worker->now_ns);
    if (c->window->op.window)
        c->worker->link.ops->window_extend(c->window->op.window, c->deadline_ns);
    call_finish(c);
}

void window_close(struct call *c) {
    seat_wake(&c->worker->link, c->worker->now_ns);
    if (c->window->op.window)
        c->worker->link.ops->window_close(c->window->op.window, c->reason);
    c->garbage = c->window;
    call_finish(c);
}

void peer_offer(struct call *c) {
    struct worker *w = c->worker;
    seat_wake(&w->link, w->now_ns);
    w->link.ops->offer(w->link.fabric, c->peer, &c->blob, &c->result);
    call_finish(c);
}

void peer_expel(struct call *c) {
    struct worker *w = c->worker;
    seat_wake(&w->link, w->now_ns);
    w->link.ops->expel(w->link.fabric, c->peer);
    call_finish(c);
}
