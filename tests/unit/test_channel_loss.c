/* SPDX-License-Identifier: MIT */
/* A channel's links break at every moment of an exchange; nothing is lost, nothing comes twice. */
#include "tests/support/runner.h"
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>

#define COUNT 8u
#define ROOM 20000u
#define POOL (2 * COUNT * ROOM)
#define STEP_NS (test_sanitized() ? 2900u : 700u) /* the plain build does more */
#define LAST_NS 60000u

static struct rig rig;
static struct chan c;

TestSuite(channel_loss, .timeout = 120);

static uint64_t length_of(unsigned i) {
    static const uint64_t lengths[COUNT] = {10, ROOM, 0, 900, 5000, 5000, 64, ROOM};
    return lengths[i];
}

static uint8_t *sent(int end, unsigned i) {
    return c.end[end].client.pool + (size_t)i * ROOM;
}
static uint8_t *received(int end, unsigned i) {
    return c.end[end].client.pool + (size_t)(COUNT + i) * ROOM;
}

static void begin(void) {
    for (unsigned i = 0; i < COUNT; i++) {
        for (int end = A; end <= B; end++) {
            for (uint64_t n = 0; n < length_of(i); n++)
                sent(end, i)[n] = (uint8_t)(n * 3 + i * 31 + (unsigned)end);
            chan_put(&c, end, RDMAD_OP_RECV, (COUNT + i) * ROOM, ROOM, 100 + i);
            chan_put(&c, end, RDMAD_OP_SEND, i * ROOM, length_of(i), i);
        }
    }
}

/* Every op of an end is over, the RECVs in order and with their bytes. */
static void finish(int end) {
    unsigned sends = 0, recvs = 0;
    while (sends != (1u << COUNT) - 1 || recvs < COUNT) {
        struct rdmad_cqe cqe = chan_wait(&c, end);
        cr_assert_eq(cqe.status, RDMAD_OK, "%d", cqe.status);
        unsigned n = (unsigned)cqe.user_data;
        if (cqe.opcode == RDMAD_OP_SEND) {
            cr_assert_eq(sends & 1u << n, 0);
            sends |= 1u << n;
        } else {
            n = recvs++;
            cr_assert_eq(cqe.user_data, 100 + n);
            cr_assert_arr_eq(received(end, n), sent(!end, n), length_of(n));
        }
        cr_assert_eq(cqe.bytes, length_of(n));
    }
}

/* Messages up to this land, but for the shortest; 0: none. */
static uint64_t landing;

/* ends: bits of whose links break. */
static void broken_at(uint64_t at_ns, unsigned ends, uint32_t late_ppm, bool lazy) {
    struct plane_settings settings;
    struct rdmad_cqe cqe;
    rig_defaults(&settings);
    rig_up(&rig, &settings, at_ns + ends);
    struct sim_script *script = sim_script();
    script->late_send_ppm = late_ppm;
    script->lazy_windows = script->lazy_cancel = lazy;
    if (landing) {
        script->max_send = landing;
        script->land_from = 65;
        script->chunk = 4096;
    }
    chan_remote_up(&rig, &c, POOL);
    begin();
    rig_run_until(&rig, sim_now() + at_ns);
    for (int end = A; end <= B; end++)
        if (ends & 1u << end)
            chan_break(&c, end);
    rig_run_until(&rig, sim_now() + 10000);
    for (int end = A; end <= B; end++)
        if (ends & 1u << end)
            chan_connect(&c, end);
    finish(A);
    finish(B);
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    cr_assert(!chan_take(&c, A, &cqe) && !chan_take(&c, B, &cqe));
    chan_well(&c);
    cr_assert_eq(sim_inflight(), 0);
    chan_down(&c);
    rig_down(&rig);
}

static void broken_anywhere(unsigned ends) {
    for (uint64_t at_ns = 0; at_ns < LAST_NS; at_ns += STEP_NS) {
        broken_at(at_ns, ends, 0, false);
        broken_at(at_ns, ends, 1000000, false);
        broken_at(at_ns, ends, 500000, true);
    }
}

Test(channel_loss, the_senders_link_breaks_at_any_moment) {
    broken_anywhere(1u << A);
}

Test(channel_loss, the_receivers_link_breaks_at_any_moment) {
    broken_anywhere(1u << B);
}

Test(channel_loss, both_links_break_at_any_moment) {
    broken_anywhere(1u << A | 1u << B);
}

static bool full;

static int post_unless_full(struct fabric_link *link, struct fabric_op *op) {
    return full && op->opcode == RDMAD_OP_SEND ? RDMAD_E_AGAIN : fabric_sim.post(link, op);
}

/* What it was sent for is a window of the link before, whatever the link takes just now. */
Test(channel_loss, an_offer_that_comes_before_the_first_word_on_a_new_link_waits_for_its_next_key) {
    struct plane_settings settings;
    struct fabric_ops ops = fabric_sim;
    ops.post = post_unless_full;
    rig_defaults(&settings);
    settings.fabrics[0] = &ops;
    rig_up(&rig, &settings, 1);
    chan_remote_up(&rig, &c, POOL);
    chan_put(&c, B, RDMAD_OP_RECV, 0, ROOM, 1);
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    chan_break(&c, B);
    sim_script()->hold_sends = true;
    chan_put(&c, A, RDMAD_OP_SEND, 0, ROOM, 2);
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    full = true;
    chan_connect(&c, B);
    sim_script()->hold_sends = false;
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    full = false;
    rig_settle(&rig);
    cr_assert_eq(chan_wait(&c, A).status, RDMAD_OK);
    cr_assert_eq(chan_wait(&c, B).status, RDMAD_OK);
    chan_down(&c);
    rig_down(&rig);
}

/* Of messages that land beside those that are READ, and of nothing else. */
Test(channel_loss, links_break_at_any_moment_of_a_landing) {
    for (landing = 6000; landing <= 30000; landing += 24000)
        for (unsigned ends = 1; ends <= 3; ends++)
            broken_anywhere(ends);
}

/* The time that a link needs is the time that its messages are late; deadlines run on. */
Test(channel_loss, deadlines_and_ends_reach_what_waits_for_a_link) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 1);
    chan_remote_up(&rig, &c, POOL);
    chan_break(&c, A);
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 0, ROOM, 1);
    sqe.timeout_ns = 5 * NSEC_PER_MSEC;
    rig_put(&c.end[A].client, &sqe);
    chan_put(&c, A, RDMAD_OP_SEND, 0, 10, 2);
    uint64_t before = sim_now();
    struct rdmad_cqe cqe = chan_wait(&c, A);
    cr_assert_eq(cqe.user_data, 1);
    cr_assert_eq(cqe.status, RDMAD_E_TIMEOUT);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert_lt(sim_now() - before, 6 * NSEC_PER_MSEC);
    chan_end(&c, A, RDMAD_E_CLOSED, false);
    cqe = chan_wait(&c, A);
    cr_assert_eq(cqe.status, RDMAD_E_CLOSED);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
    chan_down(&c);
    rig_down(&rig);
}
