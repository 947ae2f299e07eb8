/* SPDX-License-Identifier: MIT */
/*
 * Messages over queue pairs: they arrive once, in order and whole, whether the target looks often
 * or not, no device ever says that it has no receive, and when a link ends everybody is told the
 * truth about each.
 */
#include "tests/support/runner.h"
#include "tests/unit/verbs_numbered.h"
#include <criterion/hooks.h>
#include <criterion/options.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

/* The devices' counters are everybody's: one test at a time. */
ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
    (void)tests;
    criterion_options.jobs = 1;
}

static void cable_mended(void) {
    (void)!system("tc qdisc del dev va root 2>/dev/null; tc qdisc del dev vb root 2>/dev/null");
}

TestSuite(verbs_messages, .init = cable_mended, .fini = cable_mended);

static const struct outbox *outbox_of(const struct vpair *p) {
    return &container_of(p->link, struct verbs_link, base)->outbox;
}

struct slow {
    unsigned again, stalls; /* how often there was no room, and none at the peer */
};

/* Sends count messages; the owner looks only now and then. */
static struct slow send_slowly(struct vpair *p, unsigned count, unsigned owner_every) {
    enum { IN_FLIGHT = 100 };
    static struct numbered m[IN_FLIGHT];
    struct slow seen = {0};
    unsigned posted = 0, ended = 0;
    uint64_t until = clock_now_ns() + 100 * test_patience() * NSEC_PER_SEC;
    for (unsigned turn = 1; ended < count; turn++) {
        while (posted < count && posted - ended < IN_FLIGHT) {
            struct numbered *next = &m[posted % IN_FLIGHT];
            prepare(p, next, posted);
            int rc = fabric_verbs.post(p->link, &next->op.op);
            cr_assert(rc == 0 || rc == RDMAD_E_AGAIN, "%d", rc);
            seen.again += rc != 0;
            if (rc)
                break;
            next->head = UINT32_MAX; /* it was copied */
            posted++;
        }
        seen.stalls += outbox_of(p)->stalled;
        fabric_verbs.poll(p->lessee.fabric);
        if (turn % owner_every == 0)
            fabric_verbs.poll(p->owner.fabric);
        for (; ended < posted && m[ended % IN_FLIGHT].op.done; ended++) {
            cr_assert_eq(m[ended % IN_FLIGHT].op.op.status, RDMAD_OK);
            cr_assert_eq(m[ended % IN_FLIGHT].op.op.outcome, RDMAD_DONE);
        }
        cr_assert(clock_now_ns() < until, "%u of %u messages in time", ended, count);
    }
    VPAIR_UNTIL(p, expected.next == count);
    return seen;
}

Test(verbs_messages, many_to_a_slow_target_come_in_order_and_no_receive_is_missing,
     .timeout = 400) {
    const unsigned count = test_count(40000);
    struct vpair p;
    begin(&p);
    cr_assert(p.link->max_send >= FABRIC_SEND_MIN);
    cr_assert(p.link->ordered);
    uint64_t before = not_ready();
    struct slow seen = send_slowly(&p, count, 40);
    cr_assert(seen.again > 0 && seen.stalls > 0, "the target was not slow: %u, %u", seen.again,
              seen.stalls);
    cr_assert_eq(not_ready(), before, "a device said that it has no receive");
    cr_assert_eq(p.owner.messages, count);
    cr_assert_eq(p.lessee.lost, 0);
    vpair_close(&p);
}

Test(verbs_messages, on_many_lanes_they_keep_their_order_and_the_link_promises_no_more) {
    struct vpair p;
    vpair_defaults(&p, MIB);
    p.owner.settings.verbs.lanes = p.lessee.settings.verbs.lanes = 4;
    vpair_start(&p);
    expect_from_now(&p);
    cr_assert_not(p.link->ordered);
    uint64_t before = not_ready();
    send_slowly(&p, 500, 7);
    cr_assert_eq(not_ready(), before);
    vpair_close(&p);
}

Test(verbs_messages, beside_memory_windows_they_come_as_well) {
    struct vpair p;
    vpair_defaults(&p, MIB);
    p.owner.settings.verbs.windows = WINDOWS_FORCED;
    vpair_start(&p);
    expect_from_now(&p);
    uint64_t before = not_ready();
    send_slowly(&p, 300, 5);
    cr_assert_eq(not_ready(), before);
    struct vop op;
    vop_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 4096);
    cr_assert_eq(vop_run(&p, &op), RDMAD_OK);
    vpair_close(&p);
}

/* ---- with answers -------------------------------------------------------------------------- */

static void answer_next(struct vside *s, uint64_t number, const uint8_t *bytes, size_t size) {
    uint32_t n;
    (void)number;
    cr_assert_eq(size, sizeof n);
    memcpy(&n, bytes, sizeof n);
    cr_assert_eq(n, expected.next++);
    s->word = UINT64_C(0x9000000000000000) + n;
}

/* More than the page has places for answers, some of which nobody asked for. */
Test(verbs_messages, that_ask_are_done_with_their_own_answer) {
    enum { ROUNDS = 500 };
    static struct numbered m[ROUNDS];
    struct vpair p;
    begin(&p);
    p.owner.received = answer_next;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        prepare(&p, &m[i], i);
        m[i].op.op.length = sizeof m[i].head;
        m[i].op.op.asks = i % 3 != 1;
        vop_post(&p, &m[i].op);
        if (i % 100 == 99)
            VPAIR_UNTIL(&p, m[i].op.done && m[i - 1].op.done);
    }
    VPAIR_UNTIL(&p, m[ROUNDS - 1].op.done && m[ROUNDS - 2].op.done);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        cr_assert(m[i].op.done, "%u", i);
        cr_assert_eq(m[i].op.op.status, RDMAD_OK);
        if (i % 3 != 1)
            cr_assert_eq(m[i].op.op.value, UINT64_C(0x9000000000000000) + i, "%u", i);
    }
    vpair_close(&p);
}

/* ---- beside WRITEs ------------------------------------------------------------------------- */

static void expect_written(struct vside *s, uint64_t number, const uint8_t *bytes, size_t size) {
    uint32_t n, there;
    (void)number;
    cr_assert_eq(size, sizeof n);
    memcpy(&n, bytes, sizeof n);
    memcpy(&there, s->base, sizeof there);
    cr_assert(there >= n, "message %u overtook its write, %u is there", n, there);
    expected.next++;
}

Test(verbs_messages, behind_a_write_a_message_comes_when_the_write_is_there) {
    enum { ROUNDS = 300 };
    struct vpair p;
    begin(&p);
    p.owner.received = expect_written;
    static struct numbered m[ROUNDS];
    static struct vop w[ROUNDS];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        memcpy(p.lessee.base + 4 * i, &i, sizeof i);
        vop_prepare(&p, &w[i], RDMAD_OP_WRITE, 4 * i, 0, 4);
        prepare(&p, &m[i], i);
        m[i].op.op.length = sizeof m[i].head;
        vop_post(&p, &w[i]);
        vop_post(&p, &m[i].op);
    }
    VPAIR_UNTIL(&p, expected.next == ROUNDS && m[ROUNDS - 1].op.done);
    vpair_close(&p);
}

Test(verbs_messages, reads_go_on_beside_them_though_the_queue_is_full) {
    struct vpair p;
    vpair_defaults(&p, MIB);
    p.lessee.settings.verbs.queue_depth = 4;
    vpair_start(&p);
    expect_from_now(&p);
    send_slowly(&p, 300, 3);
    struct vop op;
    vop_prepare(&p, &op, RDMAD_OP_READ, MIB / 2, 0, 4096);
    cr_assert_eq(vop_run(&p, &op), RDMAD_OK);
    vpair_close(&p);
}

/* ---- limits -------------------------------------------------------------------------------- */

static int send_of(struct vpair *p, uint16_t head, uint64_t length, struct numbered *m) {
    static const uint8_t heads[FABRIC_HEAD_MAX + 1];
    prepare(p, m, 0);
    m->op.op.head = heads;
    m->op.op.head_size = head;
    m->op.op.length = head + length;
    return vop_run(p, &m->op);
}

Test(verbs_messages, what_is_too_long_fails_alone_and_what_just_fits_goes) {
    struct vpair p;
    struct numbered m;
    begin(&p);
    p.owner.received = count_bytes;
    uint64_t most = p.link->max_send;
    cr_assert_eq(send_of(&p, 0, most + 1, &m), RDMAD_E_LENGTH);
    cr_assert_eq(m.op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(send_of(&p, 1, most, &m), RDMAD_E_LENGTH);
    cr_assert_eq(send_of(&p, 16, UINT64_MAX - 8, &m), RDMAD_E_LENGTH);
    cr_assert_eq(send_of(&p, FABRIC_HEAD_MAX + 1, 0, &m), RDMAD_E_LENGTH);
    cr_assert_eq(send_of(&p, 0, most, &m), RDMAD_OK);
    cr_assert_eq(send_of(&p, FABRIC_HEAD_MAX, most - FABRIC_HEAD_MAX, &m), RDMAD_OK);
    cr_assert_eq(send_of(&p, FABRIC_HEAD_MAX, 0, &m), RDMAD_OK);
    cr_assert_eq(send_of(&p, 0, 0, &m), RDMAD_OK);
    VPAIR_UNTIL(&p, p.owner.messages == 4);
    cr_assert_eq(expected.next, 2 * most + FABRIC_HEAD_MAX);
    cr_assert_eq(p.lessee.lost, 0);
    vpair_close(&p);
}

Test(verbs_messages, memory_that_vanished_ends_that_message_alone) {
    struct vpair p;
    begin(&p);
    int fd = memfd_create("vanishing", MFD_CLOEXEC);
    cr_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
    uint8_t *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(gone != MAP_FAILED && ftruncate(fd, 0) == 0);
    struct numbered m[3];
    for (uint32_t i = 0; i < 3; i++)
        prepare(&p, &m[i], i);
    m[1].op.op.local = gone + 16;
    m[1].op.op.length = sizeof m[1].head + 100;
    m[2].head = 1; /* what is awaited after the first */
    m[2].op.op.local = p.lessee.base + place_of(1);
    m[2].op.op.length = sizeof m[2].head + length_of(1, 4096);
    for (unsigned i = 0; i < 3; i++)
        vop_post(&p, &m[i].op);
    VPAIR_UNTIL(&p, m[0].op.done && m[1].op.done && m[2].op.done && expected.next == 2);
    cr_assert_eq(m[0].op.op.status, RDMAD_OK);
    cr_assert_eq(m[2].op.op.status, RDMAD_OK);
    cr_assert_eq(m[1].op.op.status, RDMAD_E_FAULT);
    cr_assert_eq(m[1].op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(p.lessee.faults, 1);
    cr_assert_eq((uintptr_t)p.lessee.fault_address, (uintptr_t)gone + 16);
    close(fd);
    vpair_close(&p);
}

Test(verbs_messages, cancelled_while_it_waits_a_message_is_untouched_at_once) {
    enum { COUNT = 64 };
    struct vpair p;
    begin(&p);
    static struct numbered m[2 * COUNT];
    unsigned posted = 0;
    /* The owner looks at nothing: its receives are used up, then our slots. */
    uint64_t until = clock_now_ns() + NSEC_PER_SEC;
    while (clock_now_ns() < until && posted < 2 * COUNT) {
        prepare(&p, &m[posted], posted);
        posted += fabric_verbs.post(p.link, &m[posted].op.op) == 0;
        fabric_verbs.poll(p.lessee.fabric);
    }
    cr_assert(outbox_of(&p)->stalled);
    cr_assert(posted > COUNT, "%u", posted);
    for (unsigned i = COUNT; i < posted; i++) {
        cr_assert_not(m[i].op.done, "message %u was sent without room", i);
        fabric_verbs.cancel(&m[i].op.op, RDMAD_E_TIMEOUT);
        cr_assert(m[i].op.done && m[i].op.op.status == RDMAD_E_TIMEOUT);
        cr_assert_eq(m[i].op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    }
    VPAIR_UNTIL(&p, expected.next == COUNT);
    struct numbered next;
    prepare(&p, &next, COUNT);
    cr_assert_eq(vop_run(&p, &next.op), RDMAD_OK);
    VPAIR_UNTIL(&p, expected.next == COUNT + 1);
    vpair_close(&p);
}

/* ---- sleep --------------------------------------------------------------------------------- */

Test(verbs_messages, a_message_wakes_who_sleeps) {
    struct vpair p;
    begin(&p);
    for (uint32_t i = 0; i < 20; i++) {
        uint64_t wake_ns;
        while (fabric_verbs.poll(p.owner.fabric) || !fabric_verbs.arm(p.owner.fabric, &wake_ns))
            ;
        struct numbered m;
        prepare(&p, &m, i);
        cr_assert_eq(fabric_verbs.post(p.link, &m.op.op), 0);
        while (!m.op.done)
            fabric_verbs.poll(p.lessee.fabric);
        struct pollfd fd = {.fd = fabric_verbs.wait_fd(p.owner.fabric), .events = POLLIN};
        cr_assert_eq(poll(&fd, 1, 5000), 1, "nothing woke the owner");
        fabric_verbs.poll(p.owner.fabric);
        cr_assert_eq(expected.next, i + 1);
    }
    vpair_close(&p);
}

/* ---- ends ---------------------------------------------------------------------------------- */

Test(verbs_messages, what_was_done_is_handed_on_though_the_link_is_closed_meanwhile) {
    enum { COUNT = 50 };
    struct vpair p;
    begin(&p);
    static struct numbered m[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        prepare(&p, &m[i], i);
        cr_assert_eq(fabric_verbs.post(p.link, &m[i].op.op), 0);
    }
    while (!m[COUNT - 1].op.done)
        fabric_verbs.poll(p.lessee.fabric);
    struct fabric_link closed = *p.link; /* for expect_next */
    fabric_verbs.link_close(p.link);
    p.link = &closed;
    cr_assert_eq(p.owner.messages, 0);
    fabric_verbs.forget(p.owner.fabric, LESSEE, expected.number);
    cr_assert_eq(fabric_verbs.accepted(p.owner.fabric), 0);
    VPAIR_UNTIL(&p, expected.next == COUNT);
    p.link = NULL;
    vpair_close(&p);
}

static void expel_inside(struct vside *s, uint64_t number, const uint8_t *bytes, size_t size) {
    uint8_t copy[16];
    (void)number;
    fabric_verbs.expel(s->fabric, LESSEE);
    memcpy(copy, bytes, size < sizeof copy ? size : sizeof copy); /* still valid */
}

Test(verbs_messages, who_is_expelled_is_heard_no_more) {
    struct vpair p;
    begin(&p);
    p.owner.received = expel_inside;
    static struct numbered m[10];
    for (uint32_t i = 0; i < 10; i++) {
        prepare(&p, &m[i], i);
        cr_assert_eq(fabric_verbs.post(p.link, &m[i].op.op), 0);
    }
    while (!m[9].op.done)
        fabric_verbs.poll(p.lessee.fabric);
    for (unsigned i = 0; i < 20; i++)
        fabric_verbs.poll(p.owner.fabric);
    cr_assert_eq(p.owner.messages, 1);
    vpair_close(&p);
}

/* The cable is cut while messages are on it: what is called done has come, what is called untouched
 * has not, and what came is a beginning of what was sent. */
Test(verbs_messages, broken_in_the_middle_each_message_is_told_the_truth, .timeout = 120) {
    enum { COUNT = 120 };
    struct vpair p;
    begin(&p);
    static struct numbered m[COUNT];
    unsigned unknown = 0, done = 0, posted = 0;
    for (; posted < 40; posted++) {
        prepare(&p, &m[posted], posted);
        vop_post(&p, &m[posted].op);
    }
    vpair_turn(&p);
    must_run("tc qdisc replace dev va root netem loss 100%%");
    must_run("tc qdisc replace dev vb root netem loss 100%%");
    for (; posted < COUNT; posted++) {
        prepare(&p, &m[posted], posted);
        if (fabric_verbs.post(p.link, &m[posted].op.op))
            break;
        vpair_turn(&p);
    }
    VPAIR_UNTIL(&p, p.lessee.lost);
    cr_assert_eq(p.lessee.completed, posted);
    for (unsigned i = 0; i < 20; i++)
        vpair_turn(&p);
    for (unsigned i = 0; i < posted; i++) {
        const struct fabric_op *op = &m[i].op.op;
        done += op->outcome == RDMAD_DONE;
        unknown += op->outcome == RDMAD_UNKNOWN;
        cr_assert(op->outcome != RDMAD_DONE || i < expected.next, "%u is done and did not come", i);
        cr_assert(op->outcome != RDMAD_FAILED_UNTOUCHED || i >= expected.next,
                  "%u is untouched and came", i);
        cr_assert_neq(op->outcome, RDMAD_FAILED_PARTIAL);
        cr_assert(op->outcome == RDMAD_DONE || op->status == RDMAD_E_PEER_LOST, "%d", op->status);
    }
    cr_assert(done > 0 && unknown > 0, "%u done, %u unknown: not in the middle", done, unknown);
    cable_mended();
    fabric_verbs.link_close(p.link);
    p.link = vpair_dial(&p);
    expected.next = 0;
    expected.number = p.link->number;
    prepare(&p, &m[0], 0);
    cr_assert_eq(vop_run(&p, &m[0].op), RDMAD_OK);
    VPAIR_UNTIL(&p, expected.next == 1);
    vpair_close(&p);
}
