/* SPDX-License-Identifier: MIT */
/* sim's SENDs and atomics do what fabric.h says, and what the script says beyond that. */
#include "daemon/base/clock.h"
#include "tests/support/sim.h"
#include <criterion/criterion.h>
#include <string.h>

#define PEER 5u
#define MESSAGES 64u

struct side {
    struct fabric_env env;
    struct fabric *fabric;
    unsigned ups, lost, completed;
    unsigned received;
    struct {
        uint64_t peer, number;
        size_t size;
        uint8_t bytes[2048];
    } got[MESSAGES];
};

static struct side a, b;
static struct fabric_link *link_;
static struct fabric_window *window;
static struct fabric_blob key;
static uint8_t here[8192], there[8192] __attribute__((aligned(8)));

static uint64_t env_now(void *user) {
    (void)user;
    return sim_now();
}
static void env_complete(void *user, struct fabric_op *op) {
    (void)op;
    ((struct side *)user)->completed++;
}
static void env_up(void *user, void *cookie) {
    (void)cookie;
    ((struct side *)user)->ups++;
}
static void env_lost(void *user, void *cookie, const struct error *why) {
    (void)cookie;
    (void)why;
    ((struct side *)user)->lost++;
}
static uint64_t env_received(void *user, uint64_t peer, uint64_t number, const void *bytes,
                             size_t size) {
    struct side *s = user;
    cr_assert(s->received < MESSAGES && size <= sizeof(s->got[0].bytes));
    s->got[s->received].peer = peer;
    s->got[s->received].number = number;
    s->got[s->received].size = size;
    memcpy(s->got[s->received++].bytes, bytes, size);
    return UINT64_C(0x1234567800000000) + number;
}

static void side_up(struct side *s) {
    struct error err;
    *s = (struct side){.env = {.now_ns = env_now,
                               .complete = env_complete,
                               .link_up = env_up,
                               .link_lost = env_lost,
                               .received = env_received}};
    s->env.user = s;
    cr_assert_eq(fabric_sim.open(&s->env, &s->fabric, &err), 0);
}

static void pass(uint64_t ns) {
    for (uint64_t end = sim_now() + ns; sim_now() < end; sim_advance(100)) {
        fabric_sim.poll(b.fabric);
        fabric_sim.poll(a.fabric);
    }
}

static struct fabric_link *dial(void) {
    struct fabric_blob hello, offer;
    struct fabric_link *made;
    struct error err;
    unsigned ups = a.ups;
    cr_assert_eq(fabric_sim.link_new(a.fabric, NULL, false, &made, &hello, &err), 0);
    cr_assert_eq(fabric_sim.offer(b.fabric, PEER, false, &hello, &offer, &err), 0);
    cr_assert_eq(fabric_sim.link_open(made, "", &offer, &err), 0);
    pass(5000);
    cr_assert_eq(a.ups, ups + 1);
    return made;
}

static void open_window(uint32_t rights) {
    struct error err;
    struct fabric_window_spec spec = {
        .peer = PEER, .base = there, .length = 4096, .rights = rights, .deadline_ns = CLOCK_NEVER};
    cr_assert_eq(fabric_sim.window_open(b.fabric, &spec, &window, &key, &err), 0);
}

static void setup(void) {
    sim_reset(3);
    side_up(&a);
    side_up(&b);
    open_window(RDMAD_RIGHTS_ALL);
    memset(here, 'h', sizeof(here));
    memset(there, 0, sizeof(there));
    sim_script()->services = 1u << RDMAD_CHANNEL_DATAGRAM | 1u << RDMAD_CHANNEL_UNACKED;
    link_ = dial();
}

static void teardown(void) {
    if (link_)
        fabric_sim.link_close(link_);
    if (window)
        fabric_sim.window_close(window, RDMAD_E_LEASE_REVOKED);
    fabric_sim.close(a.fabric);
    fabric_sim.close(b.fabric);
    cr_assert_eq(sim_inflight(), 0);
}

TestSuite(sim_messages, .init = setup, .fini = teardown);

/* A message of `head` and of length bytes of here. */
static struct fabric_op send_op(const void *head, uint16_t head_size, uint64_t length) {
    return (struct fabric_op){.opcode = RDMAD_OP_SEND,
                              .head = head,
                              .head_size = head_size,
                              .local = here,
                              .length = head_size + length};
}

static struct fabric_op word_op(uint8_t opcode, uint64_t offset, uint64_t compare, uint64_t swap) {
    return (struct fabric_op){.opcode = opcode,
                              .length = 8,
                              .key = &key,
                              .offset = offset,
                              .compare = compare,
                              .swap = swap};
}

static uint64_t word_at(size_t offset) {
    uint64_t word;
    memcpy(&word, there + offset, sizeof(word));
    return word;
}

Test(sim_messages, head_and_payload_come_as_one) {
    char head[] = "head";
    struct fabric_op op = send_op(head, 4, SIM_MAX_SEND - 4);
    cr_assert_eq(fabric_sim.post(link_, &op), 0);
    memset(head, 'x', sizeof(head)); /* post copied it */
    pass(20000);
    cr_assert(a.completed == 1 && op.outcome == RDMAD_DONE && op.status == 0);
    cr_assert(b.received == 1 && b.got[0].size == SIM_MAX_SEND && b.got[0].peer == PEER);
    cr_assert_eq(b.got[0].number, link_->number);
    cr_assert_eq(memcmp(b.got[0].bytes, "headhhhh", 8), 0);
}

Test(sim_messages, keep_their_order_and_come_after_the_writes_before_them) {
    sim_script()->delay_max_ns = 50000;
    sim_script()->chunk = 64;
    for (unsigned round = 0; round < 20; round++) {
        struct fabric_op write = {
            .opcode = RDMAD_OP_WRITE, .local = here, .length = 256, .key = &key};
        struct fabric_op sends[4];
        memset(there, 't', 256);
        unsigned before = b.received;
        fabric_sim.post(link_, &write);
        for (uint8_t i = 0; i < 4; i++) {
            sends[i] = send_op(&i, 1, 0);
            cr_assert_eq(fabric_sim.post(link_, &sends[i]), 0);
        }
        while (b.received == before)
            pass(100);
        cr_assert_eq(memcmp(there, here, 256), 0, "received before the write was placed");
        pass(1000000);
        for (uint8_t i = 0; i < 4; i++)
            cr_assert_eq(b.got[before + i].bytes[0], i);
        if (b.received > MESSAGES - 4)
            b.received = 0;
    }
}

Test(sim_messages, that_ask_are_done_when_they_were_passed_on_and_bring_the_answer) {
    struct fabric_op op = send_op("x", 1, 0);
    op.asks = true;
    cr_assert_eq(fabric_sim.post(link_, &op), 0);
    for (uint64_t end = sim_now() + 20000; sim_now() < end; sim_advance(100))
        fabric_sim.poll(a.fabric);
    cr_assert_eq(a.completed, 0, "nobody has read it yet");
    pass(20000);
    cr_assert_eq(a.completed, 1);
    cr_assert_eq(op.outcome, RDMAD_DONE);
    cr_assert_eq(op.value, UINT64_C(0x1234567800000000) + link_->number);
    cr_assert_eq(fabric_sim.post(link_, &op), 0);
    for (uint64_t end = sim_now() + 20000; sim_now() < end; sim_advance(100))
        fabric_sim.poll(a.fabric);
    sim_break_links(a.fabric);
    pass(20000);
    cr_assert_eq(op.status, RDMAD_E_PEER_LOST);
    cr_assert_eq(op.outcome, RDMAD_UNKNOWN);
    cr_assert_eq(b.received, 2);
}

Test(sim_messages, are_held_back_while_the_script_says_so) {
    struct fabric_op op = send_op("x", 1, 0);
    uint64_t wake_ns;
    sim_script()->hold_sends = true;
    fabric_sim.post(link_, &op);
    pass(1000000);
    cr_assert(b.received == 0 && a.completed == 0);
    cr_assert(fabric_sim.arm(a.fabric, &wake_ns), "nothing can happen by itself");
    sim_script()->hold_sends = false;
    pass(20000);
    cr_assert(b.received == 1 && a.completed == 1);
}

Test(sim_messages, say_again_while_the_receive_window_is_full) {
    struct fabric_op ops[3];
    sim_script()->receive_window = 2;
    for (unsigned i = 0; i < 3; i++)
        ops[i] = send_op("x", 1, 0);
    cr_assert_eq(fabric_sim.post(link_, &ops[0]), 0);
    cr_assert_eq(fabric_sim.post(link_, &ops[1]), 0);
    cr_assert_eq(fabric_sim.post(link_, &ops[2]), RDMAD_E_AGAIN);
    pass(20000);
    cr_assert_eq(fabric_sim.post(link_, &ops[2]), 0);
    pass(20000);
    cr_assert_eq(b.received, 3);
}

Test(sim_messages, under_way_when_the_link_breaks_come_late_or_never_and_are_unknown) {
    for (unsigned late = 0; late < 2; late++) {
        struct fabric_op ops[3];
        b.received = a.completed = 0;
        sim_script()->late_send_ppm = late ? 1000000 : 0;
        for (uint8_t i = 0; i < 3; i++) {
            ops[i] = send_op(&i, 1, 0);
            fabric_sim.post(link_, &ops[i]);
            if (i == 1)
                fabric_sim.poll(a.fabric); /* two are sent, the third is not */
        }
        sim_break_links(a.fabric);
        pass(20000);
        cr_assert_eq(a.completed, 3);
        cr_assert(ops[0].outcome == RDMAD_UNKNOWN && ops[1].outcome == RDMAD_UNKNOWN);
        cr_assert_eq(ops[2].outcome, RDMAD_FAILED_UNTOUCHED);
        cr_assert_eq(b.received, late ? 2 : 0);
        cr_assert(!late || (b.got[0].bytes[0] == 0 && b.got[1].bytes[0] == 1));
        cr_assert(!late || b.got[0].number == link_->number);
        fabric_sim.link_close(link_);
        link_ = dial();
    }
}

Test(sim_messages, of_the_weaker_kinds_are_done_when_they_left_and_may_be_lost) {
    cr_assert_eq(link_->max_datagram, SIM_MAX_DATAGRAM);
    for (unsigned lost = 0; lost < 2; lost++) {
        struct fabric_op op = send_op("x", 1, 100);
        op.service = RDMAD_CHANNEL_DATAGRAM;
        sim_script()->lose_weak_ppm = lost ? 1000000 : 0;
        b.received = 0;
        cr_assert_eq(fabric_sim.post(link_, &op), 0);
        pass(20000);
        cr_assert(op.outcome == RDMAD_DONE && b.received == !lost);
    }
}

Test(sim_messages, are_refused_where_nobody_receives) {
    struct fabric_op op = send_op("x", 1, 0);
    b.env.received = NULL;
    fabric_sim.post(link_, &op);
    pass(20000);
    cr_assert(op.status == RDMAD_E_UNSUPPORTED && op.outcome == RDMAD_FAILED_UNTOUCHED);
}

Test(sim_messages, of_an_expelled_peer_are_not_passed_on) {
    struct fabric_op op = send_op("x", 1, 0);
    fabric_sim.post(link_, &op);
    while (!a.completed) { /* it is answered as soon as it lies in the inbox */
        fabric_sim.poll(a.fabric);
        sim_advance(100);
    }
    fabric_sim.expel(b.fabric, PEER);
    pass(20000);
    cr_assert_eq(b.received, 0);
}

Test(sim_messages, cas_and_fadd_tell_what_was_there) {
    struct fabric_op add = word_op(RDMAD_OP_FADD, 8, 0, 5);
    struct fabric_op miss = word_op(RDMAD_OP_CAS, 8, 4, 9), hit = word_op(RDMAD_OP_CAS, 8, 5, 9);
    fabric_sim.post(link_, &add);
    pass(20000);
    cr_assert(add.outcome == RDMAD_DONE && add.value == 0 && word_at(8) == 5);
    fabric_sim.post(link_, &miss);
    pass(20000);
    cr_assert(miss.outcome == RDMAD_DONE && miss.value == 5 && word_at(8) == 5);
    fabric_sim.post(link_, &hit);
    pass(20000);
    cr_assert(hit.outcome == RDMAD_DONE && hit.value == 5 && word_at(8) == 9);
}

Test(sim_messages, atomics_are_refused_misaligned_out_of_range_and_without_the_right) {
    struct fabric_op op = word_op(RDMAD_OP_FADD, 12, 0, 1);
    fabric_sim.post(link_, &op);
    pass(20000);
    cr_assert(op.status == RDMAD_E_ALIGN && op.outcome == RDMAD_FAILED_UNTOUCHED);
    op = word_op(RDMAD_OP_FADD, 4096 - 4, 0, 1);
    fabric_sim.post(link_, &op);
    pass(20000);
    cr_assert_eq(op.status, RDMAD_E_RANGE);
    fabric_sim.window_close(window, RDMAD_E_LEASE_REVOKED);
    open_window(RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE);
    op = word_op(RDMAD_OP_FADD, 8, 0, 1);
    fabric_sim.post(link_, &op);
    pass(20000);
    cr_assert_eq(op.status, RDMAD_E_RIGHTS);
    cr_assert(word_at(8) == 0 && word_at(4088) == 0);
}

Test(sim_messages, an_atomic_under_way_is_unknown_and_happens_once_at_most) {
    struct fabric_op op = word_op(RDMAD_OP_FADD, 8, 0, 1);
    sim_script()->hold_atomics = true;
    fabric_sim.post(link_, &op);
    fabric_sim.cancel(&op, RDMAD_E_CANCELED);
    cr_assert_eq(op.outcome, RDMAD_FAILED_UNTOUCHED, "it was not sent");
    fabric_sim.post(link_, &op);
    pass(20000);
    fabric_sim.cancel(&op, RDMAD_E_CANCELED);
    cr_assert(op.outcome == RDMAD_UNKNOWN && op.status == RDMAD_E_CANCELED);
    sim_script()->hold_atomics = false;
    pass(20000);
    cr_assert_leq(word_at(8), 1u);
    cr_assert_eq(a.completed, 2);
}
