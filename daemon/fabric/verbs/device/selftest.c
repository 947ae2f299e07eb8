/* SPDX-License-Identifier: MIT */
/*
 * selftest.c - what the device enforces, tried on itself.
 *
 * Pairs of RC QPs on the chosen port, connected to each other: A is the lessee that lies, B the
 * owner's end. Each probe takes a pair of its own, because a refused access breaks both ends:
 * first a write that is allowed, which shows that the pair works, then the forbidden one. It is
 * refused when it fails and no byte outside what was allowed has changed.
 *
 * Registrations must refuse: beyond either end, after ibv_dereg_mr, and from a PD that is not
 * theirs. Windows must refuse: beyond either end within the same registration, by another QP, after
 * LOCAL_INV, and after ibv_dealloc_mw. The order matters: with the software driver of Linux
 * invalidating a window that is not bound takes the machine down, and a QP with a window bound to
 * it takes a minute to be destroyed. So bounds are tried first and nothing is invalidated on a
 * device that fails there; LOCAL_INV is posted once, on a window whose bind has completed; and
 * windows are deallocated before their QP is destroyed.
 *
 * A dead port cannot hold it up: all waiting for completions comes out of one budget.
 */
#include "daemon/fabric/verbs/device/selftest.h"
#include "daemon/base/clock.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PATIENCE_NS (800 * NSEC_PER_MSEC)
#define PAGE 4096u
#define PAGES 3u
/* What is granted: not on a page's edge, so that the device must look at bytes. */
#define GRANT_AT (PAGE + 64u)
#define GRANT_LENGTH 256u
#define PROBE 8u
#define PAST_END (GRANT_AT + GRANT_LENGTH - PROBE / 2)
#define BEFORE_START (GRANT_AT - PROBE)
#define CLEAN 0x5a
#define DIRTY 0xa5

struct rig {
    const struct device *d;
    const struct port_now *port;
    struct ibv_cq *cq;
    struct ibv_pd *other_pd;
    uint8_t *memory; /* PAGES to be written to; behind them one to write from */
    struct ibv_mr *source;
    uint64_t patience_ns; /* left to wait for completions */
    bool late;
    char broke[128]; /* what of ours failed; "" while nothing has */
};

struct pair {
    struct ibv_qp *a, *b;
};

enum outcome {
    PROBE_BROKE,  /* of ours something failed: see rig.broke */
    PROBE_LANDED, /* not refused */
    PROBE_REFUSED,
};

static enum outcome rig_broke(struct rig *r, const char *what, int error) {
    if (!*r->broke)
        snprintf(r->broke, sizeof(r->broke), "%s: %s", what, strerror(error));
    return PROBE_BROKE;
}

/* ---- pairs --------------------------------------------------------------------------------- */

static struct ibv_qp *rig_qp_new(struct rig *r, struct ibv_pd *pd) {
    struct ibv_qp_init_attr init = {
        .send_cq = r->cq,
        .recv_cq = r->cq,
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    return ibv_create_qp(pd, &init);
}

static int rig_qp_init(struct rig *r, struct ibv_qp *qp) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = r->d->settings.pkey_index,
        .port_num = (uint8_t)r->d->port,
        .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    };
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int rig_qp_connect(struct rig *r, struct ibv_qp *qp, uint32_t other) {
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = r->port->mtu,
        .dest_qp_num = other,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 1,
        .ah_attr = {.port_num = (uint8_t)r->d->port,
                    .dlid = r->port->lid,
                    .sl = r->d->settings.service_level},
    };
    if (r->d->link_layer == IBV_LINK_LAYER_ETHERNET) {
        rtr.ah_attr.is_global = 1;
        rtr.ah_attr.grh.dgid = r->port->gid;
        rtr.ah_attr.grh.sgid_index = r->port->gid_index;
        rtr.ah_attr.grh.hop_limit = r->d->settings.hop_limit;
        rtr.ah_attr.grh.traffic_class = r->d->settings.traffic_class;
    }
    int failed =
        ibv_modify_qp(qp, &rtr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS,
        .timeout = 12, /* 17 ms, */
        .retry_cnt = 3,
        .rnr_retry = 1,
        .max_rd_atomic = 1,
    };
    return failed ? failed
                  : ibv_modify_qp(qp, &rts,
                                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void pair_close(struct pair *p) {
    if (p->a)
        ibv_destroy_qp(p->a);
    if (p->b)
        ibv_destroy_qp(p->b);
}

/* B's end is in pd_b. */
static bool pair_open(struct rig *r, struct ibv_pd *pd_b, struct pair *p) {
    p->a = rig_qp_new(r, r->d->pd);
    p->b = p->a ? rig_qp_new(r, pd_b) : NULL;
    int failed = p->b ? 0 : errno;
    if (!failed)
        failed = rig_qp_init(r, p->a);
    if (!failed)
        failed = rig_qp_init(r, p->b);
    if (!failed)
        failed = rig_qp_connect(r, p->a, p->b->qp_num);
    if (!failed)
        failed = rig_qp_connect(r, p->b, p->a->qp_num);
    if (!failed)
        return true;
    rig_broke(r, "two QPs of one port could not be connected", failed);
    pair_close(p);
    return false;
}

/* Posts on qp and waits for its completion; -1 with a note in r when there is none. */
static int rig_post(struct rig *r, struct ibv_qp *qp, struct ibv_send_wr *wr, const char *what) {
    struct ibv_send_wr *bad;
    const struct timespec nap = {.tv_nsec = 20000};
    int failed = ibv_post_send(qp, wr, &bad);
    if (failed) {
        rig_broke(r, what, failed);
        return -1;
    }
    uint64_t start_ns = clock_now_ns(), now_ns = start_ns;
    for (; now_ns - start_ns < r->patience_ns; now_ns = clock_now_ns()) {
        struct ibv_wc wc;
        int n = ibv_poll_cq(r->cq, 1, &wc);
        if (n < 0) {
            rig_broke(r, "the CQ", EIO);
            return -1;
        }
        if (n > 0 && wc.qp_num == qp->qp_num) {
            r->patience_ns -= now_ns - start_ns;
            return (int)wc.status;
        }
        if (n == 0)
            nanosleep(&nap, NULL);
    }
    r->patience_ns = 0;
    r->late = true;
    rig_broke(r, what, ETIMEDOUT);
    return -1;
}

/* ---- probes -------------------------------------------------------------------------------- */

static int write_at(struct rig *r, const struct pair *p, uint32_t rkey, uint32_t at) {
    struct ibv_sge sge = {
        .addr = (uintptr_t)r->memory + PAGES * PAGE, .length = PROBE, .lkey = r->source->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = (uintptr_t)r->memory + at, .rkey = rkey},
    };
    return rig_post(r, p->a, &wr, "a write to ourselves");
}

static bool all_clean(const struct rig *r, uint32_t from, uint32_t to) {
    const volatile uint8_t *memory = r->memory;
    for (uint32_t i = from; i < to; i++) {
        if (memory[i] != CLEAN)
            return false;
    }
    return true;
}

/* The write that is allowed: it must work, and where it should. */
static bool control(struct rig *r, const struct pair *p, uint32_t rkey) {
    memset(r->memory, CLEAN, (size_t)PAGES * PAGE);
    int status = write_at(r, p, rkey, GRANT_AT);
    if (status < 0)
        return false;
    if (status != IBV_WC_SUCCESS) {
        snprintf(r->broke, sizeof(r->broke), "a write to ourselves failed: %s",
                 ibv_wc_status_str((enum ibv_wc_status)status));
        return false;
    }
    if (r->memory[GRANT_AT] != DIRTY) {
        rig_broke(r, "a write to ourselves did not land", EIO);
        return false;
    }
    return true;
}

/* A forbidden write of PROBE bytes at a place. */
static enum outcome forbidden(struct rig *r, const struct pair *p, uint32_t rkey, uint32_t at) {
    memset(r->memory, CLEAN, (size_t)PAGES * PAGE);
    int status = write_at(r, p, rkey, at);
    if (status < 0)
        return PROBE_BROKE;
    uint32_t from = at == PAST_END ? GRANT_AT + GRANT_LENGTH : at;
    return status == IBV_WC_SUCCESS || !all_clean(r, from, at + PROBE) ? PROBE_LANDED
                                                                       : PROBE_REFUSED;
}

/* ---- registrations ------------------------------------------------------------------------- */

/* B in pd, which for one that is not the registration's has no write that is allowed. */
static enum outcome registration_probe(struct rig *r, struct ibv_pd *pd, uint32_t rkey,
                                       uint32_t at) {
    struct pair p;
    if (!pair_open(r, pd, &p))
        return PROBE_BROKE;
    bool works = pd != r->other_pd || control(r, &p, rkey);
    enum outcome o = works ? forbidden(r, &p, rkey, at) : PROBE_BROKE;
    pair_close(&p);
    return o;
}

/* Ends the registration in any case. */
static enum outcome registration_ended(struct rig *r, struct ibv_mr *mr) {
    struct pair p;
    uint32_t rkey = mr->rkey;
    if (!pair_open(r, r->other_pd, &p)) {
        ibv_dereg_mr(mr);
        return PROBE_BROKE;
    }
    bool works = control(r, &p, rkey);
    int failed = ibv_dereg_mr(mr);
    enum outcome o = PROBE_BROKE;
    if (failed)
        rig_broke(r, "deregistering", failed);
    else if (works)
        o = forbidden(r, &p, rkey, GRANT_AT);
    pair_close(&p);
    return o;
}

static const char *test_registrations(struct rig *r) {
    struct ibv_mr *mr =
        ibv_reg_mr(r->other_pd, r->memory + GRANT_AT, GRANT_LENGTH,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (!mr) {
        rig_broke(r, "registering a page", errno);
        return NULL;
    }
    const char *let = NULL;
    if (registration_probe(r, r->other_pd, mr->rkey, PAST_END) == PROBE_LANDED)
        let = "a registration let a write past its end land";
    else if (registration_probe(r, r->other_pd, mr->rkey, BEFORE_START) == PROBE_LANDED)
        let = "a registration let a write before its start land";
    else if (registration_probe(r, r->d->pd, mr->rkey, GRANT_AT) == PROBE_LANDED)
        let = "a registration let a write from another protection domain land";
    if (registration_ended(r, mr) == PROBE_LANDED && !let)
        let = "a registration let a write land after it was ended";
    return let;
}

/* ---- windows ------------------------------------------------------------------------------- */

struct bound {
    struct ibv_mr *mr; /* of all PAGES */
    struct ibv_mw *mw;
    uint32_t rkey;
    struct pair pair;
};

static bool mw_bind(struct rig *r, struct bound *w) {
    w->rkey = ibv_inc_rkey(w->mw->rkey);
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_BIND_MW,
        .bind_mw = {.mw = w->mw,
                    .rkey = w->rkey,
                    .bind_info = {.mr = w->mr,
                                  .addr = (uintptr_t)r->memory + GRANT_AT,
                                  .length = GRANT_LENGTH,
                                  .mw_access_flags =
                                      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ}},
    };
    int status = rig_post(r, w->pair.b, &wr, "binding a window");
    if (status > 0 && !*r->broke)
        snprintf(r->broke, sizeof(r->broke), "a window could not be bound: %s",
                 ibv_wc_status_str((enum ibv_wc_status)status));
    return status == IBV_WC_SUCCESS;
}

static void bound_close(struct bound *w) {
    if (w->mw)
        ibv_dealloc_mw(w->mw); /* before its QP */
    pair_close(&w->pair);
}

/* A pair with a window bound to B that lets A write. */
static bool bound_open(struct rig *r, struct ibv_mr *mr, struct bound *w) {
    *w = (struct bound){.mr = mr};
    if (!pair_open(r, r->d->pd, &w->pair)) {
        w->pair = (struct pair){0};
        return false;
    }
    w->mw = ibv_alloc_mw(r->d->pd, IBV_MW_TYPE_2);
    if (!w->mw)
        rig_broke(r, "allocating a window", errno);
    if (w->mw && mw_bind(r, w) && control(r, &w->pair, w->rkey))
        return true;
    bound_close(w);
    return false;
}

/* Ways to end a window; false: it could not be done. */
static bool mw_invalidate(struct rig *r, struct bound *w) {
    struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = w->rkey};
    int status = rig_post(r, w->pair.b, &wr, "invalidating a window");
    if (status > 0)
        rig_broke(r, "invalidating a window", EIO);
    return status == IBV_WC_SUCCESS;
}

static bool mw_deallocate(struct rig *r, struct bound *w) {
    int failed = ibv_dealloc_mw(w->mw);
    if (failed)
        rig_broke(r, "deallocating a window that is bound", failed);
    else
        w->mw = NULL;
    return !failed;
}

/* A write at a place by a window that was ended before, unless end is NULL. */
static enum outcome mw_probe(struct rig *r, struct ibv_mr *mr, uint32_t at,
                             bool (*end)(struct rig *, struct bound *)) {
    struct bound w;
    if (!bound_open(r, mr, &w))
        return PROBE_BROKE;
    enum outcome o = !end || end(r, &w) ? forbidden(r, &w.pair, w.rkey, at) : PROBE_BROKE;
    bound_close(&w);
    return o;
}

static enum outcome mw_by_other_qp(struct rig *r, struct ibv_mr *mr) {
    struct bound w;
    struct pair other;
    if (!bound_open(r, mr, &w))
        return PROBE_BROKE;
    enum outcome o = PROBE_BROKE;
    if (pair_open(r, r->d->pd, &other)) {
        o = forbidden(r, &other, w.rkey, GRANT_AT);
        pair_close(&other);
    }
    bound_close(&w);
    return o;
}

/* What windows let through; NULL: nothing, unless r->broke says that something went wrong. */
static const char *test_windows(struct rig *r) {
    struct ibv_mr *mr = ibv_reg_mr(r->d->pd, r->memory, (size_t)PAGES * PAGE,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    if (!mr) {
        rig_broke(r, "registering pages for windows", errno);
        return NULL;
    }
    const char *let = NULL;
    if (mw_probe(r, mr, PAST_END, NULL) == PROBE_LANDED)
        let = "a window let a write past its end land";
    else if (mw_probe(r, mr, BEFORE_START, NULL) == PROBE_LANDED)
        let = "a window let a write before its start land";
    else if (mw_by_other_qp(r, mr) == PROBE_LANDED)
        let = "a window let a write by another QP land";
    else if (!*r->broke && mw_probe(r, mr, GRANT_AT, mw_invalidate) == PROBE_LANDED)
        let = "a window let a write land after it was invalidated";
    else if (!*r->broke && mw_probe(r, mr, GRANT_AT, mw_deallocate) == PROBE_LANDED)
        let = "a window let a write land after it was deallocated";
    ibv_dereg_mr(mr);
    return let;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static bool rig_open(struct rig *r) {
    size_t size = (size_t)(PAGES + 1) * PAGE;
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        rig_broke(r, "mapping four pages", errno);
        return false;
    }
    r->memory = memory;
    memset(r->memory + (size_t)PAGES * PAGE, DIRTY, PAGE);
    r->other_pd = ibv_alloc_pd(r->d->context);
    r->cq = ibv_create_cq(r->d->context, 32, NULL, NULL, 0);
    r->source = ibv_reg_mr(r->d->pd, r->memory + (size_t)PAGES * PAGE, PAGE, 0);
    if (r->other_pd && r->cq && r->source)
        return true;
    rig_broke(r, "making a CQ, a PD and a registration", errno);
    return false;
}

static void rig_close(struct rig *r) {
    if (r->source)
        ibv_dereg_mr(r->source);
    if (r->cq)
        ibv_destroy_cq(r->cq);
    if (r->other_pd)
        ibv_dealloc_pd(r->other_pd);
    if (r->memory)
        munmap(r->memory, (size_t)(PAGES + 1) * PAGE);
}

static void judge_windows(struct rig *r, struct selftest_result *v) {
    static const char sound[] = "registrations refused all that they should";
    if (!device_has_memory_windows(r->d)) {
        snprintf(v->says, sizeof(v->says), "%s, and it has no windows of type 2", sound);
        return;
    }
    const char *let = test_windows(r);
    v->windows = !let && !*r->broke;
    if (let)
        snprintf(v->says, sizeof(v->says), "%s; %s", let, sound);
    else if (*r->broke)
        snprintf(v->says, sizeof(v->says), "windows could not be tested (%.80s); %s", r->broke,
                 sound);
    else
        snprintf(v->says, sizeof(v->says), "windows and %s", sound);
}

void selftest_run(const struct device *d, const struct port_now *port, struct selftest_result *v) {
    struct rig r = {.d = d, .port = port, .patience_ns = PATIENCE_NS};
    memset(v, 0, sizeof(*v));
    if (d->iwarp) {
        snprintf(v->says, sizeof(v->says), "iWARP QPs cannot be connected to each other directly");
        return;
    }
    const char *let = rig_open(&r) ? test_registrations(&r) : NULL;
    v->ran = let || !*r.broke;
    v->registrations = v->ran && !let;
    if (let || *r.broke)
        snprintf(v->says, sizeof(v->says), "%s", let ? let : r.broke);
    else
        judge_windows(&r, v);
    v->late = r.late;
    rig_close(&r);
}
