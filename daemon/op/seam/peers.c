/* SPDX-License-Identifier: MIT */
/*
 * peers.c - the connections of peers to us: offers for new ones, and their end.
 *
 * Each of these calls may give the fabric something to do or a new time to wake at, so each takes
 * the peer's fabric out of its sleep.
 */
#include "daemon/op/seam/call.h"

unsigned plane_worker_of_peer(const struct plane *p, uint64_t peer) {
    return (unsigned)(peer % p->settings.workers);
}

unsigned plane_workers(const struct plane *p) {
    return p->settings.workers;
}

static struct op_fabric *awake(struct call *c) {
    struct op_fabric *fabric = call_peer(c)->fabric;
    op_fabric_wake(fabric, c->worker->now_ns);
    return fabric;
}

static void offer_to_peer(struct call *c) {
    const struct call_peer *about = call_peer(c);
    struct op_fabric *fabric = awake(c);
    fabric->ops->offer(fabric->instance, about->peer, about->secured, &about->hello, &c->blob,
                       &c->result);
    call_finish(c);
}

void plane_offer_on(struct plane *p, unsigned fabric, unsigned worker, uint64_t peer, bool secured,
                    const struct fabric_blob *hello, plane_blob_done *done, void *arg) {
    struct call *c = call_prepare(p, &p->worker[worker], CALL_PEER, offer_to_peer, NULL, arg);
    c->blob_done = done;
    *call_peer(c) = (struct call_peer){
        .fabric = &c->worker->links[fabric], .peer = peer, .secured = secured, .hello = *hello};
    call_post(c);
}

void plane_offer(struct plane *p, unsigned fabric, uint64_t peer, bool secured,
                 const struct fabric_blob *hello, plane_blob_done *done, void *arg) {
    plane_offer_on(p, fabric, plane_worker_of_peer(p, peer), peer, secured, hello, done, arg);
}

static void forget_link(struct call *c) {
    const struct call_peer *about = call_peer(c);
    struct op_fabric *fabric = awake(c);
    if (fabric->ops->forget)
        fabric->ops->forget(fabric->instance, about->peer, about->number);
    call_finish(c);
}

static void expel_peer(struct call *c) {
    struct op_fabric *fabric = awake(c);
    fabric->ops->expel(fabric->instance, call_peer(c)->peer);
    call_finish(c);
}

/* The peer's connections may be on any worker. done runs with the last answer. */
static void ask_every_worker(struct plane *p, unsigned fabric, void (*apply)(struct call *),
                             uint64_t peer, uint64_t number, plane_done *done, void *arg) {
    struct call *first = NULL;
    for (unsigned i = 0; i < p->settings.workers; i++) {
        struct call *c = call_prepare(p, &p->worker[i], CALL_PEER, apply, done, arg);
        *call_peer(c) =
            (struct call_peer){.fabric = &c->worker->links[fabric], .peer = peer, .number = number};
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
