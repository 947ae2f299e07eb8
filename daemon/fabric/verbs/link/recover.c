/* SPDX-License-Identifier: MIT */
/*
 * recover.c - completions, and what becomes of a link and its ops when an op fails.
 *
 * The first bad completion of a QP is the true one, and breaks it; what is behind comes back
 * flushed. What is known of an op then:
 *
 *                     the one that failed               those flushed behind it
 *   refused there     NO_LEASE; untouched if it was     PEER_LOST, untouched: the other end took
 *                     one packet, else partial          nothing any more; behind a READ as after
 *                                                       silence
 *   silence           PEER_LOST; WRITE unknown,         the same
 *                     READ partial
 *   our own fault     FABRIC; partial                   as after silence
 *   broken by us                                        as after silence
 *
 * CAS, FADD and messages are as WRITEs in this; the reading of the peer's counter is nobody's op.
 *
 * A READ is special because it is executed again, access check and all, when its answer was lost on
 * the way. What was behind it may have been executed before that, and the refusal is of the READ's
 * second time.
 *
 * An op that was cancelled ends with the status of that, unless it was done.
 *
 * Bounds: a cancelled op is back within quiesce_ns or its QP is broken; flushes come within
 * FLUSH_NS or the QPs are destroyed. So every op ends, whatever device and peer do.
 */
#include "daemon/fabric/verbs/link/recover.h"
#include "daemon/base/clock.h"
#include "daemon/fabric/verbs/instance/qp.h"
#include "daemon/fabric/verbs/instance/way.h"
#include "daemon/fabric/verbs/link/outbox.h"
#include "daemon/fabric/verbs/link/page.h"
#include "daemon/fabric/verbs/link/weak_sender.h"
#include <assert.h>
#include <stdio.h>

#define FLUSH_NS (100 * NSEC_PER_MSEC)

/* ---- completions ------------------------------------------------------------------------- */

static bool refused_there(enum ibv_wc_status status) {
    return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
           status == IBV_WC_REM_OP_ERR;
}

/* Not IBV_WC_LOC_QP_OP_ERR: rxe ends with it what it could not send since the port went down. */
static bool our_fault(enum ibv_wc_status status) {
    return status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_PROT_ERR ||
           status == IBV_WC_LOC_ACCESS_ERR || status == IBV_WC_MW_BIND_ERR;
}

/* An atomic op and a message are never done in part. */
static uint8_t when_half(const struct fabric_op *op) {
    bool transfer = op->opcode == RDMAD_OP_READ || op->opcode == RDMAD_OP_WRITE;
    return transfer ? RDMAD_FAILED_PARTIAL : RDMAD_UNKNOWN;
}

/* Access is checked before a packet is placed; what else goes wrong may do so in mid-message. */
static uint8_t when_refused(const struct verbs_link *l, const struct fabric_op *op,
                            enum ibv_wc_status status) {
    if (op->length == 0 || (op->length <= l->packet && status != IBV_WC_REM_OP_ERR))
        return RDMAD_FAILED_UNTOUCHED;
    return when_half(op);
}

static uint8_t when_lost(const struct fabric_op *op) {
    if (op->opcode != RDMAD_OP_READ)
        return RDMAD_UNKNOWN;
    return op->length ? RDMAD_FAILED_PARTIAL : RDMAD_FAILED_UNTOUCHED;
}

static void find_cause(struct verbs_lane *lane, const struct fabric_op *op, enum ibv_wc_status wc) {
    bool true_one = wc != IBV_WC_WR_FLUSH_ERR;
    bool is_read = !op || op->opcode == RDMAD_OP_READ;
    if (true_one && refused_there(wc) && !is_read)
        lane->cause = LANE_REFUSED;
    else if (true_one || lane->cause == LANE_WELL)
        lane->cause = LANE_LOST;
}

/* Fills in status and outcome of an op whose completion was bad. */
static void set_outcome(const struct verbs_lane *lane, struct fabric_op *op,
                        enum ibv_wc_status wc) {
    bool true_one = wc != IBV_WC_WR_FLUSH_ERR;
    if (true_one && refused_there(wc)) {
        bool message = op->opcode == RDMAD_OP_SEND;
        op->status = message ? RDMAD_E_PEER_LOST : RDMAD_E_NO_LEASE;
        op->outcome = message ? RDMAD_FAILED_UNTOUCHED : when_refused(lane->link, op, wc);
        op->broke_link = !message;
        return;
    }
    op->status = true_one && our_fault(wc) ? RDMAD_E_FABRIC : RDMAD_E_PEER_LOST;
    if (true_one && our_fault(wc))
        op->outcome = when_half(op);
    else
        op->outcome = lane->cause == LANE_REFUSED ? RDMAD_FAILED_UNTOUCHED : when_lost(op);
}

/* An op that was posted ends and was not done. */
static void posted_failed(struct verbs_link *l, struct fabric_op *op, int status, uint8_t outcome) {
    if (outcome == RDMAD_FAILED_UNTOUCHED)
        read_seal_take_off(op);
    link_complete(l, op, op_mark(op)->cancel_status ? op_mark(op)->cancel_status : status, outcome);
}

static void fail_by(struct verbs_lane *lane, enum ibv_wc_status status) {
    struct verbs_link *l = lane->link;
    lane->queue.broken = true; /* the device has done it */
    if (l->state >= LINK_FAILING)
        return;
    const char *hint = refused_there(status) ? " (the peer's device refused an access)" : "";
    if (status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR)
        hint = " (the peer's device did not answer, or what it was sent came out of order)";
    struct error why;
    error_set(&why, RDMAD_E_PEER_LOST, "%s: queue pair 0x%x to 0x%x at %s: %s%s",
              l->verbs->device->name, lane->queue.qp->qp_num, lane->queue.other, l->host,
              ibv_wc_status_str(status), hint);
    link_fail(l, &why);
}

/* The message has arrived; if it asks, its answer is still to come. */
static void message_came(struct verbs_link *l, struct fabric_op *op) {
    const struct op_mark *mark = op_mark(op);
    if (mark->cancel_status)
        link_complete(l, op, mark->cancel_status, RDMAD_UNKNOWN);
    else if (l->state >= LINK_FAILING)
        link_complete(l, op, RDMAD_E_PEER_LOST, RDMAD_UNKNOWN);
    else
        page_ask(l, op);
}

/* rdma_rxe takes the acknowledgement of a WRITE that was sent twice for the answer to the atomic op
 * behind it, if that was lost (IBTA would have it asked for again). It was done: once, so it must
 * not be again, and what it found is not known. */
static void answer_missing(struct verbs_lane *lane, struct fabric_op *op) {
    struct verbs_link *l = lane->link;
    struct error why;
    error_set(&why, RDMAD_E_PEER_LOST,
              "%s: queue pair 0x%x to 0x%x at %s: the device ended an atomic op without its answer",
              l->verbs->device->name, lane->queue.qp->qp_num, lane->queue.other, l->host);
    lane_break(lane);
    link_fail(l, &why);
    posted_failed(l, op, RDMAD_E_PEER_LOST, RDMAD_UNKNOWN);
}

/* Once more, as a device does that asks again for what was lost: behind what was posted meanwhile.
 */
static void read_again(struct verbs_lane *lane, struct fabric_op *op) {
    struct verbs_link *l = lane->link;
    struct op_mark *mark = op_mark(op);
    if (mark->cancel_status || !link_lives(l)) {
        posted_failed(l, op, RDMAD_E_PEER_LOST, RDMAD_FAILED_PARTIAL);
    } else if (mark->seals == READ_SEALS_MAX) {
        posted_failed(l, op, RDMAD_E_FABRIC, RDMAD_FAILED_PARTIAL);
    } else {
        mark->state = OP_BATCHED;
        link_batch(lane, op);
    }
}

void lane_ended(struct queue *q, struct wr_slot *slot, const struct ibv_wc *wc) {
    struct verbs_lane *lane = container_of(q, struct verbs_lane, queue);
    struct verbs_link *l = lane->link;
    struct fabric_op *op = slot->user;
    bool well = wc->status == IBV_WC_SUCCESS;
    if (!well)
        find_cause(lane, op, wc->status);
    if (!op) {
        if (well)
            page_came(l);
        else
            fail_by(lane, wc->status);
        return;
    }
    const struct op_mark *mark = op_mark(op);
    list_remove(&op->node);
    if (mark->cancel_status)
        l->cancelled--;
    if (well) {
        if (op->opcode == RDMAD_OP_SEND && op->asks)
            message_came(l, op);
        else if (fabric_op_is_atomic(op) && !outbox_word(lane, slot, &op->value))
            answer_missing(lane, op);
        else if (!read_seal_is_gone(op))
            read_again(lane, op);
        else
            link_complete(l, op, RDMAD_OK, RDMAD_DONE);
        return;
    }
    set_outcome(lane, op, wc->status);
    fail_by(lane, wc->status);
    posted_failed(l, op, op->status, op->outcome);
}

/* ---- failing ----------------------------------------------------------------------------- */

void lane_break(struct verbs_lane *lane) {
    if (lane->cause == LANE_WELL)
        lane->cause = LANE_LOST;
    qp_break(&lane->queue);
}

static bool waits_for_living(const struct verbs_link *l) {
    for (unsigned i = 0; i < LANES_ALL; i++) {
        if (!l->lane[i].queue.broken && !list_empty(&l->lane[i].posted))
            return true;
    }
    return false;
}

void link_fail(struct verbs_link *l, const struct error *why) {
    struct verbs *v = l->verbs;
    if (l->state >= LINK_FAILING)
        return;
    l->state = LINK_FAILING;
    l->why = *why;
    link_doom_batches(l);
    page_end_asking(l, RDMAD_E_PEER_LOST);
    l->broken = !waits_for_living(l);
    uint64_t wait_ns = l->broken ? FLUSH_NS : v->settings->quiesce_ns;
    l->deadline_ns = clock_after(v->env->now_ns(v->env->user), wait_ns);
    verbs_timer_at(v, l->deadline_ns);
    link_changed(l);
}

static void destroy_queues(struct verbs_link *l) {
    if (l->way->hang_up)
        l->way->hang_up(l);
    for (unsigned i = 0; i < LANES_ALL; i++) {
        assert(list_empty(&l->lane[i].sending));
        qp_destroy(&l->lane[i].queue);
    }
    weak_senders_close(l);
    outbox_close(l);
}

void link_tear_down(struct verbs_link *l, int status) {
    for (unsigned i = 0; i < LANES_ALL; i++)
        list_remove(&l->lane[i].sending);
    destroy_queues(l);
    for (unsigned i = 0; i < LANES_ALL; i++) {
        struct verbs_lane *lane = &l->lane[i];
        struct list *node; /* callbacks may come back here: each op is taken out first */
        while ((node = list_pop(&lane->batch))) {
            lane->batched--;
            link_complete(l, list_entry(node, struct fabric_op, node), status,
                          RDMAD_FAILED_UNTOUCHED);
        }
        while ((node = list_pop(&lane->posted))) {
            struct fabric_op *op = list_entry(node, struct fabric_op, node);
            const struct op_mark *mark = op_mark(op);
            uint8_t outcome = lane->cause == LANE_REFUSED ? RDMAD_FAILED_UNTOUCHED : when_lost(op);
            if (mark->cancel_status)
                l->cancelled--;
            posted_failed(l, op, status, outcome);
        }
    }
    page_end_asking(l, status);
    link_complete_doomed(l);
}

void link_settle(struct verbs_link *l) {
    const struct fabric_env *env = l->verbs->env;
    link_complete_doomed(l);
    if (l->state == LINK_CONNECTED) {
        l->state = LINK_UP;
        l->verbs->progress++;
        env->link_up(env->user, l->cookie);
    } else if (l->state == LINK_FAILING && l->ops == 0) {
        l->state = LINK_LOST;
        l->verbs->progress++;
        destroy_queues(l);
        env->link_lost(env->user, l->cookie, &l->why);
    }
}

/* ---- bounds ------------------------------------------------------------------------------ */

static uint64_t soonest_cancel(const struct verbs_lane *lane) {
    uint64_t soonest = CLOCK_NEVER;
    list_for_each (pos, &lane->posted) {
        const struct op_mark *mark = op_mark(list_entry(pos, struct fabric_op, node));
        if (mark->cancel_status && mark->cancel_ns < soonest)
            soonest = mark->cancel_ns;
    }
    return soonest;
}

/* Lanes that still hold an op long after somebody wanted it back. */
static void check_cancelled(struct verbs_link *l) {
    struct verbs *v = l->verbs;
    for (unsigned i = 0; i < LANES_ALL; i++) {
        struct verbs_lane *lane = &l->lane[i];
        uint64_t soonest = soonest_cancel(lane);
        if (lane->queue.broken || soonest == CLOCK_NEVER)
            continue;
        if (v->now_ns < soonest) {
            verbs_timer_at(v, soonest);
            continue;
        }
        uint64_t since = v->now_ns - soonest + v->settings->quiesce_ns;
        struct error why;
        error_set(&why, RDMAD_E_PEER_LOST,
                  "%s: queue pair 0x%x to 0x%x at %s: an op cancelled %lu ms ago was still under "
                  "way, so the connection was broken to get its memory back",
                  v->device->name, lane->queue.qp->qp_num, lane->queue.other, l->host,
                  (unsigned long)(since / NSEC_PER_MSEC));
        lane_break(lane);
        link_fail(l, &why);
    }
}

static void check_connecting(struct verbs_link *l) {
    struct verbs *v = l->verbs;
    if (v->now_ns < l->deadline_ns) {
        verbs_timer_at(v, l->deadline_ns);
        return;
    }
    struct error why;
    error_set(&why, RDMAD_E_UNREACHABLE, "%s: no connection to %s by rdma_cm within %lu ms",
              v->device->name, l->host,
              (unsigned long)(v->env->settings->connect_timeout_ns / NSEC_PER_MSEC));
    link_fail(l, &why);
}

static void check_failing(struct verbs_link *l) {
    struct verbs *v = l->verbs;
    if (v->now_ns >= l->deadline_ns && l->broken) {
        link_tear_down(l, RDMAD_E_PEER_LOST);
        return;
    }
    if (v->now_ns >= l->deadline_ns || !waits_for_living(l)) {
        for (unsigned i = 0; i < LANES_ALL; i++)
            lane_break(&l->lane[i]);
        if (!l->broken)
            l->deadline_ns = clock_after(v->now_ns, FLUSH_NS);
        l->broken = true;
    }
    verbs_timer_at(v, l->deadline_ns);
}

void link_look(struct verbs_link *l) {
    if (l->cancelled && l->state != LINK_CLOSED)
        check_cancelled(l);
    page_look(l);
    if (l->state == LINK_CONNECTING)
        check_connecting(l);
    else if (l->state == LINK_FAILING)
        check_failing(l);
}
