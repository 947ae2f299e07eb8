/* SPDX-License-Identifier: MIT */
/*
 * fence_release.c - what waited behind a fence starts.
 *
 * Thousands of ops of a ring may wait behind one fence, and rings of many sessions for one op. Each
 * turn starts about as many of them as it takes sqes (admit.c), and the others are before what
 * comes to their ring meanwhile.
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

static const struct per_turn_most most_releases = {.session = 64, .all = 256, .last = 8};

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

/* What it needs ends just now, and ends.c has not come to it yet. */
static int is_ending(const struct op *op) {
    if (op->pool && op->pool->ending)
        return RDMAD_E_CANCELED;
    return op->lease ? op->lease->reason : 0;
}

static void fence_release(struct worker *w, struct op *op) {
    assert(op->fence == OP_BEHIND || op->fence == OP_UNLINKED);
    int broken = chain_start(op);
    list_remove(&op->node);
    if (!broken)
        broken = is_ending(op);
    if (broken) { /* nothing of it began, not even what its kind would cancel; it ends as what it
                     was, by which life.c knows whether it is the next daemon's */
        op->stopped = true;
        op->status = broken;
        op_finish(w, op);
        return;
    }
    op->fence = OP_UNFENCED;
    if (op->batch)
        op->batch->waits = false;
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

/* False: the next turn goes on. */
static bool fences_run_ring(struct worker *w, struct op_ring *r) {
    for (struct list *pos; !r->ending && (pos = list_first(&r->behind));) {
        struct op *op = list_entry(pos, struct op, node);
        if (is_fenced(op->flags, op->batch) && r->moving)
            return true;
        if (!per_turn_take(&r->session->releases, &w->releases, w->turns, &most_releases))
            return false;
        fence_release(w, op);
    }
    return true;
}

void fences_run(struct worker *w) {
    struct list later;
    list_init(&later);
    for (struct list *pos; (pos = list_pop(&w->fences));) {
        if (fences_run_ring(w, list_entry(pos, struct op_ring, fence_node)))
            continue;
        list_remove(pos); /* an op that ended at once may have put it there again */
        list_append(&later, pos);
    }
    w->gated |= !list_empty(&later);
    list_splice(&w->fences, &later);
}
