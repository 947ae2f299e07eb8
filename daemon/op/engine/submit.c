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
#include "daemon/op/engine/worker.h"
#include <string.h>

#define POSTS_PER_TURN 256u /* on one route: rings and other routes want their turn too */

bool op_has_more(const struct op *op) {
    return !op->stopped && (!list_empty(&op->again) || op->next < op->length || op->todo);
}

static bool wants_post(const struct op *op) {
    return op_has_more(op) && op->inflight < OP_MAX_PARTS && !notify_must_wait(op);
}

/* A NOTIFY of no bytes has nothing to begin. */
static uint8_t todo_of(const struct rdmad_sqe *sqe) {
    if (sqe->opcode != RDMAD_OP_NOTIFY)
        return OP_TODO_BEGIN;
    return sqe->length ? OP_TODO_BEGIN | OP_TODO_NOTICE : OP_TODO_NOTICE;
}

/* In blocks: for all at once compilers choose an instruction that takes longer to start than this
 * whole function. The last block may reach beyond bytes. */
#define BLOCK 32u
static void clear(void *at, size_t bytes) {
    for (uint8_t *block = at, *end = block + bytes; block < end; block += BLOCK)
        memset(block, 0, BLOCK);
}
_Static_assert(sizeof(struct op) - offsetof(struct op, first) >= BLOCK, "room for the last block");
_Static_assert(sizeof(struct fabric_op) % BLOCK == 0, "none is needed");

static struct op *make(struct worker *w, struct op_session *s, struct op_ring *r,
                       const struct rdmad_sqe *sqe, const struct op_request *rq) {
    struct op *op = slab_get(&w->ops);
    clear(op, offsetof(struct op, first));
    op->deadline_ns = rq->deadline_ns;
    op->session = s;
    op->ring = r;
    op->pool = rq->pool;
    op->lease = rq->lease;
    op->grant = rq->grant;
    op->batch = rq->batch;
    op->order = rq->order;
    op->local = rq->local;
    op->length = sqe->length;
    op->lease_offset = sqe->lease_offset;
    op->tag.user_data = sqe->user_data;
    op->compare = sqe->compare;
    op->swap = sqe->swap;
    op->imm = sqe->imm;
    op->flags = sqe->flags;
    op->opcode = sqe->opcode;
    op->todo = todo_of(sqe);
    list_init(&op->node);
    list_init(&op->parts);
    list_init(&op->again);
    list_init(&op->due.node);
    list_init(&op->holds_node);
    op_set_due(w, op);

    s->inflight++;
    if (op->pool) {
        op->memory = op->pool->memory;
        op->pool->inflight++;
    }
    if (op->lease) {
        op->route = op->lease->route;
        op->lease->inflight++;
        list_append(&op->lease->ops, &op->holds_node);
    }
    return op;
}

static void wait_home(struct op_ring *r, struct op *op) {
    r->session->waits++;
    list_append(&r->waits, &op->home_node);
    if (op->pool)
        list_append(&op->pool->waits, &op->holds_node);
}

struct op *op_new(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                  const struct op_request *rq) {
    struct op_session *s = r->session;
    struct op *op = make(w, s, r, sqe, rq);
    const uint8_t apart = RDMAD_SQE_SILENT | RDMAD_SQE_LINK;
    op->charged = op->moving = op_is_own_time(sqe->opcode);
    op->told_apart = rq->batch || sqe->flags & apart || sqe->opcode == RDMAD_OP_NOTIFY;
    s->charged += op->charged;
    r->moving += op->moving;
    r->inflight++;
    if (op->charged)
        list_append(&r->ops, &op->home_node);
    else
        wait_home(r, op);
    if (op->batch)
        batch_add(op->batch, op);
    if (r->tagged)
        op_tag(r, op);
    counter_add(&s->stats.ops_inflight, op->charged);
    counter_add(&w->counters.ops_inflight, op->charged);
    return op;
}

void op_start(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq) {
    op_queue(w, op_new(w, r, sqe, rq));
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
    struct op *op = make(w, s, NULL, what, &rq);
    list_append(&s->own, &op->home_node);
    op->ask = what->opcode == RDMAD_OP_NOTIFY;
    op->ended = ended;
    op->ended_arg = arg;
    op_queue(w, op);
    return op;
}

/* The inline part first: while it is free there is always one to be had. */
struct op_part *op_part_get(struct worker *w, struct op *op) {
    struct op_part *part = &op->first;
    if (!op->first_used)
        op->first_used = true;
    else
        part = slab_get(&w->parts);
    if (part) {
        part->op = op;
        list_init(&part->node);
    }
    return part;
}

void op_part_put(struct worker *w, struct op_part *part) {
    if (part == &part->op->first)
        part->op->first_used = false;
    else
        slab_put(&w->parts, part);
}

static uint8_t fabric_opcode(const struct op *op) {
    return op->opcode == RDMAD_OP_NOTIFY ? RDMAD_OP_WRITE : op->opcode;
}

static int post_range(struct op *op, struct op_part *part, uint64_t from, uint64_t length) {
    struct fabric_op *fop = &part->fop;
    clear(fop, sizeof(*fop));
    fop->opcode = fabric_opcode(op);
    fop->local = op->local ? op->local + from : NULL;
    fop->memory = op->memory;
    fop->length = length;
    fop->key = &op->lease->key;
    fop->offset = op->lease_offset + from;
    fop->compare = op->compare;
    fop->swap = op->swap;
    fop->user = part;
    return op->route->seat->ops->post(op->route->link, fop);
}

void op_part_posted(struct op *op, struct op_part *part) {
    op->todo &= (uint8_t)~OP_TODO_BEGIN;
    op->posted += part->fop.length;
    op->inflight++;
    list_remove(&part->node);
    list_append(&op->parts, &part->node);
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
    if (op->todo & OP_TODO_NOTICE && op->next == op->length)
        return notify_post(w, op);
    uint64_t length = at_most(op->length - op->next, op->route->link->max_message);
    int rc = post_new(w, op, op->next, length);
    if (rc == 0)
        op->next += length;
    return rc;
}

static unsigned submit_route(struct worker *w, struct op_route *route) {
    unsigned posts = 0;
    seat_wake(route->seat, w->now_ns);
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
        else if (op->inflight == 0) /* a notice was left, and that was all */
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
