/* SPDX-License-Identifier: MIT */
#include "tests/unit/verbs_rig.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RAW_DEPTH 64

/* ---- a side -------------------------------------------------------------------------------- */

static uint64_t side_now(void *user) {
    return clock_now_ns() + ((struct side *)user)->skew_ns;
}

static void side_complete(void *user, struct fabric_op *op) {
    (void)op;
    ((struct side *)user)->completed++;
}

static uint64_t side_received(void *user, uint64_t peer, uint64_t number, const void *bytes,
                              size_t size) {
    struct side *s = user;
    (void)peer;
    (void)number;
    (void)bytes;
    s->messages++;
    s->message_bytes += size;
    if (s->received)
        s->received(s);
    return 0;
}

static void side_up(void *user, void *cookie) {
    (void)cookie;
    ((struct side *)user)->up++;
}

static void side_lost(void *user, void *cookie, const struct error *why) {
    struct side *s = user;
    (void)cookie;
    s->lost++;
    s->why = *why;
}

static void side_opened(void *user, void *cookie, const struct fabric_blob *key,
                        const struct error *err) {
    struct wnd *w = cookie;
    (void)user;
    CHECK(w->opened + w->failed + w->closed == 0, "told of a window after its end");
    if (err) {
        w->err = *err;
        w->failed++;
        return;
    }
    w->blob = *key;
    CHECK(blob_read_key(key, &w->key), "a key that is none");
    w->opened++;
}

static void side_closed(void *user, void *cookie) {
    struct wnd *w = cookie;
    (void)user;
    CHECK(w->closed == 0 && w->failed == 0, "a window was closed twice");
    w->closed++;
}

void side_defaults(struct side *s, const char *device) {
    *s = (struct side){
        .settings = {.listen_host = "127.0.0.1",
                     .max_inflight = 256,
                     .token_ttl_ns = 10 * NSEC_PER_SEC,
                     .connect_timeout_ns = 5 * NSEC_PER_SEC,
                     .verbs = {.windows = WINDOWS_REGISTRATIONS,
                               .lanes = 1,
                               .queue_depth = 64,
                               .inline_bytes = 64,
                               .signal_every = 16,
                               .max_message = 1u << 20,
                               .hop_limit = 64,
                               .timeout = 12,
                               .retry_count = 3,
                               .rnr_retry = 3,
                               .min_rnr_timer = 12,
                               .rd_atomic = 16,
                               .dest_rd_atomic = 16,
                               .quiesce_ns = NSEC_PER_SEC,
                               .links_per_peer = 64}},
    };
    snprintf(s->settings.verbs.device, sizeof(s->settings.verbs.device), "%s", device);
    s->env = (struct fabric_env){.user = s,
                                 .now_ns = side_now,
                                 .complete = side_complete,
                                 .link_up = side_up,
                                 .link_lost = side_lost,
                                 .received = side_received,
                                 .window_opened = side_opened,
                                 .window_closed = side_closed};
}

void side_open(struct side *s) {
    struct error err = {0};
    s->env.user = s;
    s->env.settings = &s->settings;
    CHECK(host_open(&s->settings, &s->host, &err) == 0, "%s", err.text);
    s->env.host = s->host;
    CHECK(fabric_verbs.open(&s->env, &s->fabric, &err) == 0, "%s", err.text);
    SIDE_UNTIL(s, verbs_of(s->fabric)->device);
}

void side_close(struct side *s) {
    fabric_verbs.close(s->fabric);
    host_close(s->host);
}

void side_turn(struct side *s) {
    uint64_t wake_ns;
    fabric_verbs.poll(s->fabric);
    fabric_verbs.arm(s->fabric, &wake_ns); /* so that the next turn looks at every descriptor */
}

/* ---- windows ------------------------------------------------------------------------------- */

int wnd_ask(struct side *s, struct wnd *w, uint64_t peer, const struct range *r) {
    *w = (struct wnd){0};
    struct fabric_window_spec spec = {
        .peer = peer,
        .via = r->via,
        .cookie = w,
        .base = r->base,
        .memory = r->memory,
        .length = r->length,
        .rights = r->rights,
        .deadline_ns = CLOCK_NEVER,
        .lease_id = 1,
        .owner = r->owner,
        .audit = &w->audit,
    };
    int rc = fabric_verbs.window_open(s->fabric, &spec, &w->window, &w->blob, &w->err);
    if (rc == 0) {
        CHECK(blob_read_key(&w->blob, &w->key), "a key that is none");
        w->opened++;
    }
    return rc;
}

void wnd_open(struct side *s, struct wnd *w, uint64_t peer, const struct range *r) {
    int rc = wnd_ask(s, w, peer, r);
    CHECK(rc >= 0, "%s", w->err.text);
    SIDE_UNTIL(s, w->opened || w->failed);
    CHECK(w->opened, "%s", w->err.text);
}

void wnd_close(struct side *s, struct wnd *w) {
    if (fabric_verbs.window_close(w->window, RDMAD_E_LEASE_REVOKED))
        return;
    SIDE_UNTIL(s, w->closed);
}

/* ---- bare verbs ---------------------------------------------------------------------------- */

uint8_t *map_pages(size_t bytes) {
    void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                   -1, 0);
    CHECK(m != MAP_FAILED, "no memory for the test");
    return m;
}

static struct ibv_context *open_device(const char *name) {
    int n;
    struct ibv_context *context = NULL;
    struct ibv_device **list = ibv_get_device_list(&n);
    for (int i = 0; list && i < n; i++)
        if (strcmp(ibv_get_device_name(list[i]), name) == 0)
            context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    CHECK(context, "no device %s", name);
    return context;
}

/* The first GID that stands for an IPv4 address. */
static void find_gid(struct raw *r) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    union ibv_gid gid;
    for (int i = 0; ibv_query_gid(r->context, 1, i, &gid) == 0; i++) {
        if (memcmp(gid.raw, mapped, sizeof(mapped)) != 0)
            continue;
        r->gid_index = (uint8_t)i;
        memcpy(r->gid, gid.raw, sizeof(r->gid));
        return;
    }
    CHECK(false, "no GID for an IPv4 address");
}

void raw_open(struct raw *r, const char *device, size_t bytes) {
    *r = (struct raw){.bytes = bytes, .buffer = map_pages(bytes)};
    r->context = open_device(device);
    find_gid(r);
    CHECK((r->pd = ibv_alloc_pd(r->context)), "no PD");
    CHECK((r->cq = ibv_create_cq(r->context, VERBS_LANES_MAX * RAW_DEPTH * 2, NULL, NULL, 0)),
          "no CQ");
    CHECK((r->mr = ibv_reg_mr(r->pd, r->buffer, bytes, IBV_ACCESS_LOCAL_WRITE)), "no MR");
}

void raw_hang_up(struct raw *r) {
    struct ibv_wc wc[16];
    for (unsigned i = 0; i < r->lanes; i++)
        CHECK(ibv_destroy_qp(r->qp[i]) == 0, "a QP stays");
    while (ibv_poll_cq(r->cq, 16, wc) > 0)
        ;
    r->lanes = 0;
}

void raw_close(struct raw *r) {
    raw_hang_up(r);
    ibv_dereg_mr(r->mr);
    ibv_destroy_cq(r->cq);
    ibv_dealloc_pd(r->pd);
    ibv_close_device(r->context);
    munmap(r->buffer, r->bytes);
}

static struct ibv_qp *raw_qp(struct raw *r) {
    struct ibv_qp_init_attr init = {
        .send_cq = r->cq, .recv_cq = r->cq, .qp_type = IBV_QPT_RC, .cap = {RAW_DEPTH, 1, 1, 1, 0}};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_qp *qp = ibv_create_qp(r->pd, &init);
    CHECK(qp, "no QP");
    int rc = ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    CHECK(rc == 0, "no QP in INIT: %d", rc);
    return qp;
}

void raw_hello(struct raw *r, unsigned lanes, struct verbs_hello *out) {
    raw_hang_up(r);
    *out = (struct verbs_hello){.end = {.link_layer = IBV_LINK_LAYER_ETHERNET,
                                        .mtu = IBV_MTU_4096,
                                        .rd_atomic = 16,
                                        .dest_rd_atomic = 16,
                                        .lanes = (uint8_t)lanes,
                                        .max_message = 1u << 20}};
    memcpy(out->end.gid, r->gid, sizeof(r->gid));
    for (; r->lanes < lanes; r->lanes++) {
        r->qp[r->lanes] = raw_qp(r);
        out->end.qp_num[r->lanes] = r->qp[r->lanes]->qp_num;
        out->end.psn[r->lanes] = 1000 + r->lanes;
    }
}

static void raw_rts(struct raw *r, unsigned i, const struct endpoint *to) {
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu = to->mtu,
                              .dest_qp_num = to->qp_num[i],
                              .rq_psn = to->psn[i],
                              .max_dest_rd_atomic = 1,
                              .min_rnr_timer = 12,
                              .ah_attr = {.is_global = 1,
                                          .port_num = 1,
                                          .grh = {.sgid_index = r->gid_index, .hop_limit = 64}}};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                              .timeout = 12,
                              .retry_cnt = 3,
                              .rnr_retry = 3,
                              .sq_psn = 1000 + i,
                              .max_rd_atomic = 4};
    memcpy(rtr.ah_attr.grh.dgid.raw, to->gid, sizeof(to->gid));
    int rc = ibv_modify_qp(r->qp[i], &rtr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (rc == 0)
        rc = ibv_modify_qp(r->qp[i], &rts,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    CHECK(rc == 0, "no QP in RTS: %d", rc);
}

int raw_try(struct raw *r, struct side *s, uint64_t peer, unsigned lanes, struct error *err) {
    struct verbs_hello hello;
    struct verbs_offer offer;
    struct fabric_blob blob, answer;
    raw_hello(r, lanes, &hello);
    blob_write_hello(&hello, &blob);
    int rc = fabric_verbs.offer(s->fabric, peer, false, &blob, &answer, err);
    /* Like a daemon it comes again for a neighbour that is not known yet. */
    for (unsigned i = 0; rc == RDMAD_E_UNREACHABLE && i < 500; i++) {
        usleep(2000);
        rc = fabric_verbs.offer(s->fabric, peer, false, &blob, &answer, err);
    }
    if (rc)
        return rc;
    CHECK(blob_read_offer(&answer, &offer) && !offer.cm, "an offer that is none");
    CHECK(offer.end.lanes <= lanes, "more lanes than asked for");
    r->number = offer.number;
    r->inbox = offer.inbox;
    for (unsigned i = 0; i < offer.end.lanes; i++)
        raw_rts(r, i, &offer.end);
    return 0;
}

void raw_connect(struct raw *r, struct side *s, uint64_t peer, unsigned lanes) {
    struct error err = {0};
    CHECK(raw_try(r, s, peer, lanes, &err) == 0, "%s", err.text);
}

bool raw_post(struct raw *r, unsigned lane, enum ibv_wr_opcode opcode, const struct verbs_key *key,
              int64_t offset, uint32_t length) {
    struct ibv_sge sge = {(uintptr_t)r->buffer, length, r->mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge,
              .num_sge = 1,
              .opcode = opcode,
              .send_flags = IBV_SEND_SIGNALED,
              .wr.rdma = {key->address + (uint64_t)offset, key->rkey[key->count > 1 ? lane : 0]}};
    return ibv_post_send(r->qp[lane], &wr, &bad) == 0;
}

enum ibv_wc_status raw_access(struct raw *r, unsigned lane, enum ibv_wr_opcode opcode,
                              const struct verbs_key *key, int64_t offset, uint32_t length) {
    struct ibv_wc wc;
    int n;
    CHECK(raw_post(r, lane, opcode, key, offset, length), "an access is not posted");
    uint64_t until = clock_now_ns() + 20 * NSEC_PER_SEC;
    while ((n = ibv_poll_cq(r->cq, 1, &wc)) == 0)
        CHECK(clock_now_ns() < until, "an access never ends");
    CHECK(n == 1, "polling failed");
    return wc.status;
}

/* ---- the kernel's view --------------------------------------------------------------------- */

struct resources resources_of(const char *device) {
    char line[256], name[64];
    struct resources r = {0};
    bool found = false;
    FILE *f = popen("rdma resource show", "r");
    CHECK(f, "no rdma tool");
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%*d: %63[^:]: pd %u cq %u qp %u cm_id %u mr %u", name, &r.pd, &r.cq,
                   &r.qp, &r.cm_id, &r.mr) == 6 &&
            strcmp(name, device) == 0) {
            found = true;
            break;
        }
    }
    pclose(f);
    CHECK(found, "rdma resource show does not tell of %s", device);
    return r;
}

void expect_resources(const char *device, const struct resources *before) {
    struct resources now = {0};
    for (int i = 0; i < 50; i++) { /* destroyed at once, counted a little later */
        now = resources_of(device);
        if (before->cq == ANY_CQ)
            now.cq = ANY_CQ;
        if (memcmp(&now, before, sizeof(now)) == 0)
            return;
        shell("sleep 0.1");
    }
    CHECK(false, "%s: pd %u cq %u qp %u cm_id %u mr %u; before pd %u cq %u qp %u cm_id %u mr %u",
          device, now.pd, now.cq, now.qp, now.cm_id, now.mr, before->pd, before->cq, before->qp,
          before->cm_id, before->mr);
}

int shell(const char *command) {
    return system(command); /* NOLINT: the tests' own words */
}

void raw_request_weak(struct raw *r, uint32_t kind, uint32_t qp_num, uint32_t bytes) {
    const struct weak_request k = {.kind = htole32(kind), .qp_num = htole32(qp_num)};
    struct ibv_sge sge = {(uintptr_t)r->buffer, bytes, r->mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND_WITH_IMM,
                                   .imm_data = htobe32(WEAK_REQUEST_IMM),
                                   .send_flags = IBV_SEND_SIGNALED};
    struct ibv_wc wc;
    memcpy(r->buffer, &k, sizeof(k));
    CHECK(ibv_post_send(r->qp[0], &wr, &bad) == 0, "a request is not posted");
    while (ibv_poll_cq(r->cq, 1, &wc) == 0)
        ;
    CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
}
