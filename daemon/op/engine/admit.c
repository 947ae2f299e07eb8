/* SPDX-License-Identifier: MIT */
/*
 * admit.c - sqes are taken from the rings.
 *
 * A turn takes a bounded number of sqes: of a ring, of a session with all its rings, and in all. A
 * CANCEL counts for the ops that it ends and looks at. What a session takes beyond its budget comes
 * off its next turns. Rings that had to wait are the first of the next turn. So no client makes the
 * others wait for more than that, however many rings it has.
 */
#include "daemon/op/engine/admit.h"
#include "daemon/op/engine/account.h"
#include "daemon/op/engine/batch.h"
#include "daemon/op/engine/cancel.h"
#include "daemon/op/engine/chain.h"
#include "daemon/op/engine/fence.h"
#include "daemon/op/engine/kind.h"
#include "daemon/op/engine/life.h"
#include "daemon/op/engine/rings.h"
#include "daemon/op/engine/submit.h"
#include "daemon/op/engine/validate.h"
#include <assert.h>

#define RING_BUDGET 64u
#define SESSION_BUDGET 256u
#define TURN_BUDGET 4096u
#define PEEKS 4u /* at parked rings in a turn */

/* Asks the op's kind; RECV and NOTIFIED must also be within the limits of waits. */
static int admit_kind(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                      struct op_request *rq, uint64_t *whose) {
    if (!op_is_own_time(sqe->opcode)) {
        int status = waits_room(w, r->session, whose);
        if (status)
            return status;
    }
    return w->kinds[sqe->opcode]->admit(w, r, sqe, rq);
}

uint32_t sqe_start(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                   struct op_request *rq) {
    assert(sqe->opcode < RDMAD_OP_COUNT);
    const struct op_kind *kind = w->kinds[sqe->opcode];
    int status = 0;
    uint32_t cost = 1;
    uint64_t whose = 0;
    if (sqe->opcode == RDMAD_OP_CANCEL)
        op_answer(w, r, sqe, rq, ops_cancel_named(r, sqe->lease, &cost), 0);
    else if (sqe->opcode == RDMAD_OP_NOP)
        op_answer(w, r, sqe, rq, 0, 0);
    else if (kind && kind->admit)
        status = admit_kind(w, r, sqe, rq, &whose);
    else
        op_begin(w, op_new(w, r, sqe, rq));
    if (status)
        op_answer(w, r, sqe, rq, status, status == RDMAD_E_LIMIT ? whose : 0);
    return cost;
}

/* The checks that a plain READ, WRITE or NOP does not need. */
static uint32_t admit_other(struct worker *w, struct op_ring *r, struct rdmad_sqe *sqe,
                            struct op_request *rq, int status, uint64_t lease_id) {
    chain_follow(r, sqe);
    if (r->batch || sqe->flags & RDMAD_SQE_MORE) {
        int rc = batch_join(w, r, sqe, rq);
        status = status ? status : rc;
    }
    bool stops = !status && fence_stops(r, sqe);
    int rc = 0;
    if (sqe->opcode != RDMAD_OP_NOP)
        rc = chain_admit(r, rq->order, sqe->flags);
    if (!rc && !stops && sqe->opcode != RDMAD_OP_NOP)
        rc = chain_start(r, rq->order, sqe->flags, false);
    status = status ? status : rc;
    if (status)
        op_answer(w, r, sqe, rq, status, lease_id);
    else if (stops)
        fence_hold(w, r, sqe, rq);
    else
        return sqe_start(w, r, sqe, rq);
    return 1;
}

/* Returns what it cost, in plain sqes. */
static uint32_t admit(struct worker *w, struct op_ring *r) {
    struct rdmad_sqe sqe;
    ring_take(r->ring, &sqe);

    struct op_request rq;
    rq.order = chain_take(r, &sqe);
    rq.batch = NULL;
    uint64_t lease_id;
    int status = op_validate(r->session, w->settings, w->now_ns, &sqe, &rq, &lease_id);
    if (!(status | sqe.flags) && !r->batch && !r->linked && list_empty(&r->behind)) {
        if (sqe.opcode == RDMAD_OP_READ || sqe.opcode == RDMAD_OP_WRITE) {
            op_start(w, r, &sqe, &rq);
            return 1;
        }
        if (sqe.opcode == RDMAD_OP_NOP) {
            op_answer(w, r, &sqe, &rq, 0, 0);
            return 1;
        }
    }
    return admit_other(w, r, &sqe, &rq, status, lease_id);
}

/* The session is at its limit and the next sqe looked like a CANCEL: nothing else is let in. */
static uint32_t admit_cancel(struct worker *w, struct op_ring *r) {
    struct rdmad_sqe sqe;
    ring_take(r->ring, &sqe);

    struct op_request rq = {.order = chain_take(r, &sqe)};
    uint64_t lease_id;
    int status = op_validate(r->session, w->settings, w->now_ns, &sqe, &rq, &lease_id);
    if (status == 0 && sqe.opcode != RDMAD_OP_CANCEL)
        status = RDMAD_E_LIMIT; /* it changed after the look */
    return admit_other(w, r, &sqe, &rq, status, 0);
}

static unsigned serve(struct worker *w, struct op_ring *r) {
    struct op_session *s = r->session;
    uint32_t count;
    if (s->shut)
        return 0;
    if (ring_available(r->ring, &count) < 0) {
        worker_violated(w, s, RDMAD_E_RING, "the client's ring indices make no sense");
        return 1;
    }
    if (count == 0)
        return 0;

    uint32_t taken = 0, spent = 0;
    uint32_t budget =
        s->spent + RING_BUDGET < SESSION_BUDGET ? RING_BUDGET : SESSION_BUDGET - (uint32_t)s->spent;
    while (taken < count && spent < budget && worker_can_start(w)) {
        if (s->charged < s->ops_may || ops_more(w, s)) {
            spent += admit(w, r);
        } else if (ring_next_opcode(r->ring) == RDMAD_OP_CANCEL) {
            spent += admit_cancel(w, r);
        } else {
            rings_throttle(r);
            break;
        }
        taken++;
    }
    s->spent += spent;
    w->spent += spent;
    r->active_ns = w->now_ns;
    rings_dirty(w, r);
    return taken;
}

/* What the session took beyond its budget in earlier turns counts in this one. */
static bool has_its_turn(const struct worker *w, struct op_session *s) {
    uint64_t paid = (w->turns - s->turn) * SESSION_BUDGET;
    s->spent = s->spent > paid ? s->spent - paid : 0;
    s->turn = w->turns;
    return s->spent < SESSION_BUDGET && w->spent < TURN_BUDGET;
}

/* The ones looked at longest ago. */
static void peek_parked(struct worker *w) {
    for (unsigned i = 0; i < PEEKS && !list_empty(&w->parked); i++) {
        struct op_ring *r = list_entry(list_pop(&w->parked), struct op_ring, node);
        list_append(&w->parked, &r->node);
        if (ring_published(r->ring))
            rings_wake(w, r);
    }
}

/* Those that were left out are the first of the next turn. */
unsigned rings_serve(struct worker *w) {
    unsigned taken = 0;
    struct list left_out;
    list_init(&left_out);
    w->spent = 0;
    peek_parked(w);
    list_for_each_safe (pos, &w->hot) {
        struct op_ring *r = list_entry(pos, struct op_ring, node);
        if (has_its_turn(w, r->session)) {
            taken += serve(w, r);
        } else if (ring_published(r->ring)) {
            list_remove(pos);
            list_append(&left_out, pos);
            taken++; /* there is something to do */
        }
    }
    list_splice(&left_out, &w->hot);
    list_splice(&w->hot, &left_out);
    return taken;
}
