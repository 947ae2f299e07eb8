/* SPDX-License-Identifier: MIT */
/*
 * fence_release.c - what waited behind a fence starts.
 */
#include "daemon/op/engine/admit.h"
#include "daemon/op/engine/chain.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/fence.h"
#include "daemon/op/engine/kind.h"
#include "daemon/op/engine/life.h"
#include "daemon/op/engine/rings.h"
#include "daemon/op/engine/submit.h"
#include <assert.h>

static void admit_late(struct worker *w, struct op *op) {
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
                            .since_ns = op->since_ns,
                            .order = op->order,
                            .batch = op->batch};
    r->inflight++; /* it is one op still: the ring's table of names stays */
    op_vanish(w, op);
    sqe_start(w, r, &sqe, &rq);
    r->inflight--;
    rings_dirty(w, r);
}

static void fence_release(struct worker *w, struct op *op) {
    assert(op->fence == OP_BEHIND || op->fence == OP_UNLINKED);
    bool unlinked = op->fence == OP_UNLINKED;
    list_remove(&op->node);
    op->fence = OP_UNFENCED;
    int broken = chain_start(op->ring, op->order, op->flags, unlinked);
    if (broken) { /* nothing of it began, not even what its kind would cancel */
        op->stopped = true;
        op->status = broken;
        op_finish(w, op);
        return;
    }
    if (op->kind && op->kind->admitted_late) {
        admit_late(w, op);
        return;
    }
    op->fence = OP_MOVING;
    op->ring->moving++;
    op->route = op->lease->route;
    if (op->route)
        op_begin(w, op);
    else
        op_cancel(w, op, RDMAD_E_PEER_LOST);
}

static void fences_run_ring(struct worker *w, struct op_ring *r) {
    for (struct list *pos; !r->ending && (pos = list_first(&r->behind));) {
        struct op *op = list_entry(pos, struct op, node);
        if (op->flags & RDMAD_SQE_FENCE && r->moving)
            return;
        fence_release(w, op);
    }
}

void fences_run(struct worker *w) {
    for (struct list *pos; (pos = list_pop(&w->fences));)
        fences_run_ring(w, list_entry(pos, struct op_ring, fence_node));
}
