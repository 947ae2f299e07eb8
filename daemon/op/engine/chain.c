/* SPDX-License-Identifier: MIT */
/*
 * chain.c - an ordered stream of ops that stops at its first failure.
 *
 * An entry with RDMAD_SQE_LINK makes the next transfer of its ring wait for its end, as if that had
 * RDMAD_SQE_FENCE, and start only if it was done. If it was not, that next one ends CANCELED,
 * untouched, and so does what that one is linked to. A NOP ends a chain: a client that has seen its
 * chain break goes on after one. RECV, NOTIFIED and CANCEL come between links as if they were not
 * there.
 *
 * A batch is one link: its last entry has the flag, and the chain breaks if any member was not
 * done. One that follows a broken link is canceled whole, and none of its members starts before
 * that link has ended, whichever of them were refused or have ended meanwhile.
 *
 * A ring's transfers are numbered in the order they are taken, so the number of the follower is one
 * more. One that is not done tells its follower: if that waits behind a fence by OP_UNLINKED, which
 * is looked at when it starts; if it is not taken yet by its number in broken, which is looked at
 * when it is. It is canceled then, though it might wait: broken has room for one, and another link
 * may break before it starts.
 */
#include "daemon/op/engine/chain.h"
#include "daemon/base/probe.h"
#include <assert.h>

/* An entry that makes no sense counts: the next one was meant to come after it. */
static bool is_link(uint8_t opcode) {
    return opcode >= RDMAD_OP_COUNT || op_is_own_time(opcode);
}

uint64_t chain_take(struct op_ring *r, const struct rdmad_sqe *sqe) {
    bool counts = is_link(sqe->opcode) || sqe->opcode == RDMAD_OP_NOP;
    uint64_t order = counts ? ++r->taken : 0;
    probe_op_taken(r->session_id, r->handle, order, sqe->user_data, sqe->opcode, sqe->length);
    return order;
}

void chain_follow(struct op_ring *r, struct rdmad_sqe *sqe, struct op_request *rq) {
    if (sqe->opcode == RDMAD_OP_NOP)
        r->linked = false;
    if (!is_link(sqe->opcode))
        return;
    if (r->linked && !rq->batch) {
        sqe->flags |= RDMAD_SQE_FENCE;
        rq->follows = true;
    } else if (r->linked && !rq->batch->follows) {
        rq->batch->follows = rq->order;
        rq->batch->waits = true;
    }
    r->linked = sqe->flags & RDMAD_SQE_LINK;
}

int chain_admit(struct op_ring *r, const struct op_request *rq) {
    bool broken = rq->order && r->broken == rq->order;
    if (broken && rq->batch)
        rq->batch->unlinked = true;
    return broken || (rq->batch && rq->batch->unlinked) ? RDMAD_E_CANCELED : 0;
}

int chain_start(const struct op *op) {
    bool unlinked = op->fence == OP_UNLINKED || (op->batch && op->batch->unlinked);
    return unlinked ? RDMAD_E_CANCELED : 0;
}

/* What follows order does not start. It will be the next that is taken, or is next, the first
 * behind the fence that comes after order. Or it is a batch, next's or the one that is not whole
 * yet, of which some may be over. */
static void break_next(struct op_ring *r, uint64_t order, struct list *next) {
    struct op *op = next && next != &r->behind ? list_entry(next, struct op, node) : NULL;
    struct op_batch *b = op && op->batch ? op->batch : r->batch;
    if (order == r->taken) {
        r->broken = order + 1;
    } else if (b && b->follows == order + 1) {
        b->unlinked = true;
    } else if (op && op->order == order + 1) {
        assert(op->fence == OP_BEHIND || op->fence == OP_UNLINKED);
        op->fence = OP_UNLINKED;
    }
}

/* Order has started, and so has all before it: what follows is the first that waits. If order never
 * started, it is another that is the first: what follows was told when order was refused, or was
 * canceled behind the fence. So nothing is searched, however many wait. */
static void break_after(struct op_ring *r, uint64_t order) {
    break_next(r, order, list_first(&r->behind));
}

/* The follower, if it waits behind the fence, too, is the next in the list. */
void chain_canceled(struct op *op) {
    if (op->order && op->flags & RDMAD_SQE_LINK)
        break_next(op->ring, op->order, op->node.next);
}

void chain_ended(struct op_ring *r, uint64_t order, uint8_t flags, uint8_t outcome) {
    if (order && flags & RDMAD_SQE_LINK && outcome != RDMAD_DONE)
        break_after(r, order);
}
