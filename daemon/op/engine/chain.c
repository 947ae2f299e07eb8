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
 * done. One that follows a broken link is canceled whole.
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

void chain_follow(struct op_ring *r, struct rdmad_sqe *sqe) {
    if (sqe->opcode == RDMAD_OP_NOP)
        r->linked = false;
    if (!is_link(sqe->opcode))
        return;
    if (r->linked && !r->batch)
        sqe->flags |= RDMAD_SQE_FENCE;
    r->linked = sqe->flags & RDMAD_SQE_LINK;
}

/* It was canceled for what came before it, and takes along its batch and what is linked to it. */
static bool passes_on(uint8_t flags) {
    return flags & (RDMAD_SQE_LINK | RDMAD_SQE_MORE);
}

int chain_admit(struct op_ring *r, uint64_t order, uint8_t flags) {
    if (!order || r->broken != order)
        return 0;
    r->broken = passes_on(flags) ? order + 1 : 0;
    return RDMAD_E_CANCELED;
}

/* What follows order does not start. It will be the next that is taken, or it waits behind a fence;
 * then it is the first there, for order has started, and so has all before it. If order never
 * started, it is another that is the first: what follows was told when order was refused, or was
 * canceled behind the fence. So nothing is searched, however many wait. */
static void break_after(struct op_ring *r, uint64_t order) {
    struct list *first = list_first(&r->behind);
    struct op *op = first ? list_entry(first, struct op, node) : NULL;
    if (order == r->taken) {
        r->broken = order + 1;
    } else if (op && op->order == order + 1) {
        assert(op->fence == OP_BEHIND || op->fence == OP_UNLINKED);
        op->fence = OP_UNLINKED;
    }
}

int chain_start(struct op_ring *r, uint64_t order, uint8_t flags, bool unlinked) {
    if (!unlinked)
        return 0;
    if (passes_on(flags))
        break_after(r, order);
    return RDMAD_E_CANCELED;
}

/* The follower, if it waits behind the fence, too, is the next in the list. */
void chain_canceled(struct op *op) {
    struct op_ring *r = op->ring;
    const struct list *next = op->node.next;
    if (!(op->flags & RDMAD_SQE_LINK) || !op->order)
        return;
    op->flags &= (uint8_t)~RDMAD_SQE_LINK; /* chain_ended has nothing to do */
    if (next != &r->behind) {
        struct op *follower = list_entry((struct list *)next, struct op, node);
        if (follower->order == op->order + 1)
            follower->fence = OP_UNLINKED;
    } else if (op->order == r->taken) {
        r->broken = op->order + 1;
    }
}

void chain_ended(struct op_ring *r, uint64_t order, uint8_t flags, uint8_t outcome) {
    if (order && flags & RDMAD_SQE_LINK && outcome != RDMAD_DONE)
        break_after(r, order);
}
