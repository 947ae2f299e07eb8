/* SPDX-License-Identifier: MIT */
/*
 * complete.c - parts come back, and one cqe goes out when nothing can touch the buffers any more.
 *
 * A part that a lost link gave back is kept to be posted again if it was not executed, or is of a
 * READ, which may be executed twice. A WRITE of which nobody knows is never repeated: its op ends.
 *
 * What became of an op follows from what became of its parts:
 *
 *   every byte posted, every part done             DONE
 *   every byte posted, no part failed, but of
 *   some nobody knows                              UNKNOWN
 *   some part failed or was never posted:
 *     no part did or may have changed a byte       FAILED_UNTOUCHED
 *     else                                         FAILED_PARTIAL
 *
 * The status is that of what stopped the op first: a failed part, its deadline, the end of its
 * lease, the loss of its lane. bytes counts the parts known to be done, whatever the outcome.
 */
#include "daemon/op/engine/worker.h"

static bool concerns_lease(int status) {
    switch (status) {
    case RDMAD_E_RIGHTS:
    case RDMAD_E_RANGE:
    case RDMAD_E_NO_LEASE:
    case RDMAD_E_LEASE_EXPIRED:
    case RDMAD_E_LEASE_REVOKED:
    case RDMAD_E_LEASE_RELEASED:
    case RDMAD_E_LEASE_ORPHANED:
    case RDMAD_E_LEASE_ADMIN:
    case RDMAD_E_PEER_LOST:
    case RDMAD_E_NO_WAITER:
        return true;
    default:
        return false;
    }
}

static uint8_t outcome_of(const struct op *op) {
    bool whole =
        !op->todo && op->posted == op->length && list_empty(&op->again) && !op->some_failed;
    if (whole)
        return op->some_unknown ? RDMAD_UNKNOWN : RDMAD_DONE;
    if (op->placed || op->some_partial || op->some_unknown)
        return RDMAD_FAILED_PARTIAL;
    return RDMAD_FAILED_UNTOUCHED;
}

/* What the owner's daemon cannot see, where its device does the work. */
static void count_use(const struct worker *w, struct fabric_audit *use, const struct op *op,
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

static void count_end(struct worker *w, const struct op *op, const struct op_result *result) {
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
    if (result->status) {
        counter_add(&stats->ops_failed, 1);
        counter_add(&w->counters.ops_failed, 1);
    }
}

void op_tell(struct worker *w, struct op_ring *r, uint64_t user_data, uint8_t opcode,
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

/* Room in the cq that the client did not make: a ring may sleep though sqes wait for it. */
void op_tell_nothing(struct worker *w, struct op_ring *r) {
    ring_release(r->ring);
    rings_wake(w, r);
}

/* Other ways to end than by a cqe of its own. */
static void tell_apart(struct worker *w, struct op *op, const struct op_result *result) {
    if (op->opcode == RDMAD_OP_NOTIFY)
        notify_release(op);
    chain_ended(op->ring, op->order, op->flags, result->outcome);
    if (op->batch) {
        list_remove(&op->batch_node); /* the batch may be gone then */
        batch_ended(w, op->batch, op->order, result);
    } else if (op->flags & RDMAD_SQE_SILENT && result->outcome == RDMAD_DONE) {
        op_tell_nothing(w, op->ring);
    } else {
        op_tell(w, op->ring, op->tag.user_data, op->opcode, result);
    }
}

/* Nothing counts it any more. */
static void uncount(struct worker *w, struct op *op) {
    struct op_session *s = op->session;
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
    r->inflight--;
    if (op->batch)
        list_remove(&op->batch_node);
    if (op->tagged)
        op_untag(r, op);
    if (!r->inflight && r->tagged)
        ring_forget_tags(r);
    if (!op->charged)
        waits_ended(s);
    r->moving -= op->moving;
    if (!list_empty(&r->behind))
        fence_wake(w, r);
}

void op_vanish(struct worker *w, struct op *op) {
    struct op_session *s = op->session;
    counter_sub(&s->stats.ops_inflight, op->charged);
    counter_sub(&w->counters.ops_inflight, op->charged);
    uncount(w, op);
    slab_put(&w->ops, op);
    rings_unthrottle(w, s); /* what takes its place may be no op, which never ends */
}

void op_end(struct worker *w, struct op *op, const struct op_result *result) {
    struct op_session *s = op->session;
    struct op_ring *r = op->ring;
    if (r) {
        count_end(w, op, result);
        if (op->lease && op->lease->use)
            count_use(w, op->lease->use, op, result);
        if (op->told_apart)
            tell_apart(w, op, result);
        else
            op_tell(w, r, op->tag.user_data, op->opcode, result);
    }
    uncount(w, op);
    if (op->ended)
        op->ended(w, op, result->status, result->outcome);
    slab_put(&w->ops, op);
    rings_unthrottle(w, s);
}

static uint64_t lease_number(const struct op *op, int status) {
    if (!concerns_lease(status))
        return 0;
    if (op->grant)
        return grant_number(op->grant);
    return op->lease ? op->lease->lease_id : 0;
}

void op_finish(struct worker *w, struct op *op) {
    uint8_t outcome = outcome_of(op);
    /* Cancelled too late: the last part was done all the same. */
    int status = outcome == RDMAD_DONE ? RDMAD_OK : op->status;
    struct op_result result = {.status = status,
                               .outcome = outcome,
                               .bytes = op->placed,
                               .info = lease_number(op, status)};
    op_end(w, op, &result);
}

void op_answer(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
               const struct op_request *rq, int status, uint64_t lease_id) {
    struct op_result result = {.status = status,
                               .outcome = status ? RDMAD_FAILED_UNTOUCHED : RDMAD_DONE,
                               .info = lease_id};
    if (status)
        chain_refused(r, rq->order, sqe->flags);
    if (rq->batch)
        batch_ended(w, rq->batch, rq->order, &result);
    else
        op_tell(w, r, sqe->user_data, sqe->opcode, &result);
    counter_add(&r->session->stats.ops, 1);
    counter_add(&w->counters.ops, 1);
    if (status) {
        counter_add(&r->session->stats.ops_failed, 1);
        counter_add(&w->counters.ops_failed, 1);
    }
}

/* What a part that is done adds to op->placed. */
static uint64_t worth(const struct fabric_op *fop) {
    if (fop->opcode == RDMAD_OP_CAS || fop->opcode == RDMAD_OP_FADD)
        return fop->value;
    if (fop->opcode == RDMAD_OP_SEND)
        return fop->asks ? fop->value : 0;
    return fop->length;
}

static void fold(struct worker *w, struct op *op, const struct fabric_op *fop) {
    switch (fop->outcome) {
    case RDMAD_DONE:
        op->placed += worth(fop);
        return;
    case RDMAD_UNKNOWN:
        op->some_unknown = true;
        break;
    case RDMAD_FAILED_PARTIAL:
        op->some_partial = true;
        op->some_failed = true;
        break;
    default:
        op->some_failed = true;
    }
    if (!op->stopped) {
        op->stopped = true;
        op->status = fop->status;
    }
    if (fop->opcode == RDMAD_OP_SEND)
        notify_ask(w, op->session, op->lease);
}

/* Nobody asked for it to end, it was not executed or may be twice, and its lane is not dropped. */
static bool goes_again(const struct op *op, const struct fabric_op *fop) {
    return fop->status == RDMAD_E_PEER_LOST && !op->stopped && op->lease->route &&
           (fop->opcode == RDMAD_OP_READ || fop->outcome == RDMAD_FAILED_UNTOUCHED);
}

/* Not before the lease has its next key, even if its route seems to be there: that is how a peer
 * that answers "lost" on a link which is not lost gets no second try. */
static void put_back(struct worker *w, struct op *op, struct op_part *part) {
    if (part->fop.outcome != RDMAD_FAILED_UNTOUCHED)
        op->some_partial = true;
    if (part->fop.opcode == RDMAD_OP_SEND) { /* a NOTIFY's: made anew, after the bytes */
        op->todo = OP_TODO_NOTICE;
        op_part_put(w, part);
        notify_ask(w, op->session, op->lease);
    } else {
        op->posted -= part->fop.length;
        list_append(&op->again, &part->node);
    }
    op_hold(op);
}

void op_part_ended(struct worker *w, struct op_part *part) {
    struct op *op = part->op;
    struct op_route *route = op->route;
    /* What link_close takes back is lost with the link, nobody asked for it to be cancelled. */
    if (part->fop.status == RDMAD_E_CANCELED && !route->up)
        part->fop.status = RDMAD_E_PEER_LOST;
    list_remove(&part->node);
    op->inflight--;
    if (goes_again(op, &part->fop)) {
        put_back(w, op, part);
    } else {
        fold(w, op, &part->fop);
        op_part_put(w, part);
    }

    bool more = op_has_more(op);
    if (!more)
        list_remove(&op->node);
    else if (list_empty(&op->node) && !notify_must_wait(op))
        op_queue(w, op);
    if (!more && op->inflight == 0)
        op_finish(w, op);
    route_ready(w, route);
}

void op_cancel(struct worker *w, struct op *op, int status) {
    if (op->channel) {
        channel_op_cancel(w, op, status);
        return;
    }
    if (!op->stopped) {
        op->stopped = true;
        op->status = status;
    }
    if (op->behind)
        chain_canceled(op);
    list_remove(&op->node);
    op->inflight++; /* keeps op while its parts end inside cancel */
    if (!list_empty(&op->parts))
        seat_wake(op->route->seat, w->now_ns); /* a cancel that is not done at once has a bound */
    list_for_each_safe (pos, &op->parts) {
        op->route->seat->ops->cancel(&list_entry(pos, struct op_part, node)->fop, status);
    }
    if (--op->inflight == 0)
        op_finish(w, op);
}

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

void op_due(struct worker *w, struct op *op) {
    uint64_t limit = limit_of(w, op);
    if (w->now_ns >= limit && limit <= op->deadline_ns)
        op_cancel(w, op, op->lease->reason ? op->lease->reason : RDMAD_E_LEASE_EXPIRED);
    else if (w->now_ns >= op->deadline_ns)
        op_cancel(w, op, RDMAD_E_TIMEOUT);
    else
        op_set_due(w, op); /* the lease was extended meanwhile */
}
