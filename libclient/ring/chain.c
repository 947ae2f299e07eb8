/* SPDX-License-Identifier: MIT */
/*
 * chain.c - a chain (RDMAD_SQE_LINK) that breaks with its daemon stays broken at the next.
 *
 * When a ring is made anew, all that an earlier daemon has taken has ended. Of the transfers with
 * LINK among them the last is what the first at the next daemon is linked to, and by the orders of
 * the last that was done and of the last that was not one sees what became of it.
 */
#include "libclient/ring/chain.h"
#include "libclient/ring/slots.h"

/* As the daemon has it: an entry that makes no sense counts. */
static bool opcode_is_link(uint8_t opcode) {
    return opcode != RDMAD_OP_NOP && opcode != RDMAD_OP_RECV && opcode != RDMAD_OP_NOTIFIED &&
           opcode != RDMAD_OP_CANCEL;
}

static bool chain_is_broken(const struct rdmad_ring *r) {
    return r->chain.broke > r->chain.done;
}

static void chain_cut(struct rdmad_sqe *sqe, struct rdmad_slot *slot) {
    slot->cut = true;
    sqe->opcode = UINT8_MAX;
}

void rdmad_chain_commit(struct rdmad_ring *r, struct rdmad_sqe *sqe, struct rdmad_slot *slot,
                        bool ahead) {
    bool first = r->chain.fresh && !ahead;
    slot->linked = slot->follows = slot->cut = false;
    if (sqe->opcode == RDMAD_OP_NOP)
        r->chain.linked = false;
    if (!ahead && (sqe->opcode == RDMAD_OP_NOP || opcode_is_link(sqe->opcode)))
        r->chain.fresh = false;
    if (!opcode_is_link(sqe->opcode))
        return;
    if (r->batch != RDMAD_NO_SLOT) {
        if (!ahead && r->slot[r->batch].cut)
            chain_cut(sqe, slot);
    } else {
        slot->follows = r->chain.linked;
        if (first && slot->follows && chain_is_broken(r))
            chain_cut(sqe, slot);
    }
    slot->linked = r->chain.linked = sqe->flags & RDMAD_SQE_LINK;
}

void rdmad_chain_ended(struct rdmad_ring *r, const struct rdmad_slot *slot, int status) {
    uint64_t *last = status ? &r->chain.broke : &r->chain.done;
    if (slot->linked && slot->order + 1 > *last)
        *last = slot->order + 1;
}

void rdmad_chain_revive(struct rdmad_ring *r, uint32_t first) {
    bool cutting = false;
    r->chain.fresh = true;
    for (uint32_t at = first; at != r->sq_tail; at++) {
        struct rdmad_sqe *sqe = &r->sqe[at & (r->entries - 1)];
        struct rdmad_slot *slot = rdmad_slot_at(r, at);
        if (slot->opcode != RDMAD_OP_NOP && !opcode_is_link(slot->opcode))
            continue;
        if (r->chain.fresh)
            cutting = slot->follows && chain_is_broken(r);
        r->chain.fresh = false;
        if (cutting)
            chain_cut(sqe, slot);
        if (!cutting || !slot->member)
            return;
    }
}

void rdmad_chain_explain(const struct rdmad_slot *slot, struct rdmad_cqe *cqe) {
    cqe->opcode = slot->opcode;
    cqe->status = RDMAD_E_CANCELED;
    cqe->outcome = RDMAD_FAILED_UNTOUCHED;
}
