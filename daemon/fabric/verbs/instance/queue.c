/* SPDX-License-Identifier: MIT */
/*
 * queue.c - the places of a QP's work requests.
 */
#include "daemon/fabric/verbs/instance/queue.h"
#include <assert.h>

void queue_take(struct queue *q, struct ibv_send_wr *wr, void *user) {
    assert(queue_room(q) > 0);
    struct wr_slot *slot = &q->ring->slot[q->tail % q->depth];
    slot->user = user;
    slot->sequence = q->tail++;
    wr->wr_id = (uintptr_t)slot;
}

void queue_untake(struct queue *q, unsigned n) {
    assert(q->tail - q->head >= n);
    q->tail -= n;
}

int queue_receive(struct queue *q, uint32_t n, struct ibv_sge *sge) {
    assert(n < q->receives);
    struct ibv_recv_wr *bad;
    struct ibv_recv_wr wr = {
        .wr_id = (uintptr_t)&q->ring->slot[q->depth + n], .sg_list = sge, .num_sge = 1};
    return ibv_post_recv(q->qp, &wr, &bad);
}

void queue_completed(struct queue *q, const struct ibv_wc *wc) {
    const struct wr_slot *named = (const struct wr_slot *)(uintptr_t)wc->wr_id;
    if (named >= &q->ring->slot[q->depth]) {
        q->received(q, (uint32_t)(named - &q->ring->slot[q->depth]), wc);
        return;
    }
    uint64_t last = named->sequence;
    const struct ibv_wc well = {.status = IBV_WC_SUCCESS};
    while (q->ring && q->head <= last && q->head != q->tail) {
        struct wr_slot *slot = &q->ring->slot[q->head % q->depth];
        bool is_last = q->head++ == last;
        q->ended(q, slot, is_last ? wc : &well);
    }
}
