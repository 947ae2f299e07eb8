/* SPDX-License-Identifier: MIT */
/*
 * qp.c - one queue pair from RESET to RTS, and its end.
 *
 * Both ends take the same numbers into account and so come to the same: the smaller path MTU, and
 * no more READs at once than the one that answers them can hold. Everything else is the settings',
 * already lowered to what the device can.
 *
 * A device may give a QP more places than asked for; we never post more than we asked for, since
 * that is what the CQ has room for.
 */
#include "daemon/fabric/verbs/instance/qp.h"
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/instance/cq.h"
#include "daemon/fabric/verbs/instance/neighbour.h"
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PSN_MASK 0xffffffu

static const struct verbs_settings *qp_settings(const struct queue *q) {
    return &q->verbs->device->settings;
}

static uint8_t qp_reads(uint8_t asked, int device) {
    if (device < 0)
        return 0;
    return asked < device ? asked : (uint8_t)device;
}

/* ---- RESET and INIT ---------------------------------------------------------------------- */

static struct ibv_qp *qp_create_raw(const struct queue *q, const struct qp_spec *spec,
                                    uint32_t *inline_bytes) {
    struct ibv_qp_init_attr attr = {
        .send_cq = q->cq->cq,
        .recv_cq = q->cq->cq,
        .qp_type = spec->type ? spec->type : IBV_QPT_RC,
        /* Some devices refuse a queue of no receives. */
        .cap = {.max_send_wr = q->depth,
                .max_recv_wr = q->receives ? q->receives : 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = *inline_bytes},
    };
    struct ibv_qp *qp = ibv_create_qp(spec->pd, &attr);
    if (qp && attr.cap.max_inline_data < *inline_bytes)
        *inline_bytes = attr.cap.max_inline_data;
    return qp;
}

static int qp_to_init(const struct queue *q, const struct qp_spec *spec) {
    bool datagrams = spec->type == IBV_QPT_UD;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = qp_settings(q)->pkey_index,
                               .port_num = (uint8_t)q->verbs->device->port,
                               .qp_access_flags = spec->access,
                               .qkey = spec->qkey};
    return ibv_modify_qp(q->qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static int slot_ring_new(struct queue *q, struct error *err) {
    uint32_t places = q->depth + q->receives;
    q->ring = calloc(1, sizeof *q->ring + places * sizeof q->ring->slot[0]);
    if (!q->ring)
        return error_set(err, RDMAD_E_NOMEM, "no memory for a queue pair of depth %u", q->depth);
    list_init(&q->ring->dead);
    q->ring->size = places;
    for (uint32_t i = 0; i < places; i++)
        q->ring->slot[i].queue = q;
    return 0;
}

static int qp_create(struct queue *q, const struct qp_spec *spec, struct error *err) {
    const struct device *d = q->verbs->device;
    q->inline_bytes = spec->inline_bytes;
    q->qp = qp_create_raw(q, spec, &q->inline_bytes);
    if (!q->qp && q->inline_bytes) { /* which may be more than fits a work request there */
        q->inline_bytes = 0;
        q->qp = qp_create_raw(q, spec, &q->inline_bytes);
    }
    if (!q->qp)
        return error_errno(err, RDMAD_E_FABRIC,
                           "%s: no queue pair of depth %u (lower verbs.queue_depth, or see how "
                           "many other processes hold with `rdma resource show`)",
                           d->name, q->depth);
    if (spec->bare)
        return 0;
    int rc = qp_to_init(q, spec);
    if (rc == 0)
        return 0;
    errno = rc;
    return error_errno(err, RDMAD_E_FABRIC,
                       "%s: a queue pair cannot be initialized on port %u with verbs.pkey_index %u",
                       d->name, d->port, d->settings.pkey_index);
}

static uint32_t fewest(uint32_t asked, int device) {
    if (device < 1)
        return 1; /* which the device then refuses, or not */
    return asked < (uint32_t)device ? asked : (uint32_t)device;
}

int qp_make(struct verbs *v, struct queue *q, const struct qp_spec *spec, struct error *err) {
    const struct ibv_device_attr *has = &v->device->attr.orig_attr;
    uint32_t receives = fewest(spec->receives, has->max_qp_wr);
    *q = (struct queue){
        .verbs = v, .receives = receives, .ended = q->ended, .received = q->received};
    q->depth = fewest(fewest(spec->depth, has->max_qp_wr), has->max_cqe - (int)receives);
    if (getrandom(&q->psn, sizeof q->psn, 0) != (ssize_t)sizeof q->psn)
        return error_errno(err, RDMAD_E_SYSTEM, "no random packet number for a queue pair");
    q->psn &= PSN_MASK;
    int rc = cq_reserve(v, q->depth + q->receives, &q->cq, err);
    if (rc)
        return rc;
    rc = slot_ring_new(q, err);
    if (rc) {
        cq_unreserve(q->cq, q->depth + q->receives);
        return rc;
    }
    rc = qp_create(q, spec, err);
    if (rc)
        qp_destroy(q);
    return rc;
}

/* ---- RTR and RTS ------------------------------------------------------------------------- */

void qp_endpoint(const struct verbs *v, const struct queue *const *queues, unsigned n,
                 struct endpoint *out) {
    const struct device *d = v->device;
    const struct ibv_device_attr *attr = &d->attr.orig_attr;
    *out = (struct endpoint){
        .lid = v->port.lid,
        .link_layer = d->link_layer,
        .mtu = (uint8_t)v->port.mtu,
        .rd_atomic = qp_reads(d->settings.rd_atomic, attr->max_qp_init_rd_atom),
        .dest_rd_atomic = qp_reads(d->settings.dest_rd_atomic, attr->max_qp_rd_atom),
        .lanes = (uint8_t)n,
        .max_message = d->max_message,
    };
    memcpy(out->gid, v->port.gid.raw, sizeof out->gid);
    for (unsigned i = 0; i < n; i++) {
        out->qp_num[i] = queues[i]->qp->qp_num;
        out->psn[i] = queues[i]->psn;
    }
}

/* InfiniBand routes by LID inside a subnet and needs a global header only beyond; all else by GID.
 */
static bool needs_grh(const struct verbs *v, const struct endpoint *other) {
    if (v->device->link_layer != IBV_LINK_LAYER_INFINIBAND || other->lid == 0)
        return true;
    return memcmp(v->port.gid.raw, other->gid, sizeof(uint64_t)) != 0;
}

static struct ibv_ah_attr path_to(const struct queue *q, const struct endpoint *other) {
    const struct verbs *v = q->verbs;
    const struct verbs_settings *s = qp_settings(q);
    struct ibv_ah_attr ah = {
        .dlid = other->lid, .sl = s->service_level, .port_num = (uint8_t)v->device->port};
    if (!needs_grh(v, other))
        return ah;
    ah.is_global = 1;
    ah.grh.sgid_index = v->port.gid_index;
    ah.grh.hop_limit = s->hop_limit;
    ah.grh.traffic_class = s->traffic_class;
    memcpy(ah.grh.dgid.raw, other->gid, sizeof other->gid);
    return ah;
}

static int qp_to_rtr(const struct queue *q, const struct endpoint *other, unsigned n) {
    const struct device *d = q->verbs->device;
    const struct verbs_settings *s = qp_settings(q);
    enum ibv_mtu mtu = q->verbs->port.mtu;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = other->mtu < mtu ? other->mtu : mtu,
        .dest_qp_num = other->qp_num[n],
        .rq_psn = other->psn[n],
        .max_dest_rd_atomic = qp_reads(s->dest_rd_atomic, d->attr.orig_attr.max_qp_rd_atom),
        .min_rnr_timer = s->min_rnr_timer,
        .ah_attr = path_to(q, other),
    };
    return ibv_modify_qp(q->qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int qp_to_rts(const struct queue *q, const struct endpoint *other) {
    const struct device *d = q->verbs->device;
    const struct verbs_settings *s = qp_settings(q);
    uint8_t reads = qp_reads(s->rd_atomic, d->attr.orig_attr.max_qp_init_rd_atom);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = s->timeout,
        .retry_cnt = s->retry_count,
        .rnr_retry = s->rnr_retry,
        .sq_psn = q->psn,
        .max_rd_atomic = qp_reads(reads, other->dest_rd_atomic),
    };
    return ibv_modify_qp(q->qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int connect_failed(const struct queue *q, const struct endpoint *other, unsigned n, int rc,
                          const char *state, struct error *err) {
    char gid[INET6_ADDRSTRLEN];
    inet_ntop(AF_INET6, other->gid, gid, sizeof gid);
    errno = rc;
    return error_errno(err, RDMAD_E_FABRIC,
                       "%s: queue pair 0x%x does not connect to 0x%x at LID %u GID %s by our GID "
                       "index %u (%s; `rdmactl device show` lists GIDs and limits)",
                       q->verbs->device->name, q->qp->qp_num, other->qp_num[n], other->lid, gid,
                       q->verbs->port.gid_index, state);
}

int qp_find_way(const struct queue *q, const uint8_t to[16], struct error *err) {
    char gid[INET6_ADDRSTRLEN];
    if (neighbour_known(q->verbs, to))
        return 0;
    inet_ntop(AF_INET6, to, gid, sizeof gid);
    return error_set(err, RDMAD_E_UNREACHABLE,
                     "%s: the peer's GID %s is being looked for and has not answered yet: if it "
                     "never does, `ping` its address from the device's interface",
                     q->verbs->device->name, gid);
}

int qp_connect(struct queue *q, const struct endpoint *other, unsigned n, struct error *err) {
    const struct device *d = q->verbs->device;
    if (other->link_layer != d->link_layer)
        return error_set(err, RDMAD_E_FABRIC,
                         "%s is %s and the peer's device is %s: they cannot be connected; choose "
                         "another by verbs.device",
                         d->name,
                         d->link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand",
                         other->link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
    int rc = n == 0 ? qp_find_way(q, other->gid, err) : 0;
    if (rc)
        return rc;
    rc = qp_to_rtr(q, other, n);
    if (rc)
        return connect_failed(q, other, n, rc, "ready to receive", err);
    rc = qp_to_rts(q, other);
    if (rc)
        return connect_failed(q, other, n, rc, "ready to send", err);
    q->other = other->qp_num[n];
    q->connected = true;
    return 0;
}

/* ---- UD and UC --------------------------------------------------------------------------- */

int weak_qp_path(const struct queue *path, struct ibv_qp_attr *out) {
    struct ibv_qp_init_attr init;
    return ibv_query_qp(path->qp, out, IBV_QP_AV | IBV_QP_PATH_MTU, &init);
}

int weak_qp_find_way(const struct queue *path) {
    struct ibv_qp_attr known;
    int rc = weak_qp_path(path, &known);
    if (rc)
        return rc;
    const struct ibv_ah_attr *to = &known.ah_attr;
    return !to->is_global || neighbour_known(path->verbs, to->grh.dgid.raw) ? 0 : EAGAIN;
}

int weak_qp_open(struct queue *q, enum weak_kind kind, const struct queue *path, uint32_t other,
                 uint32_t psn) {
    assert(q->qp && !q->connected && path->connected);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR}, known;
    int mask = IBV_QP_STATE;
    if (kind == WEAK_UNACKED) {
        int rc = weak_qp_path(path, &known);
        if (rc)
            return rc;
        attr.ah_attr = known.ah_attr;
        attr.path_mtu = known.path_mtu;
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

/* ---- its end ----------------------------------------------------------------------------- */

void qp_break(struct queue *q) {
    if (!q->qp || q->broken)
        return;
    q->broken = true;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    int rc = ibv_modify_qp(q->qp, &attr, IBV_QP_STATE);
    bool gone = rc == EIO || rc == ENODEV; /* the device: nothing is acknowledged any more */
    if (rc && !gone)                       /* flushes are only waited for for a bounded time */
        LOG_LIMITED(WARNING, ("%s: queue pair 0x%x cannot be broken: error %d",
                              q->verbs->device->name, q->qp->qp_num, rc));
}

static int qp_try_destroy(struct queue *q) {
    int rc = ibv_destroy_qp(q->qp);
    if (rc == 0)
        return 0;
    qp_break(q); /* whatever held it: it must not move bytes any more */
    return ibv_destroy_qp(q->qp);
}

void qp_destroy(struct queue *q) {
    if (q->qp) {
        int rc = qp_try_destroy(q);
        if (rc)
            LOG_LIMITED(ERR, ("%s: queue pair 0x%x cannot be destroyed: error %d",
                              q->verbs->device->name, q->qp->qp_num, rc));
        q->qp = NULL;
    }
    q->connected = false;
    if (!q->ring)
        return;
    for (uint32_t i = 0; i < q->ring->size; i++)
        q->ring->slot[i].queue = NULL;
    list_append(&q->cq->dead, &q->ring->dead);
    q->ring = NULL;
    q->cq = NULL;
    q->head = q->tail = 0;
}

bool qp_in_error(const struct queue *q) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    return q->broken || ibv_query_qp(q->qp, &attr, IBV_QP_STATE, &init) ||
           attr.qp_state == IBV_QPS_ERR || attr.qp_state == IBV_QPS_SQE;
}

bool qp_event_is_bad(enum ibv_event_type event) {
    return event == IBV_EVENT_QP_FATAL || event == IBV_EVENT_QP_REQ_ERR ||
           event == IBV_EVENT_QP_ACCESS_ERR;
}
