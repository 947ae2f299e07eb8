/* SPDX-License-Identifier: MIT */
/*
 * submit.c - an op becomes parts, and parts go to the fabric.
 *
 * Each op posts one part and goes to the end of its session's queue on the route, and the session
 * to the end of the route's, so a small op that comes behind a gigabyte waits for one part of it,
 * not for the whole. A part is at most the fabric's largest message, and an op has at most
 * OP_MAX_PARTS of them in flight; with that many it leaves the queue until one comes back. When the
 * link says AGAIN the whole route waits.
 *
 * Parts that a lost link gave back go first. The link that follows may take less at once: then such
 * a part is posted piece by piece.
 */
#include "daemon/op/engine/submit.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/kind.h"
#include "daemon/op/engine/life.h"
#include "daemon/op/engine/part.h"
#include "daemon/op/engine/route.h"
#include <assert.h>

#define POSTS_PER_TURN 256u /* on one route: rings and other routes want their turn too */

static bool wants_post(const struct op *op) {
    return op_has_more(op) && op->inflight < OP_MAX_PARTS && !op_last_must_wait(op);
}

void op_start(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq) {
    op_queue(w, op_new(w, r, sqe, rq));
}

void op_begin(struct worker *w, struct op *op) {
    assert(list_empty(&op->node) && op->lease);
    if (op->kind && op->kind->start)
        op->kind->start(w, op);
    else
        op_queue(w, op);
}

struct op *op_start_own(struct worker *w, struct op_session *s, struct op_pool *pool,
                        struct op_lease *lease, const struct rdmad_sqe *what, uint64_t deadline_ns,
                        void (*ended)(struct worker *w, struct op *op, int status, uint8_t outcome),
                        void *arg) {
    if (!worker_can_start(w))
        return NULL;
    struct op_request rq = {.pool = pool,
                            .lease = lease,
                            .local = pool ? pool->base + what->pool_offset : NULL,
                            .deadline_ns = deadline_ns};
    struct op *op = op_new_own(w, s, what, &rq);
    op->ended = ended;
    op->ended_arg = arg;
    op_queue(w, op);
    return op;
}

static uint8_t fabric_opcode(const struct op *op) {
    return op->opcode == RDMAD_OP_NOTIFY ? RDMAD_OP_WRITE : op->opcode;
}

static int post_range(struct op *op, struct op_part *part, uint64_t from, uint64_t length) {
    struct fabric_op *fop = &part->fop;
    op_clear(fop, sizeof(*fop));
    fop->opcode = fabric_opcode(op);
    fop->local = op->local ? op->local + from : NULL;
    fop->memory = op->memory;
    fop->length = length;
    fop->key = &op->lease->key;
    fop->offset = op->lease_offset + from;
    fop->compare = op->compare;
    fop->swap = op->swap;
    fop->user = part;
    return op->route->fabric->ops->post(op->route->link, fop);
}

static uint64_t at_most(uint64_t length, uint64_t most) {
    return length < most ? length : most;
}

/* A part of its own for some of what is left. */
static int post_new(struct worker *w, struct op *op, uint64_t from, uint64_t length) {
    struct op_part *part = op_part_get(w, op);
    if (!part)
        return RDMAD_E_NOMEM;
    int rc = post_range(op, part, from, length);
    if (rc < 0)
        op_part_put(w, part);
    else
        op_part_posted(op, part);
    return rc;
}

/* The first part that came back from a lost link, or as much of it as this link takes. */
static int post_again(struct worker *w, struct op *op) {
    struct op_part *part = list_entry(list_first(&op->again), struct op_part, node);
    uint64_t from = part->fop.offset - op->lease_offset, length = part->fop.length;
    uint64_t most = op->route->link->max_message;
    int rc;
    if (length > most) {
        rc = post_new(w, op, from, most);
        if (rc == 0) {
            part->fop.offset += most;
            part->fop.length -= most;
        }
        return rc;
    }
    rc = post_range(op, part, from, length);
    if (rc == 0)
        op_part_posted(op, part);
    return rc;
}

static int post_part(struct worker *w, struct op *op) {
    if (!list_empty(&op->again))
        return post_again(w, op);
    if (op->todo & OP_TODO_LAST && op->next == op->length)
        return op->kind->post_last(w, op);
    uint64_t length = at_most(op->length - op->next, op->route->link->max_message);
    int rc = post_new(w, op, op->next, length);
    if (rc == 0)
        op->next += length;
    return rc;
}

static unsigned submit_route(struct worker *w, struct op_route *route) {
    unsigned posts = 0;
    op_fabric_wake(route->fabric, w->now_ns);
    for (struct list *turn; posts < POSTS_PER_TURN && (turn = list_first(&route->run));) {
        struct op_share *share = list_entry(turn, struct op_share, turn);
        if (list_empty(&share->ops)) {
            list_remove(turn);
            continue;
        }
        struct op *op = list_entry(list_first(&share->ops), struct op, node);
        int rc = post_part(w, op);
        if (rc == RDMAD_E_AGAIN) {
            route_full(route);
            return posts;
        }
        if (rc == RDMAD_E_PEER_LOST) { /* the fabric is about to say so */
            route_down(route);
            return posts;
        }
        posts++;
        list_remove(&op->node);
        if (rc < 0 &&
            (rc != RDMAD_E_NOMEM || op->inflight == 0)) /* else it has a next completion */
            op_cancel(w, op, rc);
        else if (rc == 0 && wants_post(op))
            list_append(&share->ops, &op->node);
        else if (op->inflight == 0) /* the last needed no part, and that was all */
            op_finish(w, op);
        list_remove(turn);
        if (!list_empty(&share->ops))
            list_append(&route->run, turn);
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
