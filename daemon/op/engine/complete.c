/* SPDX-License-Identifier: MIT */
/*
 * complete.c - parts come back, and one cqe goes out when nothing can touch the buffers any more.
 *
 * A part that a lost link gave back is kept to be posted again if it was not executed, or is of a
 * READ, which may be executed twice. A WRITE of which nobody knows is never repeated: its op ends.
 * What a device refuses counts as given back, the first time (judge_refusal).
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
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/chain.h"
#include "daemon/op/engine/kind.h"
#include "daemon/op/engine/life.h"
#include "daemon/op/engine/part.h"
#include "daemon/op/engine/route.h"
#include "daemon/op/engine/validate.h"
#include <assert.h>

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

static uint8_t op_outcome(const struct op *op) {
    bool whole =
        !op->todo && op->posted == op->length && list_empty(&op->again) && !op->some_failed;
    if (whole)
        return op->some_unknown ? RDMAD_UNKNOWN : RDMAD_DONE;
    if (op->placed || op->some_partial || op->some_unknown)
        return RDMAD_FAILED_PARTIAL;
    return RDMAD_FAILED_UNTOUCHED;
}

static uint64_t lease_number(const struct op *op, int status) {
    if (!concerns_lease(status))
        return 0;
    if (op->kind && op->kind->lease_number)
        return op->kind->lease_number(op);
    return op->lease ? op->lease->lease_id : 0;
}

void op_finish(struct worker *w, struct op *op) {
    uint8_t outcome = op_outcome(op);
    /* Cancelled too late: the last part was done all the same. */
    int status = outcome == RDMAD_DONE ? RDMAD_OK : op->status;
    struct op_result result = {.status = status,
                               .outcome = outcome,
                               .bytes = op->placed,
                               .info = lease_number(op, status)};
    op_end(w, op, &result);
}

/* What a part that is done adds to op->placed. */
static uint64_t worth(const struct fabric_op *fop) {
    if (fop->opcode == RDMAD_OP_CAS || fop->opcode == RDMAD_OP_FADD)
        return fop->value;
    if (fop->opcode == RDMAD_OP_SEND)
        return fop->asks ? fop->value : 0;
    return fop->length;
}

static void part_fold(struct worker *w, struct op *op, const struct fabric_op *fop) {
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
        op->kind->last_failed(w, op);
}

/* A device refuses what comes after a lease's end. It also refuses what comes while its daemon
 * dies, whose registrations may go before its connections do. The link is lost either way, and
 * until the lease has ended or has its next key, that is all we know. What is refused with that key
 * as well is refused for good. */
static void judge_refusal(struct op *op, struct fabric_op *fop) {
    const struct op_lease *lease = op->lease;
    if (!fop->broke_link || (op->refused && op->refused != lease->keys + 1))
        return;
    op->refused = lease->keys + 1;
    fop->status = lease->reason ? lease->reason : RDMAD_E_PEER_LOST;
}

/* Whether the part is posted again: the op was not stopped, the part was not executed or may be
 * executed twice, and the lane is not dropped. */
static bool goes_again(const struct op *op, const struct fabric_op *fop) {
    return fop->status == RDMAD_E_PEER_LOST && !op->stopped && op->lease->route &&
           (fop->opcode == RDMAD_OP_READ || fop->outcome == RDMAD_FAILED_UNTOUCHED);
}

/* Not before the lease has its next key, even if its route seems to be there: that is how a peer
 * that answers "lost" on a link which is not lost gets no second try. */
static void put_back(struct worker *w, struct op *op, struct op_part *part) {
    if (part->fop.outcome != RDMAD_FAILED_UNTOUCHED)
        op->some_partial = true;
    if (part->fop.opcode == RDMAD_OP_SEND) { /* its kind's: made anew, after the bytes */
        op->todo = OP_TODO_LAST;
        op_part_put(w, part);
        op->kind->last_failed(w, op);
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
    judge_refusal(op, &part->fop);
    assert(op->inflight > 0 && route->out > 0);
    list_remove(&part->node);
    op->inflight--;
    route->out--;
    route->ahead -= part->fop.length;
    if (goes_again(op, &part->fop)) {
        put_back(w, op, part);
    } else {
        part_fold(w, op, &part->fop);
        op_part_put(w, part);
    }

    bool more = op_has_more(op);
    if (!more)
        list_remove(&op->node);
    else if (list_empty(&op->node) && !op_last_must_wait(op))
        op_queue(w, op);
    if (!more && op->inflight == 0)
        op_finish(w, op);
    route_ready(w, route);
}

static bool is_behind(const struct op *op) {
    return op->fence == OP_BEHIND || op->fence == OP_UNLINKED;
}

void op_cancel(struct worker *w, struct op *op, int status) {
    if (op->kind && op->kind->cancel && !is_behind(op)) {
        op->kind->cancel(w, op, status);
        return;
    }
    if (!op->stopped) {
        op->stopped = true;
        op->status = status;
    }
    if (is_behind(op))
        chain_canceled(op);
    list_remove(&op->node);
    op->inflight++; /* keeps op while its parts end inside cancel */
    if (!list_empty(&op->parts))
        op_fabric_wake(op->route->fabric,
                       w->now_ns); /* a cancel that is not done at once has a bound */
    list_for_each_safe (pos, &op->parts) {
        op->route->fabric->ops->cancel(&list_entry(pos, struct op_part, node)->fop, status);
    }
    if (--op->inflight == 0)
        op_finish(w, op);
}

void op_due(struct worker *w, struct op *op) {
    uint64_t limit = op->lease ? op_lease_limit_ns(op->lease, w->settings) : CLOCK_NEVER;
    if (op->lease && w->now_ns >= limit && limit <= op->deadline_ns)
        op_cancel(w, op, op->lease->reason ? op->lease->reason : RDMAD_E_LEASE_EXPIRED);
    else if (w->now_ns >= op->deadline_ns)
        op_cancel(w, op, RDMAD_E_TIMEOUT);
    else
        op_set_due(w, op); /* the lease was extended meanwhile */
}
