/* SPDX-License-Identifier: MIT */
/*
 * post.c - ops on their way to the device.
 *
 * verbs_post only batches, on the lane with the fewest ops; a flush makes a chain of work requests
 * of the batch's first, with one doorbell. A chain is bounded in bytes too, and what is left of the
 * batch waits for the next turn: beside so many bytes a doorbell costs nothing, the device starts
 * on the first while we look for more, and clients hear of the first while the last are under way.
 * (Soft-RoCE moves a chain within the doorbell, or in a kernel thread if it takes it more than
 * 2 ms, at half the speed.) Completions are dear, so of a chain only the last is signalled, and
 * between, one in so many, and after so many bytes, lest a small op waits long for the completion
 * of what was posted behind it.
 *
 * A small WRITE travels inside its work request. That makes the CPU read client memory, which can
 * vanish, so it is copied aside under guard first.
 *
 * A message goes by way of the outbox, on the first lane; while the peer has no room for it, what
 * is behind it on that lane waits too, because a link of one lane promises order. One place of that
 * lane is kept for reading the peer's counter, which is nobody's op.
 *
 * What cannot be posted (a malformed key, memory that the device does not know, memory that
 * vanished) is doomed: it was taken, so poll gives it back, and the link goes on.
 */
#include "daemon/base/clock.h"
#include "daemon/base/guard.h"
#include "daemon/fabric/verbs/host/memory.h"
#include "daemon/fabric/verbs/link/links.h"
#include "daemon/fabric/verbs/link/outbox.h"
#include "daemon/fabric/verbs/link/page.h"
#include "daemon/fabric/verbs/link/recover.h"
#include "daemon/fabric/verbs/link/weak_sender.h"
#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#define CHAIN 64u                /* work requests of one doorbell, */
#define CHAIN_BYTES (16u << 10)  /* and bytes after which none is added */
#define SIGNAL_BYTES (64u << 10) /* as many at most without a completion */

/* ---- posting: the caller's side ---------------------------------------------------------- */

static struct verbs_lane *emptiest(struct verbs_link *l) {
    struct verbs_lane *best = NULL;
    uint32_t most = 0;
    for (unsigned i = 0; i < l->lanes; i++) {
        uint32_t room = lane_room(&l->lane[i]);
        if (room > most) {
            most = room;
            best = &l->lane[i];
        }
    }
    return best;
}

static bool is_weak(const struct fabric_op *op) {
    return op->opcode == RDMAD_OP_SEND &&
           (op->service == RDMAD_CHANNEL_DATAGRAM || op->service == RDMAD_CHANNEL_UNACKED);
}

/* Which lane takes op: 0, AGAIN, or why none ever will. */
static int lane_for(struct verbs_link *l, const struct fabric_op *op, struct verbs_lane **out) {
    if (op->opcode != RDMAD_OP_SEND) {
        *out = emptiest(l);
        return *out ? 0 : RDMAD_E_AGAIN;
    }
    *out = &l->lane[0];
    int rc = is_weak(op) ? weak_sender_ready(l, weak_kind_of(op->service), out) : 0;
    if (rc)
        return rc;
    return l->outbox.free && lane_room(*out) ? 0 : RDMAD_E_AGAIN;
}

/* Where the op goes, by its key: 0, or why it cannot. */
static int aim(struct verbs_link *l, struct fabric_op *op) {
    struct op_mark *mark = op_mark(op);
    unsigned lane = mark->lane;
    struct verbs_key key;
    if (op->opcode == RDMAD_OP_SEND && !is_weak(op) && op->service != RDMAD_CHANNEL_RELIABLE)
        return RDMAD_E_UNSUPPORTED;
    if (op->asks && is_weak(op))
        return RDMAD_E_UNSUPPORTED;
    if (op->opcode == RDMAD_OP_SEND)
        return l->reads ? outbox_fill(l, op) : RDMAD_E_FABRIC;
    if (op->length > l->base.max_message)
        return RDMAD_E_LENGTH;
    if (!blob_read_key(op->key, &key) || (key.count > 1 && lane >= key.count))
        return RDMAD_E_PROTOCOL;
    if (op->opcode == RDMAD_OP_READ && !l->reads)
        return RDMAD_E_FABRIC;
    if (fabric_op_is_atomic(op) && (!l->reads || !l->atomics))
        return RDMAD_E_UNSUPPORTED;
    mark->address = key.address + op->offset;
    mark->rkey = key.rkey[key.count > 1 ? lane : 0];
    return fabric_op_is_atomic(op) && mark->address % sizeof(uint64_t) ? RDMAD_E_ALIGN : 0;
}

int verbs_post(struct fabric_link *fl, struct fabric_op *op) {
    struct verbs_link *l = verbs_link_of(fl);
    if (!link_lives(l))
        return RDMAD_E_PEER_LOST;
    struct verbs_lane *lane;
    int rc = lane_for(l, op, &lane);
    if (rc == RDMAD_E_AGAIN)
        return rc;
    link_take(lane, op);
    if (rc == 0)
        rc = aim(l, op);
    if (rc)
        link_doom(l, op, rc);
    else
        link_batch(lane, op);
    return 0;
}

void verbs_cancel(struct fabric_op *op, int status) {
    struct verbs_link *l = verbs_link_of(op->link);
    struct verbs *v = l->verbs;
    struct op_mark *mark = op_mark(op);
    if (mark->state == OP_DOOMED) {
        link_complete_doomed_op(l, op);
    } else if (mark->state == OP_ASKING) {
        list_remove(&op->node);
        link_complete(l, op, status, RDMAD_UNKNOWN);
    } else if (mark->state == OP_BATCHED) {
        link_unbatch(&l->lane[mark->lane], op);
        lane_wake(&l->lane[mark->lane]); /* what was behind it may not have to wait */
        link_complete(l, op, status, RDMAD_FAILED_UNTOUCHED);
    } else if (mark->cancel_status == 0) {
        mark->cancel_status = status;
        mark->cancel_ns = clock_after(v->env->now_ns(v->env->user), v->settings->quiesce_ns);
        l->cancelled++;
        verbs_timer_at(v, mark->cancel_ns);
    }
}

/* ---- posting: the device's side ---------------------------------------------------------- */

struct wr_chain {
    struct ibv_send_wr wr[CHAIN + 1]; /* the last may be the counter's */
    struct ibv_sge sge[CHAIN + 1];
    struct fabric_op *op[CHAIN + 1]; /* NULL: nobody's */
    unsigned n;
    uint64_t bytes;
};

/* Where the i-th of a chain is copied aside; NULL: no memory for that, then nothing is inline. */
static uint8_t *staging(struct verbs *v, const struct queue *q, unsigned i) {
    if (!v->staging)
        v->staging = malloc((size_t)CHAIN * v->settings->inline_bytes);
    return v->staging ? v->staging + (size_t)i * q->inline_bytes : NULL;
}

/* The bytes of op as the device will see them: 0, or why there are none. */
static int wr_chain_bytes(struct wr_chain *c, struct verbs_lane *lane, struct fabric_op *op) {
    struct verbs *v = lane->queue.verbs;
    struct ibv_send_wr *wr = &c->wr[c->n];
    struct ibv_sge *sge = &c->sge[c->n];
    if (op->length == 0)
        return 0;
    wr->sg_list = sge;
    wr->num_sge = 1;
    sge->length = (uint32_t)op->length;
    if (op->opcode == RDMAD_OP_WRITE && op->length <= lane->queue.inline_bytes) {
        uint8_t *aside = staging(v, &lane->queue, c->n);
        if (aside) {
            op->fault = guard_copy(aside, op->local, op->length);
            sge->addr = (uintptr_t)aside;
            wr->send_flags |= IBV_SEND_INLINE;
            return op->fault ? RDMAD_E_FAULT : 0;
        }
    }
    struct ibv_mr *mr = op->memory ? memory_mr(op->memory, v->device) : NULL;
    if (!mr)
        return RDMAD_E_FABRIC;
    sge->addr = (uintptr_t)op->local;
    sge->lkey = mr->lkey;
    return 0;
}

static void signal_if_due(struct queue *q, struct ibv_send_wr *wr, uint64_t bytes) {
    q->unsignalled++;
    q->unsignalled_bytes += bytes < SIGNAL_BYTES ? (uint32_t)bytes : SIGNAL_BYTES;
    if (q->unsignalled < q->verbs->settings->signal_every && q->unsignalled_bytes < SIGNAL_BYTES)
        return;
    wr->send_flags |= IBV_SEND_SIGNALED;
    q->unsignalled = q->unsignalled_bytes = 0;
}

/* A READ of no bytes goes as a WRITE of none: the same round trip, for which the target checks no
 * key either (IBTA C9-88), and one that leaves rdma_rxe's kernel alive. When that cannot make the
 * answer to a READ of no bytes, because its port is going down, it gives back a registration that
 * it never took, and dies of it. */
static void wr_set_transfer(struct ibv_send_wr *wr, const struct fabric_op *op,
                            const struct op_mark *mark) {
    bool reads = op->opcode == RDMAD_OP_READ && op->length > 0;
    *wr = (struct ibv_send_wr){.opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
                               .wr.rdma = {.remote_addr = mark->address, .rkey = mark->rkey}};
}

static void wr_set_atomic(struct ibv_send_wr *wr, const struct fabric_op *op,
                          const struct op_mark *mark) {
    bool cas = op->opcode == RDMAD_OP_CAS;
    *wr = (struct ibv_send_wr){.opcode =
                                   cas ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
                               .wr.atomic = {.remote_addr = mark->address,
                                             .compare_add = cas ? op->compare : op->swap,
                                             .swap = cas ? op->swap : 0,
                                             .rkey = mark->rkey}};
}

/* Takes the next place of the chain, with bytes in its sge, and of the queue. */
static void wr_chain_take(struct wr_chain *c, struct verbs_lane *lane, struct fabric_op *op) {
    struct ibv_send_wr *wr = &c->wr[c->n];
    queue_take(&lane->queue, wr, op);
    if (c->n)
        c->wr[c->n - 1].next = wr;
    c->op[c->n++] = op;
}

static void wr_chain_message(struct wr_chain *c, struct verbs_lane *lane, struct fabric_op *op) {
    struct outbox *ob = &lane->link->outbox;
    struct ibv_send_wr *wr = &c->wr[c->n];
    struct ibv_sge *sge = &c->sge[c->n];
    bool request = link_is_request(lane->link, op);
    *wr = (struct ibv_send_wr){.opcode = request ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
                               .imm_data = request ? htobe32(WEAK_REQUEST_IMM) : 0,
                               .sg_list = sge};
    outbox_sge(ob, op, sge);
    wr->num_sge = sge->length > 0;
    if (is_weak(op))
        weak_sender_fill(lane->link, weak_kind_of(op->service), wr, sge);
    else
        op_mark(op)->address = ob->sent++;
    if (op->asks)
        ob->asked = ob->sent;
    if (sge->length <= lane->queue.inline_bytes)
        wr->send_flags |= IBV_SEND_INLINE;
    wr_chain_take(c, lane, op);
}

static void wr_chain_word(struct wr_chain *c, struct verbs_lane *lane, struct fabric_op *op) {
    struct ibv_send_wr *wr = &c->wr[c->n];
    struct ibv_sge *sge = &c->sge[c->n];
    wr->sg_list = sge;
    wr->num_sge = 1;
    wr_chain_take(c, lane, op);
    outbox_word_sge(lane, wr, sge);
}

/* 0, or why op cannot be posted. */
static int wr_chain_op(struct wr_chain *c, struct verbs_lane *lane, struct fabric_op *op) {
    const struct op_mark *mark = op_mark(op);
    if (op->opcode == RDMAD_OP_SEND) {
        wr_chain_message(c, lane, op);
        return 0;
    }
    if (fabric_op_is_atomic(op)) {
        wr_set_atomic(&c->wr[c->n], op, mark);
        wr_chain_word(c, lane, op);
        return 0;
    }
    wr_set_transfer(&c->wr[c->n], op, mark);
    int rc = wr_chain_bytes(c, lane, op);
    if (rc == 0 && (op->fault = read_seal_put(op)))
        rc = RDMAD_E_FAULT;
    if (rc == 0)
        wr_chain_take(c, lane, op);
    return rc;
}

static void wr_chain_add(struct wr_chain *c, struct verbs_lane *lane, struct fabric_op *op) {
    link_unbatch(lane, op);
    int rc = wr_chain_op(c, lane, op);
    if (rc) {
        link_doom(lane->link, op, rc);
        return;
    }
    signal_if_due(&lane->queue, &c->wr[c->n - 1], op->length);
    op_mark(op)->state = OP_POSTED;
    list_append(&lane->posted, &op->node);
    c->bytes += op->length;
}

static void wr_chain_page(struct wr_chain *c, struct verbs_lane *lane) {
    struct outbox *ob = &lane->link->outbox;
    struct ibv_sge *sge = &c->sge[c->n];
    c->wr[c->n] =
        (struct ibv_send_wr){.opcode = IBV_WR_RDMA_READ,
                             .sg_list = sge,
                             .num_sge = 1,
                             .wr.rdma = {.remote_addr = ob->to.address, .rkey = ob->to.rkey}};
    page_sge(lane->link, sge);
    wr_chain_take(c, lane, NULL);
    ob->reading = true;
}

static void wr_chain_fill(struct wr_chain *c, struct verbs_lane *lane) {
    struct verbs_link *l = lane->link;
    struct list *node;
    bool first = lane == l->lane, stalled = false;
    while (c->n < CHAIN && c->bytes < CHAIN_BYTES && (node = list_first(&lane->batch))) {
        struct fabric_op *op = list_entry(node, struct fabric_op, node);
        stalled = first && op->opcode == RDMAD_OP_SEND && !outbox_may_send(&l->outbox);
        if (stalled)
            break;
        wr_chain_add(c, lane, op);
    }
    if (first && page_wanted(l))
        wr_chain_page(c, lane);
    if (first)
        l->outbox.stalled = stalled;
    if (stalled || list_empty(&lane->batch))
        list_remove(&lane->sending); /* until the counter moves or is to be read again */
    if (first && (stalled || link_wants_page(l)) && !l->outbox.reading)
        verbs_timer_at(l->verbs, l->outbox.read_at_ns);
}

/* The device refuses from the bad one on: those were never posted, and the link is at its end. It
 * may name none: Soft-RoCE's queue had room for all, but its doorbell failed. Then nobody knows. */
static void post_failed(struct wr_chain *c, struct verbs_lane *lane, const struct ibv_send_wr *bad,
                        int rc) {
    struct verbs *v = lane->queue.verbs;
    struct verbs_link *l = lane->link;
    unsigned first = bad ? (unsigned)(bad - c->wr) : c->n;
    queue_untake(&lane->queue, c->n - first);
    for (unsigned i = first; i < c->n; i++) {
        if (!c->op[i])
            continue;
        list_remove(&c->op[i]->node);
        read_seal_take_off(c->op[i]);
        link_doom(l, c->op[i], RDMAD_E_PEER_LOST);
    }
    struct error why;
    errno = rc;
    error_errno(&why, RDMAD_E_PEER_LOST, "%s: queue pair 0x%x takes no work requests",
                v->device->name, lane->queue.qp->qp_num);
    lane_break(lane);
    link_fail(l, &why);
    if (rc == EIO || rc == ENODEV)
        host_device_failed(v->member.host, v->device, &why);
}

static void lane_post(struct verbs_lane *lane) {
    struct wr_chain c;
    struct ibv_send_wr *bad = NULL;
    c.n = 0;
    c.bytes = 0;
    wr_chain_fill(&c, lane);
    if (c.n == 0)
        return;
    c.wr[c.n - 1].send_flags |= IBV_SEND_SIGNALED;
    lane->queue.unsignalled = lane->queue.unsignalled_bytes = 0;
    int rc = ibv_post_send(lane->queue.qp, c.wr, &bad);
    lane->queue.verbs->progress += c.n;
    if (rc)
        post_failed(&c, lane, bad, rc);
}

void links_flush(struct verbs *v) {
    struct list lanes, *node;
    list_init(&lanes);
    list_splice(&lanes, &v->sending);
    while ((node = list_pop(&lanes))) { /* which a link that fails leaves with all its lanes */
        list_append(&v->sending, node); /* which a lane leaves when its batch is empty */
        lane_post(list_entry(node, struct verbs_lane, sending));
    }
}
