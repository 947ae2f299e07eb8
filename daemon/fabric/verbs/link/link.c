/* SPDX-License-Identifier: MIT */
/*
 * link.c - how an op comes to a link and how it goes.
 *
 * An op that is taken is batched on a lane, or doomed at once. What cannot be posted is doomed: it
 * was taken, so poll gives it back, and the link goes on.
 */
#include "daemon/fabric/verbs/link/link.h"
#include <assert.h>

void link_changed(struct verbs_link *l) {
    list_remove(&l->changed);
    list_append(&l->verbs->changed, &l->changed);
}

bool link_wants_page(const struct verbs_link *l) {
    for (unsigned i = 0; i < WEAK_KINDS; i++) {
        if (l->weak[i].state == WEAK_READING)
            return true;
    }
    return !list_empty(&l->outbox.asking);
}

/* ---- an op comes --------------------------------------------------------------------------- */

void link_take(struct verbs_lane *lane, struct fabric_op *op) {
    struct verbs_link *l = lane->link;
    assert(link_lives(l) && lane >= l->lane && lane < l->lane + LANES_ALL);
    op->link = &l->base;
    op->fault = NULL;
    list_init(&op->node);
    *op_mark(op) =
        (struct op_mark){.lane = (uint8_t)(lane - l->lane), .state = OP_BATCHED, .slot = NO_SLOT};
    l->ops++;
}

void link_batch(struct verbs_lane *lane, struct fabric_op *op) {
    assert(op_mark(op)->state == OP_BATCHED && list_empty(&op->node));
    list_append(&lane->batch, &op->node);
    if (lane->batched++ == 0)
        lane_wake(lane);
}

void link_unbatch(struct verbs_lane *lane, struct fabric_op *op) {
    assert(lane->batched > 0);
    list_remove(&op->node);
    if (--lane->batched == 0)
        list_remove(&lane->sending);
}

void lane_wake(struct verbs_lane *lane) {
    struct verbs_link *l = lane->link;
    bool busy = lane->batched > 0 || (lane == l->lane && link_wants_page(l));
    if (link_lives(l) && busy && lane->queue.connected && list_empty(&lane->sending))
        list_append(&l->verbs->sending, &lane->sending);
}

/* ---- and goes ------------------------------------------------------------------------------ */

static void doom_batched(struct verbs_lane *lane, struct fabric_op *op, int status) {
    link_unbatch(lane, op);
    link_doom(lane->link, op, status);
}

static void doom_batch(struct verbs_lane *lane, int status) {
    struct list *node;
    while ((node = list_first(&lane->batch)))
        doom_batched(lane, list_entry(node, struct fabric_op, node), status);
}

void link_doom_batches(struct verbs_link *l) {
    for (unsigned i = 0; i < LANES_ALL; i++) {
        doom_batch(&l->lane[i], RDMAD_E_PEER_LOST);
        list_remove(&l->lane[i].sending); /* it may be there to read the page, with no batch */
    }
}

/* A request for a receiver of weak messages came back. */
static void request_ended(struct verbs_link *l, enum weak_kind kind, uint8_t outcome) {
    struct weak_sender *s = &l->weak[kind];
    if (s->state != WEAK_REQUESTING)
        return;
    s->state = WEAK_READING;
    if (outcome != RDMAD_DONE && link_lives(l))
        link_refuse_weak(l, kind);
    else if (outcome != RDMAD_DONE)
        s->state = WEAK_NONE;
    l->outbox.read_at_ns = 0;
    lane_wake(&l->lane[0]);
}

void link_release_slot(struct verbs_link *l, struct fabric_op *op) {
    struct op_mark *mark = op_mark(op);
    if (mark->slot == NO_SLOT)
        return;
    assert(l->outbox.free < OUTBOX_SLOTS);
    l->outbox.slot[l->outbox.free++] = mark->slot;
    mark->slot = NO_SLOT;
}

void link_complete(struct verbs_link *l, struct fabric_op *op, int status, uint8_t outcome) {
    struct verbs *v = l->verbs;
    assert(l->ops > 0);
    op->status = status;
    op->outcome =
        outcome == RDMAD_FAILED_UNTOUCHED && op_mark(op)->seals ? RDMAD_FAILED_PARTIAL : outcome;
    link_release_slot(l, op);
    v->progress++;
    if (--l->ops == 0 && l->state == LINK_FAILING)
        link_changed(l);
    if (op == &l->weak[WEAK_DATAGRAM].request)
        request_ended(l, WEAK_DATAGRAM, outcome);
    else if (op == &l->weak[WEAK_UNACKED].request)
        request_ended(l, WEAK_UNACKED, outcome);
    else
        v->env->complete(v->env->user, op);
}

void link_doom(struct verbs_link *l, struct fabric_op *op, int status) {
    op_mark(op)->state = OP_DOOMED;
    op->status = status;
    op->outcome = RDMAD_FAILED_UNTOUCHED;
    list_append(&l->doomed, &op->node);
    link_changed(l);
}

void link_complete_doomed_op(struct verbs_link *l, struct fabric_op *op) {
    struct verbs *v = l->verbs;
    const void *fault = op->fault;
    list_remove(&op->node);
    link_complete(l, op, op->status, op->outcome);
    if (fault)
        v->env->memory_fault(v->env->user, fault);
}

void link_complete_doomed(struct verbs_link *l) {
    struct list *node;
    while ((node = list_first(&l->doomed)))
        link_complete_doomed_op(l, list_entry(node, struct fabric_op, node));
}

/* ---- weak messages ------------------------------------------------------------------------- */

bool link_is_request(const struct verbs_link *l, const struct fabric_op *op) {
    return op == &l->weak[WEAK_DATAGRAM].request || op == &l->weak[WEAK_UNACKED].request;
}

void link_refuse_weak(struct verbs_link *l, enum weak_kind kind) {
    l->weak[kind].state = WEAK_NONE;
    doom_batch(link_weak_lane(l, kind), RDMAD_E_UNSUPPORTED);
}
