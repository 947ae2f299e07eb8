/* SPDX-License-Identifier: MIT */
/*
 * Messages of the kinds that may be lost: whole or not at all, from their link's other end only,
 * and without harm to what is reliable.
 */
#include "tests/unit/verbs_numbered.h"
#include <criterion/hooks.h>
#include <criterion/options.h>
#include <dlfcn.h>
#include <unistd.h>

/* The devices' counters are everybody's: one test at a time. */
ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
    (void)tests;
    criterion_options.jobs = 1;
}

static void cable_mended(void) {
    (void)!system("tc qdisc del dev va root 2>/dev/null; tc qdisc del dev vb root 2>/dev/null");
}

TestSuite(verbs_weak, .init = cable_mended, .fini = cable_mended);

static unsigned qps_of(const char *device) {
    char command[128];
    unsigned n = 0;
    snprintf(command, sizeof command, "rdma resource show qp link %s/1 | grep -c lqpn", device);
    FILE *f = popen(command, "r");
    cr_assert(f && fscanf(f, "%u", &n) == 1);
    pclose(f);
    return n;
}

/* What comes is whole, and in order: some may be missing. */
static void expect_later(struct vside *s, uint64_t number, const uint8_t *bytes, size_t size) {
    uint32_t n;
    cr_assert(size >= sizeof n, "%zu bytes", size);
    memcpy(&n, bytes, sizeof n);
    cr_assert(n >= expected.next, "message %u came when %u was awaited", n, expected.next);
    expected.next = n;
    expect_next(s, number, bytes, size);
}

static void prepare_weak(struct vpair *p, struct numbered *m, uint32_t n, uint8_t service) {
    prepare(p, m, n);
    m->op.op.service = service;
}

static void send_weak(struct vpair *p, uint8_t service, uint32_t n) {
    struct numbered m;
    prepare_weak(p, &m, n, service);
    cr_assert_eq(vop_run(p, &m.op), RDMAD_OK, "message %u: %d", n, m.op.op.status);
}

/* As many as nobody looks for: what the 64 receives hold comes, the rest is gone, nobody is told
 * that there is no receive, and afterwards it goes on. */
static void weak(uint8_t service) {
    enum { COUNT = 60, TOO_MANY = 200 };
    struct vpair p;
    begin(&p);
    p.owner.received = expect_later;
    if (service == RDMAD_CHANNEL_DATAGRAM)
        expected.most = p.link->max_datagram - sizeof expected.next;
    unsigned there = qps_of("rxe0"), here = qps_of("rxe1");
    uint64_t before = not_ready();
    for (uint32_t i = 0; i < COUNT; i++) {
        send_weak(&p, service, i);
        VPAIR_UNTIL(&p, expected.next == i + 1);
    }
    cr_assert_eq(qps_of("rxe0"), there + 1, "not one queue pair for it");
    cr_assert_eq(qps_of("rxe1"), here + 1);
    static struct numbered m[TOO_MANY];
    for (uint32_t i = 0; i < TOO_MANY; i++) {
        prepare_weak(&p, &m[i], COUNT + i, service);
        while (fabric_verbs.post(p.link, &m[i].op.op) == RDMAD_E_AGAIN)
            fabric_verbs.poll(p.lessee.fabric);
    }
    while (!m[TOO_MANY - 1].op.done)
        fabric_verbs.poll(p.lessee.fabric);
    for (unsigned i = 0; i < TOO_MANY; i++)
        cr_assert(m[i].op.op.status == RDMAD_OK && m[i].op.op.outcome == RDMAD_DONE);
    cr_assert_eq(p.owner.messages, COUNT);
    usleep(300 * 1000); /* a device in software may send what is done later, and receive it later */
    VPAIR_UNTIL(&p, p.owner.messages >= COUNT + 64);
    for (unsigned i = 0; i < 50; i++)
        vpair_turn(&p);
    unsigned came = p.owner.messages - COUNT;
    cr_assert(came < TOO_MANY, "%u came", came);
    cr_assert_eq(not_ready(), before);
    send_weak(&p, service, COUNT + TOO_MANY);
    VPAIR_UNTIL(&p, expected.next == COUNT + TOO_MANY + 1);
    send_weak(&p, RDMAD_CHANNEL_RELIABLE, COUNT + TOO_MANY + 1);
    VPAIR_UNTIL(&p, expected.next == COUNT + TOO_MANY + 2);
    cr_assert_eq(p.lessee.lost, 0);
    vpair_close(&p);
}

Test(verbs_weak, datagrams_come_whole_or_not_at_all) {
    weak(RDMAD_CHANNEL_DATAGRAM);
}

Test(verbs_weak, unacknowledged_ones_come_whole_or_not_at_all) {
    weak(RDMAD_CHANNEL_UNACKED);
}

Test(verbs_weak, a_datagram_is_of_one_packet) {
    struct vpair p;
    struct numbered m;
    begin(&p);
    p.owner.received = count_bytes;
    uint64_t most = p.link->max_datagram;
    cr_assert(most >= FABRIC_SEND_MIN && most < 4096, "%lu", (unsigned long)most);
    prepare_weak(&p, &m, 0, RDMAD_CHANNEL_DATAGRAM);
    m.op.op.head_size = 0;
    m.op.op.length = most + 1;
    cr_assert_eq(vop_run(&p, &m.op), RDMAD_E_LENGTH);
    cr_assert_eq(m.op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    m.op.done = false;
    m.op.op.length = most;
    cr_assert_eq(vop_run(&p, &m.op), RDMAD_OK);
    VPAIR_UNTIL(&p, expected.next == most);
    m.op.done = false;
    m.op.op.length = 0;
    cr_assert_eq(vop_run(&p, &m.op), RDMAD_OK);
    VPAIR_UNTIL(&p, p.owner.messages == 2);
    vpair_close(&p);
}

/* From another QP, with the Q_Key and with or without the token, as of a peer that has guessed. */
static void send_as_stranger(struct vpair *p, uint64_t token) {
    struct verbs_link *l = container_of(p->link, struct verbs_link, base);
    const struct weak_sender *s = &l->weak[WEAK_DATAGRAM];
    const struct device *d = verbs_of(p->lessee.fabric)->device;
    uint64_t bytes[4] = {token};
    struct ibv_mr *mr = ibv_reg_mr(d->pd, bytes, sizeof bytes, 0);
    struct ibv_cq *cq = ibv_create_cq(d->context, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = {1, 1, 1, 1, 0}};
    struct ibv_qp *qp = ibv_create_qp(d->pd, &init);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};
    struct ibv_sge sge = {(uintptr_t)bytes, sizeof bytes, mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.ud = {s->ah, s->place.qp_num, s->place.word}};
    struct ibv_wc wc;
    cr_assert(mr && cq && qp);
    cr_assert_eq(
        ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    attr.qp_state = IBV_QPS_RTR;
    cr_assert_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    cr_assert_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    cr_assert_eq(ibv_post_send(qp, &wr, &bad), 0);
    while (ibv_poll_cq(cq, 1, &wc) == 0)
        ;
    cr_assert_eq(wc.status, IBV_WC_SUCCESS);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
    ibv_dereg_mr(mr);
}

Test(verbs_weak, a_datagram_of_a_stranger_is_dropped_and_takes_no_receive_for_long) {
    struct vpair p;
    begin(&p);
    send_weak(&p, RDMAD_CHANNEL_DATAGRAM, 0);
    VPAIR_UNTIL(&p, expected.next == 1);
    uint64_t token = container_of(p.link, struct verbs_link, base)->weak[WEAK_DATAGRAM].place.token;
    for (unsigned i = 0; i < 100; i++) {
        send_as_stranger(&p, i % 2 ? token : ~token);
        vpair_turn(&p);
    }
    for (unsigned i = 0; i < 20; i++)
        vpair_turn(&p);
    cr_assert_eq(p.owner.messages, 1, "another sender was heard");
    send_weak(&p, RDMAD_CHANNEL_DATAGRAM, 1);
    VPAIR_UNTIL(&p, expected.next == 2);
    vpair_close(&p);
}

Test(verbs_weak, where_a_device_lacks_a_kind_it_is_refused_and_the_link_goes_on) {
    struct vpair p;
    struct numbered m;
    begin(&p);
    cr_assert_eq(fabric_verbs.services(p.owner.host),
                 1u << RDMAD_CHANNEL_DATAGRAM | 1u << RDMAD_CHANNEL_UNACKED);
    struct device *d = verbs_of(p.owner.fabric)->device;
    unsigned all = d->services;
    d->services = 0;
    fabric_verbs.link_close(p.link);
    p.link = vpair_dial(&p);
    expected.number = p.link->number;
    cr_assert_eq(fabric_verbs.services(p.owner.host), 0);
    cr_assert_eq(p.link->max_datagram, 0);
    for (unsigned s = RDMAD_CHANNEL_DATAGRAM; s <= RDMAD_CHANNEL_UNACKED + 1; s++) {
        prepare(&p, &m, 0);
        m.op.op.service = (uint8_t)s;
        cr_assert_eq(vop_run(&p, &m.op), RDMAD_E_UNSUPPORTED);
        cr_assert_eq(m.op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    }
    send_weak(&p, RDMAD_CHANNEL_RELIABLE, 0);
    VPAIR_UNTIL(&p, expected.next == 1);
    d->services = all;
    vpair_close(&p);
}

Test(verbs_weak, closed_while_it_requests_a_link_gives_every_datagram_back) {
    struct vpair p;
    begin(&p);
    expected.most = FABRIC_SEND_MIN;
    static struct numbered m[10];
    for (uint32_t turns = 0; turns < 4; turns++) {
        unsigned completed = p.lessee.completed;
        for (uint32_t i = 0; i < 10; i++) {
            prepare_weak(&p, &m[i], i, i % 2 ? RDMAD_CHANNEL_DATAGRAM : RDMAD_CHANNEL_UNACKED);
            cr_assert_eq(fabric_verbs.post(p.link, &m[i].op.op), 0);
        }
        for (uint32_t i = 0; i < turns; i++)
            fabric_verbs.poll(p.lessee.fabric);
        fabric_verbs.link_close(p.link);
        cr_assert_eq(p.lessee.completed, completed + 10);
        for (uint32_t i = 0; i < 10; i++)
            cr_assert(m[i].op.done && m[i].op.op.status == RDMAD_E_CANCELED);
        p.link = vpair_dial(&p);
    }
    vpair_close(&p);
}

/* Paths from rxe1 are said to lead to 10.77.0.99, which nobody has. */
static bool astray;

/* Instead of libibverbs' own. */
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init) {
    int (*real)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *) =
        (int (*)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *))dlsym(
            RTLD_NEXT, "ibv_query_qp");
    int rc = real(qp, attr, mask, init);
    if (rc == 0 && astray && (mask & IBV_QP_AV) &&
        strcmp(ibv_get_device_name(qp->context->device), "rxe1") == 0)
        attr->ah_attr.grh.dgid.raw[15] = 99;
    return rc;
}

static void waits_for_the_way(uint8_t service) {
    struct vpair p;
    struct numbered m;
    begin(&p);
    astray = true;
    expected.most = 64;
    prepare_weak(&p, &m, 0, service);
    vop_post(&p, &m.op);
    for (uint64_t until_ns = clock_now_ns() + NSEC_PER_SEC; clock_now_ns() < until_ns;) {
        uint64_t start_ns = clock_now_ns();
        vpair_turn(&p);
        cr_assert_lt(clock_now_ns() - start_ns, NSEC_PER_SEC, "it waits for the neighbour");
    }
    cr_assert_not(m.op.done, "status %d", m.op.op.status);
    cr_assert_eq(system("ip neigh show 10.77.0.99 | grep -q ."), 0, "nobody looks for it");
    struct verbs_link *l = container_of(p.link, struct verbs_link, base);
    cr_assert_gt(l->outbox.pause_ns, NSEC_PER_MSEC, "the page is read without rest");
    astray = false;
    VPAIR_UNTIL(&p, m.op.done);
    cr_assert_eq(m.op.op.status, RDMAD_OK);
    VPAIR_UNTIL(&p, expected.next == 1);
    vpair_close(&p);
}

Test(verbs_weak, a_datagram_waits_for_an_address_and_nobody_else_does) {
    waits_for_the_way(RDMAD_CHANNEL_DATAGRAM);
}

Test(verbs_weak, an_unacknowledged_one_waits_for_an_address_and_nobody_else_does) {
    waits_for_the_way(RDMAD_CHANNEL_UNACKED);
}
