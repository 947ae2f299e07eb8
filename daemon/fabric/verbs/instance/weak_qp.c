/* SPDX-License-Identifier: MIT */
/*
 * weak_qp.c - UD and UC queue pairs.
 */
#include "daemon/fabric/verbs/instance/weak_qp.h"
#include <assert.h>

int weak_qp_make(struct verbs *v, struct queue *q, enum weak_kind kind, const struct qp_spec *spec,
                 struct error *err) {
    struct qp_spec s = *spec;
    s.type = kind == WEAK_DATAGRAM ? IBV_QPT_UD : IBV_QPT_UC;
    return qp_make(v, q, &s, err);
}

int weak_qp_path(const struct queue *path, struct ibv_qp_attr *out) {
    struct ibv_qp_init_attr init;
    return ibv_query_qp(path->qp, out, IBV_QP_AV | IBV_QP_PATH_MTU, &init);
}

int weak_qp_open(struct queue *q, enum weak_kind kind, const struct queue *path, uint32_t other,
                 uint32_t psn) {
    assert(q->qp && !q->connected && path->connected);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR}, way;
    int mask = IBV_QP_STATE;
    if (kind == WEAK_UNACKED) {
        int rc = weak_qp_path(path, &way);
        if (rc)
            return rc;
        attr.ah_attr = way.ah_attr;
        attr.path_mtu = way.path_mtu;
        attr.dest_qp_num = other;
        attr.rq_psn = psn;
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    }
    int rc = ibv_modify_qp(q->qp, &attr, mask);
    if (rc)
        return rc;
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = q->psn};
    rc = ibv_modify_qp(q->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    q->other = other;
    q->connected = rc == 0;
    return rc;
}
