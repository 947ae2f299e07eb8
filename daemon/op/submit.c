/* SPDX-License-Identifier: MIT */
/*
 * submit.c - an op becomes parts, and parts go to the fabric.
 *
 * Each op posts one part and goes to the end of its route's queue, so a small op that comes behind
 * a gigabyte waits for one part of it, not for the whole. A part is at most the fabric's largest
 * message, and an op has at most OP_MAX_PARTS of them in flight; with that many it leaves the queue
 * until one comes back. When the link says AGAIN the whole route waits.
 */
#include "daemon/op/worker.h"

#define POSTS_PER_TURN 256u /* on one route: rings and other routes want their turn too */

static bool has_more(const struct op *op) {
    return !op->stopped && (op->posted < op->length || !op->begun);
}

static bool wants_post(const struct op *op) {
    return has_more(op) && op->inflight < OP_MAX_PARTS;
}

void op_start(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq) {
    struct op_session *s = r->session;
    struct op *op = slab_get(&w->ops);
    *op = (struct op){
        .deadline_ns = rq->deadline_ns,
        .session = s,
        .ring = r,
        .pool = rq->pool,
        .lease = rq->lease,
        .route = rq->lease->route,
        .local = rq->local,
        .length = sqe->length,
        .lease_offset = sqe->lease_offset,
        .user_data = sqe->user_data,
        .opcode = sqe->opcode,
    };
    list_init(&op->parts);
    list_init(&op->due.node);
    op_set_due(w, op);

    list_append(&s->ops, &op->session_node);
    s->inflight++;
    r->inflight++;
    op->pool->inflight++;
    op->lease->inflight++;
    counter_add(&s->stats.ops_inflight, 1);
    counter_add(&w->counters.ops_inflight, 1);

    list_append(&op->route->run, &op->node);
    if (!op->route->full)
        route_ready(w, op->route);
}

/* The inline part first: while it is free there is always one to be had. */
static struct op_part *take_part(struct worker *w, struct op *op) {
    struct op_part *part = &op->first;
    if (!op->first_used)
        op->first_used = true;
    else
        part = slab_get(&w->parts);
    return part;
}

void op_part_put(struct worker *w, struct op_part *part) {
    if (part == &part->op->first)
        part->op->first_used = false;
    else
        slab_put(&w->parts, part);
}

static int post_part(struct worker *w, struct op *op) {
    struct op_part *part = take_part(w, op);
    if (!part)
        return RDMAD_E_NOMEM;
    uint64_t left = op->length - op->posted;
    uint64_t most = op->route->seat->ops->max_message;
    part->op = op;
    part->fop = (struct fabric_op){
        .opcode = op->opcode,
        .local = op->local + op->posted,
        .length = left < most ? left : most,
        .key = &op->lease->key,
        .offset = op->lease_offset + op->posted,
        .user = part,
    };
    int rc = op->route->seat->ops->post(op->route->link, &part->fop);
    if (rc < 0) {
        op_part_put(w, part);
        return rc;
    }
    op->begun = true;
    op->posted += part->fop.length;
    op->inflight++;
    list_append(&op->parts, &part->node);
    return 0;
}

static unsigned submit_route(struct worker *w, struct op_route *route) {
    unsigned posts = 0;
    seat_wake(route->seat, w->now_ns);
    while (posts < POSTS_PER_TURN && !list_empty(&route->run)) {
        struct op *op = list_entry(list_first(&route->run), struct op, node);
        int rc = post_part(w, op);
        if (rc == RDMAD_E_AGAIN) {
            route_full(w, route);
            return posts;
        }
        posts++;
        list_remove(&op->node);
        if (rc == RDMAD_E_NOMEM && op->inflight > 0)
            continue; /* comes back with its next completion */
        if (rc < 0)
            op_cancel(w, op, rc);
        else if (wants_post(op))
            list_append(&route->run, &op->node);
    }
    if (list_empty(&route->run))
        list_remove(&route->node);
    return posts;
}

unsigned submit_run(struct worker *w) {
    unsigned posts = 0;
    list_for_each_safe (pos, &w->runnable) {
        posts += submit_route(w, list_entry(pos, struct op_route, node));
    }
    return posts;
}
