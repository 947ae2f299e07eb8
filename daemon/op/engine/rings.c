/* SPDX-License-Identifier: MIT */
/*
 * rings.c - a ring is in one of three lists.
 *
 * Hot: looked at every turn. Parked: its wait word is set, so its client rings the doorbell when it
 * publishes; a thousand idle rings cost a sleeping worker nothing, and a busy one looks at a few of
 * them a turn instead of asking the kernel. Throttled: its session has as many ops in flight as it
 * may, and its sqes stay where they are until one of those ends; only a CANCEL that is the next is
 * taken.
 */
#include "daemon/op/engine/rings.h"
#include <assert.h>

void rings_flush(struct worker *w) {
    for (struct list *pos; (pos = list_pop(&w->dirty));) {
        struct ring *ring = list_entry(pos, struct op_ring, dirty_node)->ring;
        ring_tell_crowded(ring, w->spin.crowd.crowded);
        if (ring_flush(ring))
            counter_add(&w->counters.wakeups_sent, 1);
    }
}

void rings_wake(struct worker *w, struct op_ring *r) {
    if (!r->parked || r->session->shut)
        return;
    r->parked = false;
    r->active_ns = w->now_ns;
    ring_disarm(r->ring);
    list_remove(&r->node);
    list_append(&w->hot, &r->node);
}

bool rings_park(struct worker *w, struct op_ring *r) {
    assert(!r->parked && !r->session->shut);
    if (!ring_arm(r->ring)) {
        ring_disarm(r->ring);
        return false;
    }
    r->parked = true;
    list_remove(&r->node);
    list_append(&w->parked, &r->node);
    return true;
}

void rings_throttle(struct op_ring *r) {
    assert(r->session->charged >= r->session->ops_may);
    list_remove(&r->node);
    list_append(&r->session->throttled, &r->node);
}

void rings_unthrottle(struct worker *w, struct op_session *s) {
    if (!list_empty(&s->throttled) && !s->shut)
        list_splice(&w->hot, &s->throttled);
}

void ring_tell(struct worker *w, struct op_ring *r, uint64_t user_data, uint8_t opcode,
               const struct op_result *result) {
    struct rdmad_cqe cqe = {
        .user_data = user_data,
        .bytes = result->bytes,
        .status = result->status,
        .outcome = result->outcome,
        .opcode = opcode,
        .flags = result->flags,
        .lease_id = result->info,
    };
    ring_complete(r->ring, &cqe);
    rings_dirty(w, r);
    r->active_ns = w->now_ns; /* its client has reason to come again */
}

/* This makes room in the cq without the client, so a ring that sleeps while sqes wait for room must
 * wake. */
void ring_tell_nothing(struct worker *w, struct op_ring *r) {
    ring_release(r->ring);
    rings_wake(w, r);
}
