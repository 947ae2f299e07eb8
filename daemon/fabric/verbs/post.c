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
 * What cannot be posted (a malformed key, memory that the device does not know, memory that
 * vanished) is doomed: it was taken, so poll gives it back, and the link goes on.
 */
#include "daemon/base/clock.h"
#include "daemon/base/guard.h"
#include "daemon/fabric/verbs/link.h"
#include <errno.h>
#include <stdlib.h>

#define CHAIN 64u                /* work requests of one doorbell, */
#define CHAIN_BYTES (16u << 10)  /* and bytes after which none is added */
#define SIGNAL_BYTES (64u << 10) /* as many at most without a completion */

static struct link *link_of(struct fabric_link *fl) {
    return container_of(fl, struct link, base);
}

/* ---- giving back ------------------------------------------------------------------------- */

void link_complete(struct link *l, struct fabric_op *op, int status, uint8_t outcome) {
    struct verbs *v = l->verbs;
    op->status = status;
    op->outcome = outcome;
    v->progress++;
    if (--l->ops == 0 && l->state == LINK_FAILING)
        link_tell(l);
    v->env->complete(v->env->user, op);
}

void link_doom(struct link *l, struct fabric_op *op, int status) {
    op_mark(op)->state = OP_DOOMED;
    op->status = status;
    op->outcome = RDMAD_FAILED_UNTOUCHED;
    list_append(&l->doomed, &op->node);
    link_tell(l);
}

static void complete_doomed(struct link *l, struct fabric_op *op) {
    struct verbs *v = l->verbs;
    const void *fault = op->fault;
    list_remove(&op->node);
    link_complete(l, op, op->status, op->outcome);
    if (fault)
        v->env->memory_fault(v->env->user, fault);
}

void link_complete_doomed(struct link *l) {
    struct list *node;
    while ((node = list_first(&l->doomed)))
        complete_doomed(l, list_entry(node, struct fabric_op, node));
}

static void unbatch(struct lane *lane, struct fabric_op *op) {
    list_remove(&op->node);
    if (--lane->batched == 0)
        list_remove(&lane->sending);
}

void link_doom_batches(struct link *l) {
    for (unsigned i = 0; i < l->lanes; i++) {
        struct list *node;
        while ((node = list_first(&l->lane[i].batch))) {
            struct fabric_op *op = list_entry(node, struct fabric_op, node);
            unbatch(&l->lane[i], op);
            link_doom(l, op, RDMAD_E_PEER_LOST);
        }
    }
}

/* ---- posting: the caller's side ---------------------------------------------------------- */

static struct lane *emptiest(struct link *l) {
    struct lane *best = NULL;
    uint32_t most = 0;
    for (unsigned i = 0; i < l->lanes; i++) {
        struct lane *lane = &l->lane[i];
        uint32_t room = queue_room(&lane->queue);
        if (room > lane->batched && room - lane->batched > most) {
            most = room - lane->batched;
            best = lane;
        }
    }
    return best;
}

/* Where the op goes, by its key: 0, or why it cannot. */
static int aim(const struct link *l, const struct fabric_op *op, unsigned lane,
               struct op_mark *mark) {
    struct verbs_key key;
    if (op->length > l->base.max_message)
        return RDMAD_E_LENGTH;
    if (!blob_read_key(op->key, &key) || (key.count > 1 && lane >= key.count))
        return RDMAD_E_PROTOCOL;
    if (op->opcode == RDMAD_OP_READ && !l->reads)
        return RDMAD_E_FABRIC;
    mark->address = key.address + op->offset;
    mark->rkey = key.rkey[key.count > 1 ? lane : 0];
    return 0;
}

int verbs_post(struct fabric_link *fl, struct fabric_op *op) {
    struct link *l = link_of(fl);
    if (l->state != LINK_CONNECTED && l->state != LINK_UP)
        return RDMAD_E_PEER_LOST;
    struct lane *lane = emptiest(l);
    if (!lane)
        return RDMAD_E_AGAIN;
    op->link = fl;
    op->fault = NULL;
    list_init(&op->node);
    unsigned n = (unsigned)(lane - l->lane);
    struct op_mark *mark = op_mark(op);
    *mark = (struct op_mark){.lane = (uint8_t)n, .state = OP_BATCHED};
    l->ops++;
    int rc = aim(l, op, n, mark);
    if (rc) {
        link_doom(l, op, rc);
        return 0;
    }
    list_append(&lane->batch, &op->node);
    if (lane->batched++ == 0)
        list_append(&l->verbs->sending, &lane->sending);
    return 0;
}

void verbs_cancel(struct fabric_op *op, int status) {
    struct link *l = link_of(op->link);
    struct verbs *v = l->verbs;
    struct op_mark *mark = op_mark(op);
    if (mark->state == OP_DOOMED) {
        complete_doomed(l, op);
    } else if (mark->state == OP_BATCHED) {
        unbatch(&l->lane[mark->lane], op);
        link_complete(l, op, status, RDMAD_FAILED_UNTOUCHED);
    } else if (mark->cancel_status == 0) {
        mark->cancel_status = status;
        mark->cancel_ns = clock_after(v->env->now_ns(v->env->user), v->settings->quiesce_ns);
        l->cancelled++;
        verbs_timer_at(v, mark->cancel_ns);
    }
}

/* ---- posting: the device's side ---------------------------------------------------------- */

struct chain {
    struct ibv_send_wr wr[CHAIN];
    struct ibv_sge sge[CHAIN];
    struct fabric_op *op[CHAIN];
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
static int add_bytes(struct chain *c, struct lane *lane, struct fabric_op *op) {
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

static void chain_add(struct chain *c, struct lane *lane, struct fabric_op *op) {
    struct link *l = lane->link;
    struct op_mark *mark = op_mark(op);
    struct ibv_send_wr *wr = &c->wr[c->n];
    *wr = (struct ibv_send_wr){.opcode = op->opcode == RDMAD_OP_READ ? IBV_WR_RDMA_READ
                                                                     : IBV_WR_RDMA_WRITE,
                               .wr.rdma = {.remote_addr = mark->address, .rkey = mark->rkey}};
    unbatch(lane, op);
    int rc = add_bytes(c, lane, op);
    if (rc) {
        link_doom(l, op, rc);
        return;
    }
    queue_take(&lane->queue, wr, op);
    signal_if_due(&lane->queue, wr, op->length);
    mark->state = OP_POSTED;
    list_append(&lane->posted, &op->node);
    if (c->n)
        c->wr[c->n - 1].next = wr;
    c->op[c->n++] = op;
    c->bytes += op->length;
}

/* The device refuses from the bad one on: those were never posted, and the link is at its end. It
 * may name none: Soft-RoCE's queue had room for all, but its doorbell failed. Then nobody knows. */
static void post_failed(struct chain *c, struct lane *lane, const struct ibv_send_wr *bad, int rc) {
    struct verbs *v = lane->queue.verbs;
    struct link *l = lane->link;
    unsigned first = bad ? (unsigned)(bad - c->wr) : c->n;
    queue_untake(&lane->queue, c->n - first);
    for (unsigned i = first; i < c->n; i++) {
        list_remove(&c->op[i]->node);
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

static void lane_post(struct lane *lane) {
    struct chain c;
    struct ibv_send_wr *bad = NULL;
    struct list *node;
    c.n = 0;
    c.bytes = 0;
    while (c.n < CHAIN && c.bytes < CHAIN_BYTES && (node = list_first(&lane->batch)))
        chain_add(&c, lane, list_entry(node, struct fabric_op, node));
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
        lane_post(list_entry(node, struct lane, sending));
    }
}
