/* SPDX-License-Identifier: MIT */
/*
 * queue.h - the work requests of a QP: the places that they take, and their completions in order.
 *
 * A QP completes its work requests in order, so a completion ends all before it, and only one in
 * several is signalled. qp.c makes the QP behind a queue, cq.c brings the completions.
 */
#ifndef RDMAD_FABRIC_VERBS_INSTANCE_QUEUE_H
#define RDMAD_FABRIC_VERBS_INSTANCE_QUEUE_H

#include "daemon/fabric/verbs/instance/instance.h"

struct queue;

/* One work request under way. wr_id is the address of this. */
struct wr_slot {
    struct queue *queue; /* NULL: its QP is gone, a late completion means nothing */
    void *user;          /* the fabric_op, or the window being bound; NULL: nobody waits */
    uint64_t sequence;
};

/* The work requests of a QP, completed in order. */
struct slot_ring {
    struct list dead; /* in cq.dead once the QP is gone, until no completion in the CQ can name it
                         any more */
    uint32_t size;
    struct wr_slot slot[]; /* the queue's depth of them, then one a receive */
};

/* A QP as we post on it. */
struct queue {
    struct verbs *verbs;
    struct ibv_qp *qp; /* NULL: destroyed or not made */
    struct cq *cq;
    struct slot_ring *ring;
    uint32_t depth;    /* as asked, or what the device has */
    uint32_t receives; /* likewise */
    uint32_t inline_bytes;
    uint64_t head, tail;                     /* sequences: the oldest under way, the next */
    uint32_t unsignalled, unsignalled_bytes; /* posted since the last that was signalled */
    uint32_t psn;                            /* of what we send */
    uint32_t other;                          /* number of the QP it is connected to */
    bool connected;                          /* in RTS */
    bool broken;                             /* in ERR, as far as we know */
    /* The work request ended; called in order, once for each posted. May end its owner. */
    void (*ended)(struct queue *q, struct wr_slot *slot, const struct ibv_wc *wc);
    /* The same of the n-th receive, which may be posted again. NULL: there are none. */
    void (*received)(struct queue *q, uint32_t n, const struct ibv_wc *wc);
};

/* Posting: queue_room says how many more can be posted; queue_take fills in wr_id and takes a
 * place; queue_untake gives the last n places back if they were not posted after all. */
static inline uint32_t queue_room(const struct queue *q) {
    return q->depth - (uint32_t)(q->tail - q->head);
}
void queue_take(struct queue *q, struct ibv_send_wr *wr, void *user);
void queue_untake(struct queue *q, unsigned n);
/* Posts the n-th receive: 0, or the device's errno. */
int queue_receive(struct queue *q, uint32_t n, struct ibv_sge *sge);
/* A completion of a live queue: ends all work requests up to its slot, those before it as
 * successful. */
void queue_completed(struct queue *q, const struct ibv_wc *wc);

#endif
