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
 * A SEND that waits is made anew when it starts, because only then it gets its place among the
 * channel's messages; if the channel has ended meanwhile it is refused.
 *
 * What follows a link of a chain is fenced, too (chain.c); of a batch all members are until one has
 * started.
 *
 * Waiting ops are started in the next turn, not where another op's end is being dealt with.
 */
#include "daemon/op/engine/fence.h"
#include "daemon/op/engine/kind.h"
#include "daemon/op/engine/life.h"
#include <assert.h>

bool fence_stops(const struct op_ring *r, const struct rdmad_sqe *sqe,
                 const struct op_batch *batch) {
    if (!op_is_own_time(sqe->opcode))
        return false;
    return !list_empty(&r->behind) || (is_fenced(sqe->flags, batch) && r->moving);
}

void fence_hold(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                const struct op_request *rq) {
    struct op *op = op_new(w, r, sqe, rq);
    if (op->kind && op->kind->admitted_late)
        op->lease_offset = sqe->lease; /* until then */
    assert(op->fence == OP_MOVING);
    r->moving--;
    op->fence = OP_BEHIND;
    list_append(&r->behind, &op->node);
}
