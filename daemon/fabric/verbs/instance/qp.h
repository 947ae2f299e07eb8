/* SPDX-License-Identifier: MIT */
/*
 * qp.h - a queue pair from RESET to RTS, and its end.
 */
#ifndef RDMAD_FABRIC_VERBS_INSTANCE_QP_H
#define RDMAD_FABRIC_VERBS_INSTANCE_QP_H

#include "daemon/fabric/verbs/instance/queue.h"
#include "daemon/fabric/verbs/wire/blob.h"
#include "daemon/fabric/verbs/wire/page.h"

struct qp_spec {
    struct ibv_pd *pd;
    enum ibv_qp_type type; /* 0: RC */
    uint32_t qkey;         /* of UD */
    uint32_t depth;        /* work requests that we post; at least 1 */
    uint32_t receives;     /* and receives */
    uint32_t inline_bytes;
    unsigned access; /* what the other end may do by it: IBV_ACCESS_REMOTE_* */
    bool bare;       /* stays in RESET: rdma_cm takes it further, then sets connected */
};

/* Makes a QP in INIT; qp_connect takes it to RTS towards the other end's n-th. */
int qp_make(struct verbs *v, struct queue *q, const struct qp_spec *spec, struct error *err);
int qp_connect(struct queue *q, const struct endpoint *other, unsigned n, struct error *err);
/* Whether the kernel knows the way to that GID, so that to connect a QP to it waits for nothing: 0,
 * or RDMAD_E_UNREACHABLE while it is being looked for. */
int qp_find_way(const struct queue *q, const uint8_t to[16], struct error *err);
void qp_break(struct queue *q); /* to ERR: what is posted comes back flushed */
/* Afterwards nothing of it touches memory, and ended is not called any more: the caller tells
 * whoever waits for its work requests. Harmless when the QP was not made. */
void qp_destroy(struct queue *q);
/* Whether the QP cannot go on: asked of the device now; or as an event says, perhaps late. */
bool qp_in_error(const struct queue *q);
bool qp_event_is_bad(enum ibv_event_type event);
/* Our end as a blob has it; queues are n QPs of one connection. */
void qp_endpoint(const struct verbs *v, const struct queue *const *queues, unsigned n,
                 struct endpoint *out);

/* QPs of weak messages (wire/page.h), at both ends. */
static inline enum ibv_qp_type weak_qp_type(enum weak_kind kind) {
    return kind == WEAK_DATAGRAM ? IBV_QPT_UD : IBV_QPT_UC;
}
/* Takes q from INIT to RTS. path is a QP that is connected to the same port there, whose AV and
 * path MTU weak_qp_path tells. Both return 0 or an errno. */
int weak_qp_open(struct queue *q, enum weak_kind kind, const struct queue *path, uint32_t other,
                 uint32_t psn);
int weak_qp_path(const struct queue *path, struct ibv_qp_attr *out);
/* As qp_find_way, to where path leads: what is connected there did not keep the way known. 0,
 * EAGAIN while it is being looked for, or another errno. */
int weak_qp_find_way(const struct queue *path);

#endif
