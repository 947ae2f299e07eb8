/* SPDX-License-Identifier: MIT */
/*
 * fence.c - ops that start only when what came before them has ended.
 *
 * A fence waits for the ops that its ring was given before it and that end by themselves: READ,
 * WRITE, CAS, FADD, NOTIFY and SEND. It does not wait for RECV and NOTIFIED, which wait for
 * somebody else, and may for ever.
 *
 * While an op with a fence waits, so does every later one of these kinds on its ring: they start in
 * the order they came. NOP, RECV, NOTIFIED and CANCEL pass. What waits is an op like any other: it
 * counts, it holds its pool and lease, its deadline runs, and it can be canceled.
 *
 * A SEND that waits is made anew when it starts, because its place among the channel's messages is
 * the one that it has then; if the channel has ended meanwhile it is refused then.
 *
 * What follows a link of a chain is fenced, too (chain.c).
 *
 * Waiting ops are started in the next turn, not where another op's end is being dealt with.
 */
#include "daemon/op/engine/worker.h"

bool fence_stops(const struct op_ring *r, const struct rdmad_sqe *sqe) {
    if (!op_is_own_time(sqe->opcode))
        return false;
    return !list_empty(&r->behind) || (sqe->flags & RDMAD_SQE_FENCE && r->moving);
}

void fence_hold(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                const struct op_request *rq) {
    struct op *op = op_new(w, r, sqe, rq);
    if (op->opcode == RDMAD_OP_SEND)
        op->lease_offset = sqe->lease; /* until send_anew */
    op->moving = false;
    r->moving--;
    op->behind = true;
    list_append(&r->behind, &op->node);
}

void fence_wake(struct worker *w, struct op_ring *r) {
    if (list_empty(&r->fence_node))
        list_append(&w->fences, &r->fence_node);
}

static void send_anew(struct worker *w, struct op *op) {
    struct op_ring *r = op->ring;
    struct rdmad_sqe sqe = {
        .opcode = op->opcode,
        .flags = op->flags,
        .imm = op->imm,
        .length = op->length,
        .lease = op->lease_offset,
        .user_data = op->tag.user_data,
    };
    struct op_request rq = {.pool = op->pool,
                            .local = op->local,
                            .deadline_ns = op->deadline_ns,
                            .order = op->order,
                            .batch = op->batch};
    r->inflight++; /* it is one op still: what is known of the ring's names stays */
    op_vanish(w, op);
    sqe_start(w, r, &sqe, &rq);
    r->inflight--;
    rings_dirty(w, r);
}

static void start(struct worker *w, struct op *op) {
    list_remove(&op->node);
    op->behind = false;
    int broken = chain_start(op->ring, op->order, op->flags, op->unlinked);
    if (broken) {
        op_cancel(w, op, broken);
        return;
    }
    if (op->opcode == RDMAD_OP_SEND) {
        send_anew(w, op);
        return;
    }
    op->moving = true;
    op->ring->moving++;
    op->route = op->lease->route;
    if (op->route && op->opcode == RDMAD_OP_NOTIFY)
        notify_start(w, op);
    else if (op->route)
        op_queue(w, op);
    else
        op_cancel(w, op, RDMAD_E_PEER_LOST);
}

static void run(struct worker *w, struct op_ring *r) {
    for (struct list *pos; !r->ending && (pos = list_first(&r->behind));) {
        struct op *op = list_entry(pos, struct op, node);
        if (op->flags & RDMAD_SQE_FENCE && r->moving)
            return;
        start(w, op);
    }
}

void fences_run(struct worker *w) {
    for (struct list *pos; (pos = list_pop(&w->fences));)
        run(w, list_entry(pos, struct op_ring, fence_node));
}
