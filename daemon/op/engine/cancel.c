/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - a client ends some of its ops by their name.
 *
 * CANCEL names ops of its own ring by their user_data: all that have it. The user_data of a batch's
 * last entry, once that was taken, names all members of the batch; a member's own names it alone.
 * CANCEL is done (status 0) when there was at least one, else its status is HANDLE; what became of
 * an op is told by the op's own cqe, which may come before CANCEL's or after it. An op that was
 * done before the cancellation reached it ends as done.
 *
 * What the control thread ends is ends.c's.
 */
#include "daemon/op/engine/cancel.h"
#include "daemon/op/engine/batch.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/names.h"

/* The end of one may end others, and with the last b is freed. */
static uint32_t cancel_members(struct worker *w, struct op_batch *b) {
    struct list left;
    uint32_t count = 0;
    list_init(&left);
    list_splice(&left, &b->members);
    for (struct list *pos; (pos = list_pop(&left)); count++) {
        list_append(&b->members, pos);
        op_cancel(w, list_entry(pos, struct op, batch_node), RDMAD_E_CANCELED);
    }
    return count;
}

static uint32_t cancel_batches(struct op_ring *r, uint64_t user_data, uint32_t *looks) {
    struct list left;
    uint32_t count = 0;
    list_init(&left);
    list_splice(&left, tags_chain(&r->batch_tags, user_data));
    for (struct list *pos; (pos = list_pop(&left));) {
        struct tag *name = list_entry(pos, struct tag, node);
        list_append(tags_chain(&r->batch_tags, name->user_data), pos);
        ++*looks;
        if (name->user_data == user_data)
            count += cancel_members(r->session->worker, container_of(name, struct op_batch, tag));
    }
    return count;
}

/* Ops are taken out of the table while they are looked at: it may be resized meanwhile. */
static uint32_t cancel_named(struct op_ring *r, uint64_t user_data, uint32_t *looks) {
    struct list left;
    uint32_t count = 0;
    list_init(&left);
    list_splice(&left, tags_chain(&r->tags, user_data));
    for (struct list *pos; (pos = list_pop(&left));) {
        struct tag *name = list_entry(pos, struct tag, node);
        list_append(tags_chain(&r->tags, name->user_data), pos);
        ++*looks;
        if (name->user_data != user_data)
            continue;
        count++;
        op_cancel(r->session->worker, container_of(name, struct op, tag), RDMAD_E_CANCELED);
    }
    return count;
}

int ops_cancel_named(struct op_ring *r, uint64_t user_data, uint32_t *cost) {
    uint32_t looks = 0, count = 0;
    if (r->inflight && !r->tagged) {
        ring_name_all(r);
        looks = r->inflight;
    }
    if (r->tagged) {
        count = cancel_batches(r, user_data, &looks);
        count += cancel_named(r, user_data, &looks);
    }
    *cost = 1 + count + looks / LOOKS_PER_SQE;
    return count ? 0 : RDMAD_E_HANDLE;
}
