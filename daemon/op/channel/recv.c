/* SPDX-License-Identifier: MIT */
/*
 * recv.c - the RECVs of a channel: posted, and ended.
 */
#include "daemon/op/channel/recv.h"
#include "daemon/op/channel/core.h"
#include "daemon/op/engine/life.h"
#include <assert.h>

static void recv_count_posted(struct op_channel *ch, int by) {
    ch->in.posted = (uint32_t)((int)ch->in.posted + by);
    __atomic_store_n(&ch->stats->receives_posted, ch->in.posted, __ATOMIC_RELAXED);
}

int recv_take(struct op_channel *ch, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq) {
    struct op *op = op_new(ch->worker, r, sqe, rq);
    op->channel = ch;
    op->channel_data = NULL;
    ch->ops++;
    list_append(&ch->in.recvs, &op->node);
    recv_count_posted(ch, 1);
    channel_touch(ch);
    return 0;
}

/* Back to where it will be the next to be taken. Some bytes of a message may be in it. */
void recv_repost(struct op_channel *ch, struct op *op) {
    assert(op->channel == ch && list_empty(&op->node));
    op->channel_data = NULL;
    op->some_partial = true;
    list_append(ch->in.recvs.next, &op->node);
    recv_count_posted(ch, 1);
}

void recv_drop_pieces(struct op_channel *ch) {
    ch->pieces.op = NULL;
    counter_add(&ch->stats->lost, 1);
}

void recv_unpost(struct op_channel *ch, struct op *op) {
    if (op == ch->pieces.op)
        recv_drop_pieces(ch);
    assert(ch->in.posted > 0 && !list_empty(&op->node));
    list_remove(&op->node);
    recv_count_posted(ch, -1);
}

static uint8_t when_empty(const struct op *op) {
    return op->some_partial ? RDMAD_FAILED_PARTIAL : RDMAD_FAILED_UNTOUCHED;
}

void recv_end(struct op_channel *ch, struct op *op, int status, uint8_t outcome) {
    channel_op_end(ch, op, &(struct op_result){.status = status, .outcome = outcome});
}

void recv_drop(struct op_channel *ch, struct op *op, int status) {
    recv_unpost(ch, op);
    recv_end(ch, op, status, when_empty(op));
}

void recv_done(struct op_channel *ch, struct op *op, const struct op_arrival *a) {
    struct op_result result = {.status = a->small ? RDMAD_E_TOO_SMALL : RDMAD_OK,
                               .outcome = a->small ? when_empty(op) : RDMAD_DONE,
                               .bytes = a->length};
    if (a->flags & CHANNEL_FLAG_IMM) {
        result.flags |= RDMAD_CQE_IMM;
        result.info = a->imm;
    }
    if (a->flags & CHANNEL_FLAG_LEASE)
        result.flags |= RDMAD_CQE_LEASE;
    if (!a->small) {
        counter_add(&ch->stats->messages_received, 1);
        counter_add(&ch->stats->bytes_received, a->length);
    }
    channel_op_end(ch, op, &result);
}
