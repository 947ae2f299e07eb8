/* SPDX-License-Identifier: MIT */
/*
 * life.c - an op is counted at all that it belongs to as long as it is there, and its end is told.
 */
#include "daemon/op/engine/life.h"
#include "daemon/base/probe.h"
#include "daemon/op/engine/account.h"
#include "daemon/op/engine/batch.h"
#include "daemon/op/engine/chain.h"
#include "daemon/op/engine/kind.h"
#include "daemon/op/engine/names.h"
#include "daemon/op/engine/part.h"
#include "daemon/op/engine/rings.h"
#include "daemon/op/engine/tally.h"
#include "daemon/op/engine/trace.h"
#include "daemon/op/engine/validate.h"
#include <assert.h>

static uint64_t limit_of(const struct worker *w, const struct op *op) {
    return op->lease ? op_lease_limit_ns(op->lease, w->settings) : CLOCK_NEVER;
}

/* What has no deadline is not in the wheel. */
void op_set_due(struct worker *w, struct op *op) {
    uint64_t limit = limit_of(w, op);
    uint64_t at_ns = op->deadline_ns < limit ? op->deadline_ns : limit;
    deadlines_remove(&op->due);
    if (at_ns != CLOCK_NEVER)
        deadlines_add(&w->deadlines, &op->due, at_ns);
}

/* ---- start ------------------------------------------------------------------------------- */

/* What its kind posts behind the bytes may be all that it has to post. */
static uint8_t todo_of(const struct op_kind *kind, const struct rdmad_sqe *sqe) {
    if (!kind || !kind->post_last)
        return OP_TODO_BEGIN;
    return sqe->length ? OP_TODO_BEGIN | OP_TODO_LAST : OP_TODO_LAST;
}

static struct op *op_make(struct worker *w, struct op_session *s, struct op_ring *r,
                          const struct rdmad_sqe *sqe, const struct op_request *rq) {
    struct op *op = slab_get(&w->ops);
    op_clear(op, offsetof(struct op, first));
    op->deadline_ns = rq->deadline_ns;
    op->since_ns = request_since(w, rq);
    op->session = s;
    op->ring = r;
    op->pool = rq->pool;
    op->lease = rq->lease;
    op->grant = rq->grant;
    op->batch = rq->batch;
    op->order = rq->order;
    op->local = rq->local;
    op->length = sqe->length;
    op->lease_offset = sqe->lease_offset;
    op->tag.user_data = sqe->user_data;
    op->compare = sqe->compare;
    op->swap = sqe->swap;
    op->imm = sqe->imm;
    op->flags = sqe->flags;
    op->opcode = sqe->opcode;
    op->kind = w->kinds[sqe->opcode];
    op->todo = todo_of(op->kind, sqe);
    list_init(&op->node);
    list_init(&op->parts);
    list_init(&op->again);
    list_init(&op->due.node);
    list_init(&op->holds_node);
    op_set_due(w, op);

    s->inflight++;
    if (op->pool) {
        op->memory = op->pool->memory;
        op->pool->inflight++;
    }
    if (op->lease) {
        op->route = op->lease->route;
        op->lease->inflight++;
        list_append(&op->lease->ops, &op->holds_node);
    }
    return op;
}

/* From op_new to uncount. NULL of a lane that was dropped meanwhile: its counters are gone, too. */
static uint64_t *lane_queue(const struct op *op) {
    struct op_lane *lane = op_lane_of(op);
    return lane ? &lane->stats.ops_inflight : NULL;
}

static void wait_home(struct op_ring *r, struct op *op) {
    r->session->waits++;
    r->nwaits++;
    list_append(&r->waits, &op->home_node);
    if (op->pool)
        list_append(&op->pool->waits, &op->holds_node);
}

struct op *op_new(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                  const struct op_request *rq) {
    struct op_session *s = r->session;
    struct op *op = op_make(w, s, r, sqe, rq);
    probe_op_admitted(op, r->session_id, r->handle, rq->order, sqe->opcode, sqe->lease);
    const uint8_t apart = RDMAD_SQE_SILENT | RDMAD_SQE_LINK;
    op->charged = op_is_own_time(sqe->opcode);
    op->fence = op->charged ? OP_MOVING : OP_UNFENCED;
    op->follows = rq->follows;
    op->told_apart = rq->batch || sqe->flags & apart || (op->kind && op->kind->release);
    s->charged += op->charged;
    r->moving += op->charged;
    r->inflight++;
    if (op->charged)
        list_append(&r->ops, &op->home_node);
    else
        wait_home(r, op);
    if (op->batch)
        batch_add(op->batch, op);
    if (r->tagged)
        op_name(r, op);
    counter_add(&s->stats.ops_inflight, op->charged);
    counter_add(&w->counters.ops_inflight, op->charged);
    if (lane_queue(op))
        counter_add(lane_queue(op), 1);
    if (trace_is_on(w) && !rq->since_ns) /* else it has begun as a note of its sqe */
        trace_began(w, op, sqe);
    return op;
}

struct op *op_new_own(struct worker *w, struct op_session *s, const struct rdmad_sqe *sqe,
                      const struct op_request *rq) {
    struct op *op = op_make(w, s, NULL, sqe, rq);
    probe_op_admitted(op, s->id, 0, 0, sqe->opcode, 0);
    list_append(&s->own, &op->home_node);
    return op;
}

/* ---- end --------------------------------------------------------------------------------- */

/* Counts use that the owner's daemon cannot see where its device does the work. */
static void op_count_use(const struct worker *w, struct fabric_audit *use, const struct op *op,
                         const struct op_result *result) {
    if (result->outcome == RDMAD_FAILED_UNTOUCHED)
        return;
    counter_add(&use->ops, 1);
    if (op->opcode == RDMAD_OP_READ)
        counter_add(&use->bytes_read, result->bytes);
    else if (op->opcode == RDMAD_OP_WRITE || op->opcode == RDMAD_OP_NOTIFY)
        counter_add(&use->bytes_written, result->bytes);
    __atomic_store_n(&use->last_use_ns, w->now_ns, __ATOMIC_RELAXED);
}

static void op_count_end(struct worker *w, const struct op *op, const struct op_result *result) {
    struct plane_session_stats *stats = &op->session->stats;
    counter_add(&stats->ops, 1);
    counter_add(&w->counters.ops, 1);
    counter_sub(&stats->ops_inflight, op->charged);
    counter_sub(&w->counters.ops_inflight, op->charged);
    if (op->opcode == RDMAD_OP_READ) {
        counter_add(&stats->bytes_read, result->bytes);
        counter_add(&w->counters.bytes_read, result->bytes);
    } else if (op->opcode == RDMAD_OP_WRITE || op->opcode == RDMAD_OP_NOTIFY) {
        counter_add(&stats->bytes_written, result->bytes);
        counter_add(&w->counters.bytes_written, result->bytes);
    }
    tally_op(w, op, result);
}

/* Ends that are more than a cqe of its own. */
static void tell_apart(struct worker *w, struct op *op, const struct op_result *result) {
    if (op->kind && op->kind->release)
        op->kind->release(op);
    chain_ended(op->ring, op->order, op->flags, result->outcome);
    if (op->batch) {
        list_remove(&op->batch_node); /* the batch may be gone then */
        batch_ended(w, op->batch, op->order, result);
    } else if (op->flags & RDMAD_SQE_SILENT && result->outcome == RDMAD_DONE) {
        ring_tell_nothing(w, op->ring);
    } else {
        ring_tell(w, op->ring, op->tag.user_data, op->opcode, result);
    }
}

static bool is_plain_and_local(const struct op *op) {
    return !op->kind && op->lease && op->lease->route && op->lease->route->local;
}

/* Nothing counts it any more. */
static void uncount(struct worker *w, struct op *op) {
    struct op_session *s = op->session;
    assert(!op->inflight && s->inflight);
    for (struct list *pos; (pos = list_pop(&op->again));)
        op_part_put(w, list_entry(pos, struct op_part, node));
    list_remove(&op->node);
    list_remove(&op->home_node);
    list_remove(&op->holds_node);
    deadlines_remove(&op->due);
    if (op->pool)
        op->pool->inflight--;
    if (op->lease)
        op->lease->inflight--;
    s->inflight--;
    s->charged -= op->charged;
    if (s->ops_may - s->charged > 2 * OPS_AT_ONCE)
        ops_fewer(s);
    struct op_ring *r = op->ring;
    if (!r)
        return;
    if (lane_queue(op))
        counter_sub(lane_queue(op), 1);
    r->inflight--;
    rings_stir(r);
    if (op->batch)
        list_remove(&op->batch_node);
    if (op->tagged)
        op_unname(r, op);
    if (!r->inflight) {
        r->last_bytes = is_plain_and_local(op) ? op->length : UINT64_MAX;
        if (r->tagged)
            ring_forget_names(r);
    }
    if (!op->charged) {
        r->nwaits--;
        waits_ended(s);
    }
    r->moving -= op->fence == OP_MOVING;
    if (!list_empty(&r->behind) && list_empty(&r->fence_node))
        list_append(&w->fences, &r->fence_node);
}

void op_vanish(struct worker *w, struct op *op) {
    struct op_session *s = op->session;
    counter_sub(&s->stats.ops_inflight, op->charged);
    counter_sub(&w->counters.ops_inflight, op->charged);
    uncount(w, op);
    slab_put(&w->ops, op);
    rings_unthrottle(w, s); /* what takes its place may be no op, which never ends */
}

/* Its client gives it to the next daemon: it has done nothing. Of a RECV some bytes may be there,
 * and are written again. What waits for a link may be told before that link is, which is not the
 * next daemon's. */
static bool is_the_next_daemons(const struct op *op, const struct op_result *result) {
    bool begun = result->outcome != RDMAD_FAILED_UNTOUCHED && op->opcode == RDMAD_OP_SEND;
    bool plain = !op->batch && !(op->flags & RDMAD_SQE_LINK) && op->fence != OP_UNLINKED &&
                 !(op->fence == OP_BEHIND && op->follows);
    return op->session->left && plain && result->status && !begun &&
           (op->opcode == RDMAD_OP_SEND || op->opcode == RDMAD_OP_RECV ||
            op->opcode == RDMAD_OP_NOTIFIED);
}

void op_end(struct worker *w, struct op *op, const struct op_result *result) {
    struct op_session *s = op->session;
    struct op_ring *r = op->ring;
    probe_op_ended(op, s->id, op->tag.user_data, op->opcode, result->bytes, result->status);
    if (r) {
        op_count_end(w, op, result);
        if (trace_is_on(w))
            trace_ended(w, op, result);
        if (op->lease && op->lease->use)
            op_count_use(w, op->lease->use, op, result);
        if (is_the_next_daemons(op, result))
            ring_tell_nothing(w, r);
        else if (op->told_apart)
            tell_apart(w, op, result);
        else
            ring_tell(w, r, op->tag.user_data, op->opcode, result);
    }
    uncount(w, op);
    if (op->ended)
        op->ended(w, op, result->status, result->outcome);
    slab_put(&w->ops, op);
    rings_unthrottle(w, s);
}

void op_answer(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
               const struct op_request *rq, int status, uint64_t lease_id) {
    struct op_result result = {.status = status,
                               .outcome = status ? RDMAD_FAILED_UNTOUCHED : RDMAD_DONE,
                               .info = lease_id};
    if (status) {
        probe_op_refused(r->session_id, r->handle, rq->order, sqe->opcode, status, lease_id);
        chain_ended(r, rq->order, sqe->flags, result.outcome);
    }
    if (rq->batch)
        batch_ended(w, rq->batch, rq->order, &result);
    else
        ring_tell(w, r, sqe->user_data, sqe->opcode, &result);
    counter_add(&r->session->stats.ops, 1);
    counter_add(&w->counters.ops, 1);
    if (trace_is_on(w))
        trace_answered(w, r->session, sqe, rq, &result);
    if (status)
        tally_refused(w, r->session, sqe, status, lease_id);
}
