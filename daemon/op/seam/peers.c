/* SPDX-License-Identifier: MIT */
/*
 * peers.c - the connections of peers to us: offers for new ones, and their end.
 *
 * Each of these calls may give the fabric something to do or a new time to wake at, so each takes
 * the peer's seat out of its sleep.
 */
#include "daemon/op/seam/call.h"

unsigned plane_worker_of_peer(const struct plane *p, uint64_t peer) {
    return (unsigned)(peer % p->settings.workers);
}

unsigned plane_workers(const struct plane *p) {
    return p->settings.workers;
}

static struct seat *awake(struct call *c) {
    struct seat *seat = call_peer(c)->seat;
    seat_wake(seat, c->worker->now_ns);
    return seat;
}

static void offer_to_peer(struct call *c) {
    const struct call_peer *about = call_peer(c);
    struct seat *seat = awake(c);
    seat->ops->offer(seat->fabric, about->peer, &about->hello, &c->blob, &c->result);
    call_finish(c);
}

void plane_offer_on(struct plane *p, unsigned fabric, unsigned worker, uint64_t peer,
                    const struct fabric_blob *hello, plane_blob_done *done, void *arg) {
    struct call *c = call_prepare(p, &p->worker[worker], CALL_PEER, offer_to_peer, NULL, arg);
    c->blob_done = done;
    *call_peer(c) =
        (struct call_peer){.seat = &c->worker->links[fabric], .peer = peer, .hello = *hello};
    call_post(c);
}

void plane_offer(struct plane *p, unsigned fabric, uint64_t peer, const struct fabric_blob *hello,
                 plane_blob_done *done, void *arg) {
    plane_offer_on(p, fabric, plane_worker_of_peer(p, peer), peer, hello, done, arg);
}

static void forget_link(struct call *c) {
    const struct call_peer *about = call_peer(c);
    struct seat *seat = awake(c);
    if (seat->ops->forget)
        seat->ops->forget(seat->fabric, about->peer, about->number);
    call_finish(c);
}

static void expel_peer(struct call *c) {
    struct seat *seat = awake(c);
    seat->ops->expel(seat->fabric, call_peer(c)->peer);
    call_finish(c);
}

/* The peer's connections may be on any worker. done runs with the last answer. */
static void ask_every_worker(struct plane *p, unsigned fabric, void (*apply)(struct call *),
                             uint64_t peer, uint64_t number, plane_done *done, void *arg) {
    struct call *first = NULL;
    for (unsigned i = 0; i < p->settings.workers; i++) {
        struct call *c = call_prepare(p, &p->worker[i], CALL_PEER, apply, done, arg);
        *call_peer(c) =
            (struct call_peer){.seat = &c->worker->links[fabric], .peer = peer, .number = number};
        if (first)
            list_append(&first->group, &c->group);
        else
            first = c;
        call_post(c);
    }
}

void plane_forget(struct plane *p, unsigned fabric, uint64_t peer, uint64_t number,
                  plane_done *done, void *arg) {
    ask_every_worker(p, fabric, forget_link, peer, number, done, arg);
}

void plane_expel(struct plane *p, unsigned fabric, uint64_t peer, plane_done *done, void *arg) {
    ask_every_worker(p, fabric, expel_peer, peer, 0, done, arg);
}
