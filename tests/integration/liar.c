/* SPDX-License-Identifier: MIT */
/*
 * liar.c - see liar.h. Plain verbs, apart from the blobs, which are the daemon's own code.
 */
#include "tests/integration/liar.h"

#include "tests/support/harness.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 32, PIECE = 64 << 10, PSN = 0x1234 };

/* ---- the device ---------------------------------------------------------------------------- */

static struct ibv_context *open_device(const char *name) {
    int count;
    struct ibv_context *context = NULL;
    struct ibv_device **list = ibv_get_device_list(&count);
    for (int i = 0; list && i < count; i++)
        if (strcmp(ibv_get_device_name(list[i]), name) == 0)
            context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    CHECK(context, "no device %s", name);
    return context;
}

/* The RoCE v2 GID that stands for an IPv4 address. */
static void find_gid(struct liar *l) {
    struct ibv_gid_entry table[64];
    ssize_t n = ibv_query_gid_table(l->context, table, 64, 0);
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    for (ssize_t i = 0; i < n; i++) {
        if (table[i].gid_type != IBV_GID_TYPE_ROCE_V2 ||
            memcmp(table[i].gid.raw, mapped, sizeof(mapped)) != 0)
            continue;
        l->gid = table[i].gid;
        l->gid_index = (uint8_t)table[i].gid_index;
        return;
    }
    CHECK(0, "no IPv4 GID among %zd", n);
}

void liar_open(struct liar *l, const char *device, const char *listen) {
    *l = (struct liar){.context = open_device(device)};
    find_gid(l);
    l->pd = ibv_alloc_pd(l->context);
    l->cq = ibv_create_cq(l->context, 2 * DEPTH, NULL, NULL, 0);
    l->buffer = aligned_alloc(4096, LIAR_BUFFER);
    CHECK(l->pd && l->cq && l->buffer, "a PD, a CQ and a buffer");
    l->mr = ibv_reg_mr(l->pd, l->buffer, LIAR_BUFFER, IBV_ACCESS_LOCAL_WRITE);
    CHECK(l->mr, "a registration");
    false_peer_connect(&l->peer, listen, "verbs");
}

static void drop_qp(struct liar *l) {
    struct ibv_wc wc;
    if (l->qp)
        ibv_destroy_qp(l->qp);
    l->qp = NULL;
    while (ibv_poll_cq(l->cq, 1, &wc) > 0)
        ;
}

void liar_close(struct liar *l) {
    false_peer_close(&l->peer);
    drop_qp(l);
    ibv_dereg_mr(l->mr);
    ibv_destroy_cq(l->cq);
    ibv_dealloc_pd(l->pd);
    ibv_close_device(l->context);
    free(l->buffer);
}

/* ---- the link ------------------------------------------------------------------------------ */

static void make_qp(struct liar *l) {
    struct ibv_qp_init_attr init = {
        .send_cq = l->cq,
        .recv_cq = l->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    l->qp = ibv_create_qp(l->pd, &init);
    CHECK(l->qp, "a QP");
    CHECK(ibv_modify_qp(l->qp, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
          "INIT");
}

static void connect_qp(struct liar *l, const struct endpoint *there) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = there->qp_num[0],
                               .rq_psn = there->psn[0],
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = 12,
                               .ah_attr = {.is_global = 1,
                                           .port_num = 1,
                                           .grh = {.sgid_index = l->gid_index, .hop_limit = 64}}};
    memcpy(attr.ah_attr.grh.dgid.raw, there->gid, 16);
    CHECK(ibv_modify_qp(l->qp, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
          "RTR");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .timeout = 14,
                                .retry_cnt = 6,
                                .rnr_retry = 6,
                                .sq_psn = PSN,
                                .max_rd_atomic = 1};
    CHECK(ibv_modify_qp(l->qp, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
          "RTS");
}

static void ask_for_link(struct liar *l, const struct verbs_hello *hello, struct peer_msg *m) {
    *m = (struct peer_msg){.type = PEER_MSG_LINK_REQ, .link_req.ref = ++l->refs};
    blob_write_hello(hello, &m->link_req.hello);
    false_peer_say(&l->peer, m);
    do
        false_peer_await(&l->peer, PEER_MSG_LINK_REP, m);
    while (m->link_rep.ref != l->refs);
    if (m->link_rep.status == RDMAD_E_UNREACHABLE)
        sleep_ms(10);
}

void liar_link(struct liar *l) {
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    struct verbs_offer offer;
    drop_qp(l);
    make_qp(l);
    struct verbs_hello hello = {.end = {.link_layer = IBV_LINK_LAYER_ETHERNET,
                                        .mtu = IBV_MTU_1024,
                                        .rd_atomic = 1,
                                        .dest_rd_atomic = 1,
                                        .lanes = 1,
                                        .max_message = 1 << 20,
                                        .qp_num = {l->qp->qp_num},
                                        .psn = {PSN}}};
    memcpy(hello.end.gid, l->gid.raw, 16);
    struct peer_msg m;
    do /* as an honest daemon does while the owner's looks for our address */
        ask_for_link(l, &hello, &m);
    while (m.link_rep.status == RDMAD_E_UNREACHABLE && now_ms() < until);
    CHECK(m.link_rep.status == 0, "link: %s", m.link_rep.text);
    CHECK(blob_read_offer(&m.link_rep.offer, &offer) && !offer.cm, "not an offer of verbs");
    connect_qp(l, &offer.end);
    l->number = offer.number;
}

void liar_attach(struct liar *l, const char *uri, struct liar_lease *out) {
    struct peer_attach_rep rep;
    uint64_t ref = ++l->refs;
    false_peer_attach(&l->peer, uri, ref, 0, &rep);
    if (!l->qp)
        liar_link(l);
    struct peer_msg m = {.type = PEER_MSG_KEY_REQ,
                         .key_req = {.owner_ref = rep.owner_ref, .via = l->number}};
    false_peer_say(&l->peer, &m);
    do
        false_peer_await(&l->peer, PEER_MSG_KEY_REP, &m);
    while (m.key_rep.lessee_ref != ref);
    CHECK(m.key_rep.status == 0, "key: %s", m.key_rep.text);
    *out = (struct liar_lease){.owner_ref = rep.owner_ref, .length = rep.length};
    CHECK(blob_read_key(&m.key_rep.key, &out->key), "not a key of verbs");
}

/* ---- accesses ------------------------------------------------------------------------------ */

static void post(struct liar *l, enum ibv_wr_opcode opcode, uint64_t address, uint32_t rkey,
                 size_t at, size_t length) {
    struct ibv_sge sge = {
        .addr = (uintptr_t)l->buffer + at, .length = (uint32_t)length, .lkey = l->mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = opcode,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.rdma = {.remote_addr = address, .rkey = rkey}};
    CHECK(ibv_post_send(l->qp, &wr, &bad) == 0, "post");
}

static enum ibv_wc_status completion(struct liar *l) {
    struct ibv_wc wc;
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    while (ibv_poll_cq(l->cq, 1, &wc) == 0)
        CHECK(now_ms() < until, "a completion that does not come");
    return wc.status;
}

enum ibv_wc_status liar_write(struct liar *l, uint64_t address, uint32_t rkey, size_t length,
                              uint8_t value) {
    memset(l->buffer, value, length);
    post(l, IBV_WR_RDMA_WRITE, address, rkey, 0, length);
    return completion(l);
}

enum ibv_wc_status liar_read(struct liar *l, uint64_t address, uint32_t rkey, size_t length) {
    post(l, IBV_WR_RDMA_READ, address, rkey, 0, length);
    return completion(l);
}

/* ---- the flood ----------------------------------------------------------------------------- */

static void hear_owner(struct liar *l) {
    struct peer_msg m;
    while (false_peer_hear(&l->peer, 0, &m)) {
        if (m.type != PEER_MSG_REVOKED || !l->says_stopped)
            continue;
        m = (struct peer_msg){.type = PEER_MSG_STOPPED, .stopped.owner_ref = l->owner_ref};
        false_peer_say(&l->peer, &m);
    }
}

static void *flood(void *arg) {
    struct liar *l = arg;
    uint64_t pieces = l->length / PIECE, n = 0;
    unsigned flying = 0;
    memset(l->buffer, 0x11, LIAR_BUFFER);
    while (!l->stop && !l->refused) {
        struct ibv_wc wc;
        while (flying < DEPTH / 2) {
            post(l, IBV_WR_RDMA_WRITE, l->address + n % pieces * PIECE, l->rkey,
                 n % (LIAR_BUFFER / PIECE) * PIECE, PIECE);
            n++;
            flying++;
        }
        while (ibv_poll_cq(l->cq, 1, &wc) > 0) {
            flying--;
            if (wc.status == IBV_WC_SUCCESS)
                l->written += PIECE;
            else if (!l->refused)
                l->refused = (int)wc.status;
        }
        hear_owner(l);
    }
    return NULL;
}

void liar_start(struct liar *l, const struct liar_lease *lease, bool says_stopped) {
    l->address = lease->key.address;
    l->rkey = lease->key.rkey[0];
    l->length = lease->length;
    l->owner_ref = lease->owner_ref;
    l->says_stopped = says_stopped;
    l->stop = false;
    l->written = 0;
    l->refused = 0;
    CHECK(pthread_create(&l->thread, NULL, flood, l) == 0, "thread");
}

void liar_stop(struct liar *l) {
    l->stop = true;
    pthread_join(l->thread, NULL);
    drop_qp(l);
}
