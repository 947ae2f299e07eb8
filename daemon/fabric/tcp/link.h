/* SPDX-License-Identifier: MIT */
/*
 * link.h - the asking end: requests on their way, and how memory is taken back from them.
 */
#ifndef RDMAD_FABRIC_TCP_LINK_H
#define RDMAD_FABRIC_TCP_LINK_H

#include "daemon/fabric/tcp/conn.h"

struct pending {          /* a request on its way, in order of its number */
    struct fabric_op *op; /* NULL: canceled or failed already, only its answer is awaited */
    uint8_t type;         /* FRAME_* of the request */
    bool word;            /* its answer is one */
    uint32_t length;
    uint64_t starts, ends; /* of its frame, in the stream */
    uint8_t *header;       /* in the send queue; meaningful until `starts` is sent */
};
struct tcp_link {
    struct fabric_link base;
    struct tcp_conn conn;
    struct tcp_share share;
    void *cookie;
    struct pending *pending;
    uint32_t mask;        /* of pending */
    uint64_t head, tail;  /* numbers: the oldest unanswered, the next one */
    bool answering;       /* head's DATA header has come, the answer is not complete */
    bool final;           /* and no STATUS will follow */
    bool touched;         /* and some of it is in op->local */
    bool ended;           /* by link_close */
    struct list refused;  /* refused ops, on their way out while the link ends */
    uint8_t *staged;      /* the rest of a canceled WRITE that is half sent */
    bool encrypt;         /* it is not to be in clear */
    uint64_t deadline_ns; /* of dialling */
    uint8_t token[FRAME_TOKEN_BYTES];
};

void tcp_link_close(struct fabric_link *l);
int tcp_post(struct fabric_link *l, struct fabric_op *op);
void tcp_cancel(struct fabric_op *op, int status);

static inline struct tcp_link *link_of_conn(struct tcp_conn *c) {
    return container_of(c, struct tcp_link, conn);
}

static inline struct pending *link_pending(struct tcp_link *l, uint64_t number) {
    return &l->pending[number & l->mask];
}

/* Members of its role: the memory of a piece is gone; the connection is lost. */
void link_tx_fault(struct tcp_conn *c, struct piece *piece);
void link_lost(struct tcp_conn *c, const struct error *why);

#endif
