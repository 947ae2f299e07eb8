/* SPDX-License-Identifier: MIT */
/*
 * batch.c - several sqes, one cqe.
 *
 * An entry with RDMAD_SQE_MORE opens its ring's batch or goes on with it; the next one without it
 * is the last. Each member is an op of its own, which starts when it is taken (with FENCE: when the
 * members before it have ended) and ends in its own time. When all have ended, and the last was
 * among them, the batch has its one cqe:
 *
 *   user_data, opcode   of the last entry
 *   status, lease_id    of the first member, in the ring's order, that was not done
 *   bytes               the sum of all members
 *   outcome             DONE when all are; else UNKNOWN when none failed; else PARTIAL when any
 *                       member changed or may have changed a byte; else UNTOUCHED
 *
 * RDMAD_SQE_SILENT and RDMAD_SQE_LINK are the last entry's to have, and mean the batch's end.
 *
 * A member that is refused makes the batch's status like one that failed, and the others run all
 * the same. That holds for whatever has MORE or comes last, also for an opcode that no batch may
 * have (INVAL) and for what comes after RDMAD_BATCH_MAX entries (LIMIT): so the end of a batch is
 * always where the client put it.
 *
 * Each member gives its reserved cqe back when it ends, all but the one that ends last, which
 * becomes the batch's. A batch whose last entry has not come has none, and goes with its ring.
 */
#include "daemon/op/engine/batch.h"
#include "daemon/op/engine/chain.h"
#include "daemon/op/engine/rings.h"
#include <assert.h>

static bool batch_may_join(const struct rdmad_sqe *sqe) {
    return sqe->opcode == RDMAD_OP_READ || sqe->opcode == RDMAD_OP_WRITE ||
           sqe->opcode == RDMAD_OP_NOTIFY || sqe->opcode == RDMAD_OP_SEND;
}

int batch_join(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
               struct op_request *rq) {
    struct op_batch *b = r->batch;
    if (!b) {
        b = slab_get(&w->batches);
        *b = (struct op_batch){.ring = r};
        list_init(&b->members);
        r->batch = b;
    }
    rq->batch = b;
    b->left++;
    if (!(sqe->flags & RDMAD_SQE_MORE)) {
        b->closed = true;
        b->silent = sqe->flags & RDMAD_SQE_SILENT;
        b->tag.user_data = sqe->user_data;
        b->linked = sqe->flags & RDMAD_SQE_LINK;
        b->last = rq->order;
        b->opcode = sqe->opcode;
        r->batch = NULL;
        if (r->tagged)
            batch_tag(b);
    }
    if (!batch_may_join(sqe))
        return RDMAD_E_INVAL;
    if (b->taken == RDMAD_BATCH_MAX)
        return RDMAD_E_LIMIT;
    b->taken++;
    return 0;
}

static void batch_fold(struct op_batch *b, uint64_t order, const struct op_result *result) {
    b->bytes += result->bytes;
    switch (result->outcome) {
    case RDMAD_DONE:
        b->some_done = true;
        return;
    case RDMAD_UNKNOWN:
        b->some_unknown = true;
        break;
    case RDMAD_FAILED_PARTIAL:
        b->some_partial = true;
        b->some_failed = true;
        break;
    default:
        b->some_failed = true;
    }
    if (b->failed && b->order < order)
        return;
    b->failed = true;
    b->order = order;
    b->status = result->status;
    b->info = result->info;
}

static uint8_t batch_outcome(const struct op_batch *b) {
    if (!b->failed)
        return RDMAD_DONE;
    if (!b->some_failed)
        return RDMAD_UNKNOWN;
    return b->some_done || b->some_partial || b->some_unknown ? RDMAD_FAILED_PARTIAL
                                                              : RDMAD_FAILED_UNTOUCHED;
}

void batch_ended(struct worker *w, struct op_batch *b, uint64_t order,
                 const struct op_result *result) {
    assert(b->left > 0);
    batch_fold(b, order, result);
    b->left--;
    if (!b->closed || b->left) {
        ring_tell_nothing(w, b->ring);
        return;
    }
    if (b->tagged)
        tags_remove(&b->ring->batch_tags, &b->tag);
    struct op_result whole = {
        .status = b->status, .outcome = batch_outcome(b), .bytes = b->bytes, .info = b->info};
    chain_ended(b->ring, b->last, b->linked ? RDMAD_SQE_LINK : 0, whole.outcome);
    if (b->silent && !b->failed)
        ring_tell_nothing(w, b->ring);
    else
        ring_tell(w, b->ring, b->tag.user_data, b->opcode, &whole);
    slab_put(&w->batches, b);
}

void batch_tag(struct op_batch *b) {
    if (!b->closed || b->tagged)
        return;
    b->tagged = true;
    tags_add(&b->ring->batch_tags, &b->tag);
}

void batch_add(struct op_batch *b, struct op *op) {
    assert(op->batch == b && op->ring == b->ring);
    list_append(&b->members, &op->batch_node);
}

void batch_drop(struct worker *w, struct op_ring *r) {
    if (r->batch)
        slab_put(&w->batches, r->batch);
    r->batch = NULL;
}
