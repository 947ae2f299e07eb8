/* SPDX-License-Identifier: MIT */
/* sim keeps fabric.h's promises, or the tests that stand on it prove nothing. */
#include "daemon/base/clock.h"
#include "tests/support/sim.h"
#include <criterion/criterion.h>
#include <string.h>

struct side {
    struct fabric_env env;
    struct fabric *fabric;
    unsigned ups, lost, completed;
    struct fabric_op *last;
    int why;
};

static struct side a, b;

static uint64_t env_now(void *user) {
    (void)user;
    return sim_now();
}
static void env_complete(void *user, struct fabric_op *op) {
    struct side *s = user;
    s->completed++;
    s->last = op;
}
static void env_up(void *user, void *cookie) {
    (void)cookie;
    ((struct side *)user)->ups++;
}
static void env_lost(void *user, void *cookie, const struct error *why) {
    (void)cookie;
    struct side *s = user;
    s->lost++;
    s->why = why->code;
}
static void env_fault(void *user, const void *address) {
    (void)user;
    (void)address;
}

static void side_up(struct side *s) {
    struct error err;
    *s = (struct side){.env = {.now_ns = env_now,
                               .complete = env_complete,
                               .link_up = env_up,
                               .link_lost = env_lost,
                               .memory_fault = env_fault}};
    s->env.user = s;
    cr_assert_eq(fabric_sim.open(&s->env, &s->fabric, &err), 0);
}

static struct fabric_link *link_;
static struct fabric_window *window;
static struct fabric_blob key;
static uint8_t here[8192], there[8192];

static void connect_sides(void) {
    struct fabric_blob hello, offer;
    struct error err;
    cr_assert_eq(fabric_sim.link_new(a.fabric, NULL, false, &link_, &hello, &err), 0);
    cr_assert_eq(fabric_sim.offer(b.fabric, 5, false, &hello, &offer, &err), 0);
    cr_assert_eq(fabric_sim.link_open(link_, "", &offer, &err), 0);
    for (int i = 0; i < 100 && !a.ups && !a.lost; i++) {
        fabric_sim.poll(a.fabric);
        sim_advance(100);
    }
}

static void setup(void) {
    struct error err;
    sim_reset(1);
    side_up(&a);
    side_up(&b);
    struct fabric_window_spec spec = {
        .peer = 5, .base = there, .length = 4096, .rights = 3, .deadline_ns = CLOCK_NEVER};
    cr_assert_eq(fabric_sim.window_open(b.fabric, &spec, &window, &key, &err), 0);
    memset(here, 'h', sizeof(here));
    memset(there, 't', sizeof(there));
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

TestSuite(sim, .init = setup, .fini = teardown);

static struct fabric_op write_op(uint64_t length) {
    return (struct fabric_op){
        .opcode = RDMAD_OP_WRITE, .local = here, .length = length, .key = &key};
}

static void pass(uint64_t ns) {
    for (uint64_t end = sim_now() + ns; sim_now() < end; sim_advance(100)) {
        fabric_sim.poll(b.fabric);
        fabric_sim.poll(a.fabric);
    }
}

Test(sim, a_write_is_placed_before_it_is_answered_and_takes_its_time) {
    connect_sides();
    struct fabric_op op = write_op(4096);
    uint64_t start = sim_now();
    cr_assert_eq(fabric_sim.post(link_, &op), 0);
    while (!a.completed) {
        cr_assert_eq(there[4095], 't', "too early");
        uint64_t before = sim_now();
        fabric_sim.poll(a.fabric);
        if (there[4095] == 'h')
            break;
        cr_assert_eq(sim_now(), before);
        sim_advance(100);
    }
    pass(5000);
    cr_assert_eq(a.completed, 1);
    cr_assert_eq(op.status, 0);
    cr_assert_geq(sim_now() - start, 2000u);
}

Test(sim, a_lost_request_touches_nothing_and_a_lost_answer_everything) {
    connect_sides();
    struct fabric_op op = write_op(64);
    sim_script()->lose_request_ppm = 1000000;
    fabric_sim.post(link_, &op);
    pass(100000);
    cr_assert_eq(a.completed, 0);
    cr_assert_eq(there[0], 't');
    fabric_sim.cancel(&op, RDMAD_E_TIMEOUT);
    cr_assert(a.completed == 1 && op.status == RDMAD_E_TIMEOUT);
    sim_script()->lose_request_ppm = 0;
    sim_script()->lose_answer_ppm = 1000000;
    fabric_sim.post(link_, &op);
    pass(100000);
    cr_assert_eq(a.completed, 1);
    cr_assert_eq(there[0], 'h');
    fabric_sim.cancel(&op, RDMAD_E_TIMEOUT);
    cr_assert_eq(op.outcome, RDMAD_UNKNOWN);
}

Test(sim, not_one_byte_moves_after_window_close) {
    connect_sides();
    sim_script()->chunk = 8;
    struct fabric_op op = write_op(4096);
    fabric_sim.post(link_, &op);
    pass(20000);
    cr_assert_eq(there[0], 'h');
    cr_assert_eq(there[4095], 't');
    fabric_sim.window_close(window, RDMAD_E_LEASE_REVOKED);
    window = NULL;
    uint8_t copy[sizeof(there)];
    memcpy(copy, there, sizeof(there));
    pass(100000);
    cr_assert_eq(memcmp(copy, there, sizeof(there)), 0);
    cr_assert(a.completed == 1 && op.status == RDMAD_E_LEASE_REVOKED);
    cr_assert_eq(op.outcome, RDMAD_FAILED_PARTIAL);
}

Test(sim, an_offer_is_good_once_and_for_its_peer) {
    struct fabric_blob hello, offer;
    struct error err;
    struct fabric_link *second;
    connect_sides();
    cr_assert_eq(a.ups, 1);
    cr_assert_eq(fabric_sim.link_new(a.fabric, NULL, false, &second, &hello, &err), 0);
    cr_assert_eq(fabric_sim.offer(b.fabric, 6, false, &hello, &offer, &err), 0);
    cr_assert_eq(fabric_sim.link_open(second, "", &offer, &err), 0);
    pass(5000);
    cr_assert_eq(a.ups, 2);
    struct fabric_op op = write_op(64);
    fabric_sim.post(second, &op);
    pass(10000);
    cr_assert_eq(op.status, RDMAD_E_NO_LEASE, "the window is of peer 5");
    fabric_sim.link_close(second);
    fabric_sim.link_new(a.fabric, NULL, false, &second, &hello, &err);
    cr_assert_eq(fabric_sim.link_open(second, "", &offer, &err), 0);
    pass(5000);
    cr_assert(a.lost == 1 && a.why == RDMAD_E_UNREACHABLE);
    fabric_sim.link_close(second);
}

Test(sim, a_broken_link_gives_all_ops_back_and_then_says_so_once) {
    connect_sides();
    struct fabric_op ops[3];
    for (int i = 0; i < 3; i++) {
        ops[i] = write_op(64);
        cr_assert_eq(fabric_sim.post(link_, &ops[i]), 0);
        if (i == 1)
            fabric_sim.poll(a.fabric); /* sent; the third is not */
    }
    sim_break_links(a.fabric);
    pass(10000);
    cr_assert(a.completed == 3 && a.lost == 1 && a.why == RDMAD_E_PEER_LOST);
    cr_assert_eq(ops[0].outcome, RDMAD_UNKNOWN);
    cr_assert_eq(ops[2].outcome, RDMAD_FAILED_UNTOUCHED);
    struct fabric_op op = write_op(64);
    cr_assert_eq(fabric_sim.post(link_, &op), RDMAD_E_PEER_LOST);
}

Test(sim, expel_breaks_what_came_in_from_the_peer) {
    connect_sides();
    fabric_sim.expel(b.fabric, 6);
    pass(1000);
    cr_assert_eq(a.lost, 0);
    fabric_sim.expel(b.fabric, 5);
    pass(1000);
    cr_assert_eq(a.lost, 1);
}

Test(sim, a_full_link_says_again) {
    connect_sides();
    sim_script()->max_inflight = 2;
    struct fabric_op ops[3];
    for (int i = 0; i < 3; i++)
        ops[i] = write_op(8);
    cr_assert_eq(fabric_sim.post(link_, &ops[0]), 0);
    cr_assert_eq(fabric_sim.post(link_, &ops[1]), 0);
    cr_assert_eq(fabric_sim.post(link_, &ops[2]), RDMAD_E_AGAIN);
    pass(10000); /* the ops live in this frame: they end before it does */
    cr_assert_eq(a.completed, 2);
}
