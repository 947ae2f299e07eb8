/* SPDX-License-Identifier: MIT */
/*
 * A link over queue pairs: how it comes up, how it breaks, what is known of its ops then, and that
 * every op ends whatever the peer and the cable do.
 */
#include "daemon/fabric/verbs/wire/blob.h"
#include "tests/unit/verbs_pair.h"
#include <criterion/hooks.h>
#include <criterion/options.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define MSEC NSEC_PER_MSEC

/* The cable is everybody's: one test at a time. */
ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
    (void)tests;
    criterion_options.jobs = 1;
}

static void cable_mended(void) {
    (void)!system("tc qdisc del dev va root 2>/dev/null; tc qdisc del dev vb root 2>/dev/null;"
                  "rdma link show rxe0/1 >/dev/null 2>&1 || rdma link add rxe0 type rxe netdev va;"
                  "rdma link show rxe1/1 >/dev/null 2>&1 || rdma link add rxe1 type rxe netdev vb");
}

TestSuite(verbs_link, .init = cable_mended, .fini = cable_mended);

static void cut_cable(void) {
    must_run("tc qdisc replace dev va root netem loss 100%%");
    must_run("tc qdisc replace dev vb root netem loss 100%%");
}

/* ---- coming up ---------------------------------------------------------------------------- */

Test(verbs_link, the_other_end_may_have_fewer_lanes) {
    struct vpair p;
    vpair_defaults(&p, MIB);
    p.lessee.settings.verbs.lanes = 4;
    p.owner.settings.verbs.lanes = 2;
    vpair_start(&p);
    struct vop ops[8];
    for (unsigned i = 0; i < 8; i++) {
        vop_prepare(&p, &ops[i], RDMAD_OP_WRITE, i * 4096, i * 4096, 4096);
        vop_post(&p, &ops[i]);
    }
    for (unsigned i = 0; i < 8; i++) {
        VPAIR_UNTIL(&p, ops[i].done);
        cr_assert_eq(ops[i].op.status, RDMAD_OK);
    }
    vpair_close(&p);
}

Test(verbs_link, an_offer_that_is_not_one_is_refused_in_words) {
    struct vpair p;
    vpair_open(&p, MIB);
    struct fabric_link *link;
    struct fabric_blob hello, offer = {.size = 9, .bytes = "nonsense"};
    struct error err = {0};
    cr_assert_eq(fabric_verbs.link_new(p.lessee.fabric, NULL, false, &link, &hello, &err), 0);
    cr_assert_eq(fabric_verbs.link_open(link, "10.77.0.1", &offer, &err), RDMAD_E_PROTOCOL);
    cr_assert(strstr(err.text, "10.77.0.1"), "%s", err.text);
    struct vop op;
    vop_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 8);
    cr_assert_eq(fabric_verbs.post(link, &op.op), RDMAD_E_PEER_LOST);
    fabric_verbs.link_close(link);
    cr_assert_eq(p.lessee.lost, 0);
    vpair_close(&p);
}

/* Else nobody could tell the peer to let go of its end: it has one as soon as it has offered. */
Test(verbs_link, a_link_that_does_not_open_knows_the_number_of_its_peers_end) {
    struct vpair p;
    vpair_open(&p, MIB);
    struct fabric_link *link;
    struct fabric_blob hello, blob;
    struct verbs_offer offer;
    struct error err = {0};
    unsigned accepted = fabric_verbs.accepted(p.owner.fabric);
    cr_assert_eq(fabric_verbs.link_new(p.lessee.fabric, NULL, false, &link, &hello, &err), 0);
    cr_assert_eq(fabric_verbs.offer(p.owner.fabric, LESSEE, false, &hello, &blob, &err), 0);
    cr_assert_eq(fabric_verbs.accepted(p.owner.fabric), accepted + 1);
    cr_assert(blob_read_offer(&blob, &offer) && !offer.cm);
    for (; offer.end.lanes < VERBS_LANES_MAX; offer.end.lanes++) /* more than were asked for */
        offer.end.qp_num[offer.end.lanes] = offer.end.qp_num[0] + offer.end.lanes;
    blob_write_offer(&offer, &blob);
    cr_assert_eq(fabric_verbs.link_open(link, "10.77.0.1", &blob, &err), RDMAD_E_PROTOCOL);
    cr_assert_eq(link->number, offer.number);
    fabric_verbs.forget(p.owner.fabric, LESSEE, link->number);
    VPAIR_UNTIL(&p, fabric_verbs.accepted(p.owner.fabric) == accepted);
    fabric_verbs.link_close(link);
    vpair_close(&p);
}

Test(verbs_link, many_links_share_completion_queues_that_never_overrun) {
    enum { LINKS = 40 };
    struct vpair p;
    vpair_defaults(&p, MIB);
    p.lessee.settings.verbs.timeout = 17; /* 0.5 s: so many are slow where the guest is */
    struct fabric_link *link[LINKS];
    static struct vop ops[LINKS][VPAIR_DEPTH];
    static struct vwindow windows[LINKS];
    vpair_start(&p);
    struct fabric_link *first = p.link;
    for (unsigned i = 0; i < LINKS; i++) {
        link[i] = vpair_dial(&p);
        vpair_window(&p, &windows[i], link[i]->number, RDMAD_RIGHTS_ALL, 0, p.bytes);
    }
    for (unsigned n = 0; n < VPAIR_DEPTH; n++) {
        for (unsigned i = 0; i < LINKS; i++) {
            vop_prepare(&p, &ops[i][n], RDMAD_OP_WRITE, 64 * i, 64 * i, 64);
            ops[i][n].op.key = &windows[i].key;
            cr_assert_eq(fabric_verbs.post(link[i], &ops[i][n].op), 0);
        }
    }
    VPAIR_UNTIL(&p, p.lessee.completed == LINKS * VPAIR_DEPTH);
    for (unsigned i = 0; i < LINKS; i++) {
        for (unsigned n = 0; n < VPAIR_DEPTH; n++)
            cr_assert_eq(ops[i][n].op.status, RDMAD_OK);
        fabric_verbs.link_close(link[i]);
        vpair_unwindow(&p, &windows[i]);
    }
    p.link = first;
    struct vop last;
    vop_prepare(&p, &last, RDMAD_OP_READ, 0, 0, 4096);
    cr_assert_eq(vop_run(&p, &last), RDMAD_OK);
    vpair_close(&p);
}

/* ---- sleeping ----------------------------------------------------------------------------- */

/* Polls the lessee only when its descriptor or its wake-up time says so. */
static void sleep_until(struct vpair *p, const bool *done) {
    uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
    while (!*done) {
        uint64_t wake_ns;
        fabric_verbs.poll(p->owner.fabric);
        if (fabric_verbs.poll(p->lessee.fabric) || !fabric_verbs.arm(p->lessee.fabric, &wake_ns))
            continue;
        uint64_t left = clock_left(clock_now_ns(), wake_ns < until ? wake_ns : until);
        struct pollfd fd = {.fd = fabric_verbs.wait_fd(p->lessee.fabric), .events = POLLIN};
        cr_assert(poll(&fd, 1, (int)(left / MSEC) + 1) > 0 || clock_now_ns() >= wake_ns,
                  "nothing woke a sleeper");
        cr_assert(clock_now_ns() < until, "asleep for ten seconds");
    }
}

Test(verbs_link, a_sleeper_is_woken_by_every_completion) {
    struct vpair p;
    vpair_open(&p, MIB);
    for (unsigned i = 0; i < 300; i++) {
        struct vop op;
        vop_prepare(&p, &op, i % 2 ? RDMAD_OP_READ : RDMAD_OP_WRITE, 0, 0, i % 3 ? 64 : 65536);
        vop_post(&p, &op);
        sleep_until(&p, &op.done);
        cr_assert_eq(op.op.status, RDMAD_OK);
    }
    vpair_close(&p);
}

Test(verbs_link, with_something_to_do_arm_says_no) {
    struct vpair p;
    vpair_open(&p, MIB);
    uint64_t wake_ns;
    struct vop op;
    VPAIR_UNTIL(&p, fabric_verbs.arm(p.lessee.fabric, &wake_ns));
    vop_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 8);
    vop_post(&p, &op);
    cr_assert_not(fabric_verbs.arm(p.lessee.fabric, &wake_ns), "an op waits to be posted");
    VPAIR_UNTIL(&p, op.done);
    vpair_close(&p);
}

/* ---- refusal ------------------------------------------------------------------------------ */

/* Five ops in one batch; the key of the third is of a window that was closed. */
static void refuse_third(struct vpair *p, int opcode, uint64_t length, struct vop *ops) {
    struct vwindow closed;
    vpair_window(p, &closed, p->link->number, RDMAD_RIGHTS_ALL, 0, 65536);
    vpair_unwindow(p, &closed);
    for (unsigned i = 0; i < 5; i++) {
        vop_prepare(p, &ops[i], i == 2 ? opcode : RDMAD_OP_WRITE, 65536 * i, 65536 * i,
                    i == 2 ? length : 4096);
        if (i == 2)
            ops[i].op.key = &closed.key, ops[i].op.offset = 0;
        cr_assert_eq(fabric_verbs.post(p->link, &ops[i].op), 0);
    }
    VPAIR_UNTIL(p, p->lessee.lost == 1);
    for (unsigned i = 0; i < 5; i++)
        cr_assert(ops[i].done, "the link was lost before op %u was back", i);
    cr_assert_eq(ops[0].op.status, RDMAD_OK);
    cr_assert_eq(ops[1].op.status, RDMAD_OK);
    cr_assert_eq(ops[2].op.status, RDMAD_E_NO_LEASE);
    cr_assert(ops[2].op.broke_link);
    for (unsigned i = 3; i < 5; i++) {
        cr_assert_eq(ops[i].op.status, RDMAD_E_PEER_LOST);
        /* Behind a READ they could have been done before it was refused, if they were posted. */
        cr_assert(ops[i].op.outcome == RDMAD_FAILED_UNTOUCHED ||
                      (opcode == RDMAD_OP_READ && ops[i].op.outcome == RDMAD_UNKNOWN),
                  "%u", ops[i].op.outcome);
        cr_assert_neq(memcmp(p->owner.base + 65536 * i, p->lessee.base + 65536 * i, 4096), 0);
    }
    cr_assert(strstr(p->lessee.why.text, "remote access error"), "%s", p->lessee.why.text);
    cr_assert_eq(fabric_verbs.post(p->link, &ops[0].op), RDMAD_E_PEER_LOST);
}

static void rebuild(struct vpair *p) {
    fabric_verbs.link_close(p->link);
    vpair_unwindow(p, &p->window);
    p->link = vpair_dial(p);
    vpair_window(p, &p->window, p->link->number, RDMAD_RIGHTS_ALL, 0, p->bytes);
}

Test(verbs_link, a_refused_op_is_told_as_such_and_the_link_can_be_made_anew) {
    struct vpair p;
    vpair_open(&p, MIB);
    fill(p.owner.base, MIB, 1);
    fill(p.lessee.base, MIB, 2);
    static const uint64_t lengths[] = {0, 8, 1024, 65536};
    for (int opcode = RDMAD_OP_READ; opcode <= RDMAD_OP_WRITE; opcode++) {
        for (unsigned i = 1; i < 4; i++) {
            struct vop ops[5];
            p.lessee.lost = 0;
            refuse_third(&p, opcode, lengths[i], ops);
            cr_assert_eq(ops[2].op.outcome, i < 3 ? RDMAD_FAILED_UNTOUCHED : RDMAD_FAILED_PARTIAL);
            rebuild(&p);
            vop_prepare(&p, &ops[0], RDMAD_OP_WRITE, 0, 0, MIB);
            cr_assert_eq(vop_run(&p, &ops[0]), RDMAD_OK);
            cr_assert_eq(memcmp(p.owner.base, p.lessee.base, MIB), 0);
            fill(p.owner.base, MIB, 1);
        }
    }
    vpair_close(&p);
}

Test(verbs_link, ops_on_other_lanes_end_well_when_one_lane_is_refused) {
    struct vpair p;
    vpair_defaults(&p, 8 * MIB);
    p.lessee.settings.verbs.lanes = p.owner.settings.verbs.lanes = 2;
    vpair_start(&p);
    struct vwindow closed;
    vpair_window(&p, &closed, p.link->number, RDMAD_RIGHTS_ALL, 0, 65536);
    vpair_unwindow(&p, &closed);
    struct vop bad, good[4];
    vop_prepare(&p, &bad, RDMAD_OP_WRITE, 0, 0, 64);
    bad.op.key = &closed.key;
    cr_assert_eq(fabric_verbs.post(p.link, &bad.op), 0); /* lane 0 */
    for (unsigned i = 0; i < 4; i++) {
        /* Lanes 1, 0, 1, 0. A small one first: then the second leaves with it, at once. */
        vop_prepare(&p, &good[i], RDMAD_OP_WRITE, i * MIB, i * MIB, i < 2 ? 64 : MIB);
        cr_assert_eq(fabric_verbs.post(p.link, &good[i].op), 0);
    }
    VPAIR_UNTIL(&p, p.lessee.lost == 1);
    cr_assert_eq(bad.op.status, RDMAD_E_NO_LEASE);
    for (unsigned i = 0; i < 4; i++) {
        cr_assert(good[i].done);
        bool same_lane = i % 2 == 1;
        cr_assert_eq(good[i].op.status, same_lane ? RDMAD_E_PEER_LOST : RDMAD_OK, "op %u", i);
        cr_assert_eq(good[i].op.outcome, same_lane ? RDMAD_FAILED_UNTOUCHED : RDMAD_DONE);
    }
    vpair_close(&p);
}

/* ---- silence ------------------------------------------------------------------------------ */

Test(verbs_link, when_the_cable_is_cut_ops_end_and_the_link_is_lost) {
    struct vpair p;
    vpair_defaults(&p, 4 * MIB);
    p.lessee.settings.verbs.timeout = 12; /* 17 ms, times */
    p.lessee.settings.verbs.retry_count = 3;
    vpair_start(&p);
    cut_cable();
    struct vop write, read;
    vop_prepare(&p, &write, RDMAD_OP_WRITE, 0, 0, 65536);
    vop_prepare(&p, &read, RDMAD_OP_READ, MIB, MIB, 65536);
    vop_post(&p, &write);
    vop_post(&p, &read);
    VPAIR_UNTIL(&p, p.lessee.lost == 1);
    cr_assert(write.done && read.done);
    cr_assert_eq(write.op.status, RDMAD_E_PEER_LOST);
    cr_assert_eq(write.op.outcome, RDMAD_UNKNOWN);
    cr_assert_eq(read.op.status, RDMAD_E_PEER_LOST);
    cr_assert_eq(read.op.outcome, RDMAD_FAILED_PARTIAL);
    cr_assert(strstr(p.lessee.why.text, "did not answer"), "%s", p.lessee.why.text);
    cable_mended();
    rebuild(&p);
    fill(p.lessee.base, MIB, 9);
    vop_prepare(&p, &write, RDMAD_OP_WRITE, 0, 0, MIB);
    cr_assert_eq(vop_run(&p, &write), RDMAD_OK);
    cr_assert_eq(memcmp(p.owner.base, p.lessee.base, MIB), 0);
    vpair_close(&p);
}

Test(verbs_link, a_cancelled_op_is_back_within_the_quiesce_bound_though_nobody_answers) {
    struct vpair p;
    vpair_defaults(&p, 4 * MIB);
    p.lessee.settings.verbs.timeout = 19; /* 2.1 s: the device does not give up in time */
    p.lessee.settings.verbs.quiesce_ns = 300 * MSEC;
    vpair_start(&p);
    cut_cable();
    struct vop cancelled, read, other;
    vop_prepare(&p, &cancelled, RDMAD_OP_WRITE, 0, 0, 65536);
    vop_prepare(&p, &read, RDMAD_OP_READ, MIB, MIB, 65536);
    vop_prepare(&p, &other, RDMAD_OP_WRITE, MIB * 2, MIB * 2, 65536);
    vop_post(&p, &cancelled);
    vop_post(&p, &read);
    vop_post(&p, &other);
    vpair_turn(&p);
    uint64_t start = clock_now_ns();
    fabric_verbs.cancel(&cancelled.op, RDMAD_E_TIMEOUT);
    cr_assert_not(cancelled.done, "hardware was believed to let go at once");
    VPAIR_UNTIL(&p, p.lessee.lost == 1);
    uint64_t took = clock_now_ns() - start;
    cr_assert(took >= 300 * MSEC && took < 700 * MSEC, "%lu ms", (unsigned long)(took / MSEC));
    cr_assert(cancelled.done && read.done && other.done);
    cr_assert_eq(cancelled.op.status, RDMAD_E_TIMEOUT);
    cr_assert_eq(cancelled.op.outcome, RDMAD_UNKNOWN);
    cr_assert_eq(read.op.status, RDMAD_E_PEER_LOST);
    cr_assert_eq(read.op.outcome, RDMAD_FAILED_PARTIAL);
    cr_assert_eq(other.op.outcome, RDMAD_UNKNOWN);
    cr_assert(strstr(p.lessee.why.text, "cancelled"), "%s", p.lessee.why.text);
    vpair_close(&p);
}

Test(verbs_link, a_short_cut_of_the_cable_is_survived) {
    struct vpair p;
    vpair_defaults(&p, 4 * MIB);
    p.lessee.settings.verbs.timeout = 19; /* two seconds, 6 times */
    vpair_start(&p);
    fill(p.lessee.base, 4 * MIB, 3);
    struct vop ops[4];
    for (unsigned i = 0; i < 4; i++) {
        vop_prepare(&p, &ops[i], RDMAD_OP_WRITE, i * MIB, i * MIB, MIB);
        vop_post(&p, &ops[i]);
    }
    cut_cable();
    uint64_t until = clock_now_ns() + 100 * MSEC;
    while (clock_now_ns() < until)
        vpair_turn(&p);
    cable_mended();
    for (unsigned i = 0; i < 4; i++) {
        VPAIR_UNTIL(&p, ops[i].done);
        cr_assert_eq(ops[i].op.status, RDMAD_OK, "%s", p.lessee.why.text);
    }
    cr_assert_eq(memcmp(p.owner.base, p.lessee.base, 4 * MIB), 0);
    vpair_close(&p);
}

/* ---- devices that go ----------------------------------------------------------------------- */

static bool there(const char *device) {
    char path[64];
    snprintf(path, sizeof path, "/sys/class/infiniband/%s", device);
    return access(path, F_OK) == 0;
}

#define STREAM 64u

/* Posts whichever ops are over again, so that something is under way at every moment. */
static void stream(struct vpair *p, struct vop *ops) {
    for (unsigned i = 0; i < STREAM; i++) {
        if (!ops[i].done)
            continue;
        ops[i].done = false;
        if (fabric_verbs.post(p->link, &ops[i].op))
            ops[i].done = true;
    }
    vpair_turn(p);
}

/* Deletes it in mid-transfer, which ends only when everybody has let go of it. */
static void delete_device(struct vpair *p, const char *device) {
    static struct vop ops[STREAM];
    p->lessee.lost = 0;
    for (unsigned i = 0; i < STREAM; i++) {
        vop_prepare(p, &ops[i], i % 4 ? RDMAD_OP_WRITE : RDMAD_OP_READ, i * 4096, i * 4096, 65536);
        ops[i].done = true;
    }
    stream(p, ops);
    must_run("rdma link delete %s &", device);
    uint64_t until = clock_now_ns() + 60 * NSEC_PER_SEC;
    while (p->lessee.lost == 0) {
        stream(p, ops);
        cr_assert(clock_now_ns() < until, "the link to a device that is gone is not lost");
    }
    for (unsigned i = 0; i < STREAM; i++)
        cr_assert(ops[i].done, "op %u", i);
    cr_assert_eq(p->lessee.lost, 1);
    VPAIR_UNTIL(p, !there(device));
    fabric_verbs.link_close(p->link);
    p->link = NULL;
    vpair_unwindow(p, &p->window);
}

static void dial_again(struct vpair *p) {
    struct error err = {0};
    unsigned up = p->lessee.up;
    VPAIR_UNTIL(p, vpair_try_dial(p, &p->link, &err) == 0);
    VPAIR_UNTIL(p, p->lessee.up > up);
    vpair_window(p, &p->window, p->link->number, RDMAD_RIGHTS_ALL, 0, p->bytes);
    struct vop op;
    memset(p->owner.base, 0, p->bytes);
    vop_prepare(p, &op, RDMAD_OP_WRITE, 0, 0, MIB);
    cr_assert_eq(vop_run(p, &op), RDMAD_OK);
    cr_assert_eq(memcmp(p->owner.base, p->lessee.base, MIB), 0);
}

Test(verbs_link, our_device_goes_and_comes_back) {
    struct vpair p;
    struct error err = {0};
    vpair_open(&p, 4 * MIB);
    fill(p.lessee.base, p.bytes, 7);
    for (unsigned i = 0; i < 3; i++) {
        struct fabric_link *link;
        struct fabric_blob hello;
        delete_device(&p, "rxe1");
        int rc = fabric_verbs.link_new(p.lessee.fabric, NULL, false, &link, &hello, &err);
        cr_assert_eq(rc, RDMAD_E_FABRIC);
        cr_assert(strstr(err.text, "rxe1"), "%s", err.text);
        must_run("rdma link add rxe1 type rxe netdev vb");
        dial_again(&p);
    }
    vpair_close(&p);
}

Test(verbs_link, the_peers_device_goes_and_comes_back) {
    struct vpair p;
    vpair_defaults(&p, 4 * MIB);
    p.lessee.settings.verbs.timeout = 12;
    vpair_start(&p);
    fill(p.lessee.base, p.bytes, 8);
    for (unsigned i = 0; i < 3; i++) {
        delete_device(&p, "rxe0");
        must_run("rdma link add rxe0 type rxe netdev va");
        dial_again(&p);
    }
    vpair_close(&p);
}

/* ---- closing ------------------------------------------------------------------------------ */

Test(verbs_link, closing_gives_back_every_op_and_nothing_lands_after) {
    struct vpair p;
    vpair_open(&p, 4 * MIB);
    for (unsigned round = 0; round < 20; round++) {
        struct vop ops[16];
        fill(p.lessee.base, 4 * MIB, round);
        for (unsigned i = 0; i < 16; i++) {
            vop_prepare(&p, &ops[i], RDMAD_OP_WRITE, i * 4096, i * 4096, 262144);
            vop_post(&p, &ops[i]);
        }
        if (round % 4)
            vpair_turn(&p);
        fabric_verbs.link_close(p.link);
        p.link = NULL;
        for (unsigned i = 0; i < 16; i++) {
            cr_assert(ops[i].done);
            if (ops[i].op.status == RDMAD_OK)
                continue;
            cr_assert_eq(ops[i].op.status, RDMAD_E_CANCELED);
            /* One turn posts the first of them, not all. */
            if (i > 0 || round % 4 == 0)
                cr_assert_eq(ops[i].op.outcome, RDMAD_FAILED_UNTOUCHED, "op %u", i);
            else
                cr_assert_eq(ops[i].op.outcome, RDMAD_UNKNOWN);
        }
        vpair_turn(&p); /* frees it */
        p.link = vpair_dial(&p);
        vpair_unwindow(&p, &p.window);
        vpair_window(&p, &p.window, p.link->number, RDMAD_RIGHTS_ALL, 0, p.bytes);
    }
    cr_assert_eq(p.lessee.lost, 0, "closing was told as a loss");
    vpair_close(&p);
}

static void close_link(struct vop *op) {
    struct vpair *p = op->context;
    if (p->link)
        fabric_verbs.link_close(p->link);
    p->link = NULL;
}

Test(verbs_link, a_completion_may_close_the_link) {
    struct vpair p;
    vpair_open(&p, MIB);
    struct vop ops[64];
    for (unsigned i = 0; i < 64; i++) {
        vop_prepare(&p, &ops[i], RDMAD_OP_WRITE, i * 64, i * 64, 64);
        ops[i].context = &p;
        if (i == 20)
            ops[i].then = close_link;
        vop_post(&p, &ops[i]);
    }
    VPAIR_UNTIL(&p, p.link == NULL);
    for (unsigned i = 0; i < 64; i++)
        cr_assert(ops[i].done, "op %u", i);
    for (unsigned i = 0; i < 100; i++) /* late completions name slots of a queue that is gone */
        vpair_turn(&p);
    p.link = vpair_dial(&p);
    vpair_unwindow(&p, &p.window);
    vpair_window(&p, &p.window, p.link->number, RDMAD_RIGHTS_ALL, 0, p.bytes);
    vop_prepare(&p, &ops[0], RDMAD_OP_WRITE, 0, 0, 4096);
    cr_assert_eq(vop_run(&p, &ops[0]), RDMAD_OK);
    vpair_close(&p);
}

static void post_again(struct vop *op) {
    struct vpair *p = op->context;
    op->then = NULL;
    op->done = false;
    if (p->link)
        cr_assert_eq(fabric_verbs.post(p->link, &op->op), 0);
}

Test(verbs_link, a_completion_may_post) {
    struct vpair p;
    vpair_open(&p, MIB);
    struct vop ops[64];
    for (unsigned i = 0; i < 64; i++) {
        vop_prepare(&p, &ops[i], RDMAD_OP_WRITE, i * 64, i * 64, 64);
        ops[i].context = &p;
        ops[i].then = post_again;
        vop_post(&p, &ops[i]);
    }
    VPAIR_UNTIL(&p, p.lessee.completed == 128);
    for (unsigned i = 0; i < 64; i++)
        cr_assert(ops[i].done && ops[i].op.status == RDMAD_OK);
    vpair_close(&p);
}

Test(verbs_link, links_come_and_go_without_a_trace) {
    struct vpair p;
    vpair_open(&p, MIB);
    unsigned before = 0;
    for (unsigned i = 0; i < 30; i++) {
        struct fabric_link *link = vpair_dial(&p);
        fabric_verbs.forget(p.owner.fabric, LESSEE, link->number);
        fabric_verbs.link_close(link);
        vpair_turn(&p);
        if (i == 5)
            before = fds_open();
    }
    cr_assert_eq(fds_open(), before);
    cr_assert_eq(fabric_verbs.accepted(p.owner.fabric), 1);
    vpair_close(&p);
}
