/* SPDX-License-Identifier: MIT */
/* Messages that land: taken back, refused and lost at every step of their way in. */
#include "daemon/op/channel/entry.h"
#include "daemon/op/channel/landing.h"
#include "tests/support/sim_world.h"
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define POOL (1u << 20)
#define LONG 60000u
#define AT (POOL / 2)

static struct rig rig;
static struct chan c;

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 6);
    sim_script()->max_send = LONG + FABRIC_HEAD_MAX;
    sim_script()->land_from = 2048;
    sim_script()->chunk = 8192;
    chan_remote_up(&rig, &c, POOL);
    for (size_t i = 0; i < AT; i++)
        c.end[A].client.pool[i] = (uint8_t)(i * 13 + i / 257);
}

static void done(void) {
    chan_well(&c);
    chan_down(&c);
    rig_down(&rig);
}

TestSuite(channel_landing, .init = setup, .timeout = 60);

static uint8_t *to(unsigned i) {
    return c.end[B].client.pool + AT + (size_t)i * LONG;
}

static void receive(unsigned i, uint64_t data) {
    chan_put(&c, B, RDMAD_OP_RECV, AT + (uint64_t)i * LONG, LONG, data);
}

static struct rdmad_cqe own(int end) {
    struct rdmad_cqe cqe;
    do
        cqe = chan_wait(&c, end);
    while (cqe.opcode == RDMAD_OP_CANCEL);
    return cqe;
}

/* Until some of the message at the front is in its receive, and not all of it. */
static void until_landing(unsigned i) {
    memset(to(i), 0x55, LONG);
    while (to(i)[0] == 0x55 && to(i)[1] == 0x55)
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_MSEC), "nothing lands");
    cr_assert_eq(to(i)[LONG - 1], 0x55);
    const struct list *arrivals = &chan_of(&c, B)->in.arrivals;
    cr_assert(list_entry(arrivals->next, struct op_arrival, node)->state == ARRIVAL_LANDING);
}

static void goes_on(void) {
    receive(0, 90);
    chan_put(&c, A, RDMAD_OP_SEND, 3, LONG, 91);
    ASSERT_CQE(own(B), 90, RDMAD_OK, RDMAD_DONE, LONG);
    ASSERT_CQE(own(A), 91, RDMAD_OK, RDMAD_DONE, LONG);
    cr_assert_arr_eq(to(0), c.end[A].client.pool + 3, LONG);
}

Test(channel_landing, come_whole_and_in_order_among_others) {
    const uint64_t lengths[] = {LONG, 10, 5000, 0, 2048, LONG, 300, LONG};
    for (unsigned i = 0; i < 8; i++)
        receive(i, i);
    rig_settle(&rig);
    for (unsigned i = 0; i < 8; i++)
        chan_put(&c, A, RDMAD_OP_SEND, i, lengths[i], i);
    for (unsigned i = 0; i < 8; i++) {
        ASSERT_CQE(own(B), i, RDMAD_OK, RDMAD_DONE, lengths[i]);
        cr_assert_arr_eq(to(i), c.end[A].client.pool + i, lengths[i]);
    }
    for (unsigned i = 0; i < 8; i++)
        ASSERT_CQE(own(A), i, RDMAD_OK, RDMAD_DONE, lengths[i]);
    goes_on();
    done();
}

/* When the cancel has returned not one byte more is written; the message takes the next receive. */
Test(channel_landing, a_receive_under_way_is_let_go_of_at_once) {
    receive(0, 1);
    receive(1, 2);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LONG, 5);
    until_landing(0);
    chan_cancel(&c, B, 1);
    ASSERT_CQE(own(B), 1, RDMAD_E_CANCELED, RDMAD_FAILED_PARTIAL, 0);
    memset(to(0), 0xaa, LONG);
    ASSERT_CQE(own(B), 2, RDMAD_OK, RDMAD_DONE, LONG);
    ASSERT_CQE(own(A), 5, RDMAD_OK, RDMAD_DONE, LONG);
    cr_assert_arr_eq(to(1), c.end[A].client.pool, LONG);
    for (size_t i = 0; i < LONG; i++)
        cr_assert_eq(to(0)[i], 0xaa, "written after the cancel returned");
    goes_on();
    done();
}

Test(channel_landing, a_pool_dropped_in_mid_message_is_its_owners_again) {
    struct rig_client *client = &c.end[B].client;
    struct rig_answer dropped = {0}, added = {0};
    receive(0, 1);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LONG, 5);
    until_landing(0);
    plane_pool_drop(client->session, RIG_HANDLE(0), rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    memset(to(0), 0xaa, LONG);
    ASSERT_CQE(own(B), 1, RDMAD_E_CANCELED, RDMAD_FAILED_PARTIAL, 0);
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    for (size_t i = 0; i < LONG; i++)
        cr_assert_eq(to(0)[i], 0xaa, "written after the pool was dropped");
    plane_pool_add(client->session, RIG_HANDLE(0), client->pool, POOL, NULL, rig_done, &added);
    cr_assert_eq(rig_await(&rig, &added), 0);
    receive(1, 2);
    ASSERT_CQE(own(B), 2, RDMAD_OK, RDMAD_DONE, LONG);
    ASSERT_CQE(own(A), 5, RDMAD_OK, RDMAD_DONE, LONG);
    goes_on();
    done();
}

/* The fabric has it for too long and is made to let go of it half sent: its receive waits for the
 * next message, and has some bytes of it. */
Test(channel_landing, a_send_taken_back_in_the_middle_was_no_message) {
    for (unsigned i = 0; i < 2; i++) {
        struct sim_script *script = sim_script();
        uint64_t min_ns = script->delay_min_ns, max_ns = script->delay_max_ns;
        receive(0, 1);
        rig_run_until(&rig, sim_now() + 100000);
        memset(to(0), 0x55, LONG);
        script->delay_min_ns = script->delay_max_ns = NSEC_PER_SEC;
        chan_put(&c, A, RDMAD_OP_SEND, 0, LONG, 5);
        rig_run_until(&rig, sim_now() + 4000);
        script->delay_min_ns = min_ns;
        script->delay_max_ns = max_ns;
        chan_cancel(&c, A, 5);
        struct rdmad_cqe cqe = own(A);
        cr_assert(cqe.user_data == 5 && cqe.outcome == RDMAD_UNKNOWN);
        rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
        cr_assert(to(0)[0] == c.end[A].client.pool[0] && to(0)[LONG - 1] == 0x55);
        if (i) {
            chan_cancel(&c, B, 1);
            ASSERT_CQE(own(B), 1, RDMAD_E_CANCELED, RDMAD_FAILED_PARTIAL, 0);
        } else {
            chan_put(&c, A, RDMAD_OP_SEND, 7, LONG, 6);
            ASSERT_CQE(own(B), 1, RDMAD_OK, RDMAD_DONE, LONG);
            ASSERT_CQE(own(A), 6, RDMAD_OK, RDMAD_DONE, LONG);
            cr_assert_arr_eq(to(0), c.end[A].client.pool + 7, LONG);
        }
        goes_on();
    }
    done();
}

/* The rest of it does not come, and nobody says so: the sender has another link already. */
Test(channel_landing, a_next_link_does_not_wait_for_what_stalled_on_the_last) {
    struct sim_script *script = sim_script();
    uint64_t min_ns = script->delay_min_ns, max_ns = script->delay_max_ns;
    receive(0, 1);
    rig_run_until(&rig, sim_now() + 100000);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LONG, 5);
    until_landing(0);
    const struct list *arrivals = &chan_of(&c, B)->in.arrivals;
    script->delay_min_ns = script->delay_max_ns = 1000 * NSEC_PER_SEC;
    rig_run_until(&rig, sim_now() + 10000);
    script->delay_min_ns = min_ns;
    script->delay_max_ns = max_ns;
    cr_assert(list_entry(arrivals->next, struct op_arrival, node)->state == ARRIVAL_LANDING);
    uint64_t before = sim_now();
    chan_break(&c, A);
    chan_connect(&c, A);
    ASSERT_CQE(own(B), 1, RDMAD_OK, RDMAD_DONE, LONG);
    ASSERT_CQE(own(A), 5, RDMAD_OK, RDMAD_DONE, LONG);
    cr_assert_lt(sim_now() - before, NSEC_PER_SEC);
    goes_on();
    done();
}

/* Its session, or its channel, ends while bytes are on their way in. */
Test(channel_landing, an_end_in_the_middle_ends_it) {
    receive(0, 1);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LONG, 5);
    until_landing(0);
    chan_end(&c, B, RDMAD_E_CLOSED, false);
    memset(to(0), 0xaa, LONG);
    ASSERT_CQE(own(B), 1, RDMAD_E_CLOSED, RDMAD_FAILED_PARTIAL, 0);
    cr_assert_eq(own(A).user_data, 5);
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    for (size_t i = 0; i < LONG; i++)
        cr_assert_eq(to(0)[i], 0xaa, "written after the channel's end");
    chan_down(&c);
    rig_down(&rig);
}

Test(channel_landing, one_too_long_for_its_receive_lands_nowhere) {
    chan_put(&c, B, RDMAD_OP_RECV, AT, LONG - 1, 1);
    receive(1, 2);
    memset(to(0), 0x55, LONG);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LONG, 5);
    chan_put(&c, A, RDMAD_OP_SEND, 1, LONG, 6);
    ASSERT_CQE(own(B), 1, RDMAD_E_TOO_SMALL, RDMAD_FAILED_UNTOUCHED, LONG);
    ASSERT_CQE(own(B), 2, RDMAD_OK, RDMAD_DONE, LONG);
    ASSERT_CQE(own(A), 5, RDMAD_E_TOO_SMALL, RDMAD_FAILED_UNTOUCHED, 0);
    ASSERT_CQE(own(A), 6, RDMAD_OK, RDMAD_DONE, LONG);
    for (size_t i = 0; i < LONG; i++)
        cr_assert_eq(to(0)[i], 0x55);
    goes_on();
    done();
}

/* The receive's memory vanishes under it: it fails alone, and the message takes the next. */
Test(channel_landing, a_receive_whose_memory_vanished_fails_alone) {
    receive(0, 1);
    receive(1, 2);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LONG, 5);
    until_landing(0);
    struct op_channel *ch = chan_of(&c, B);
    struct op_arrival *a = list_entry(ch->in.arrivals.next, struct op_arrival, node);
    sim_abandon(&a->landing_at); /* as a fabric does that finds it so */
    channel_landed(&a->landing_at, RDMAD_E_FAULT);
    ASSERT_CQE(own(B), 1, RDMAD_E_FAULT, RDMAD_FAILED_PARTIAL, 0);
    ASSERT_CQE(own(B), 2, RDMAD_OK, RDMAD_DONE, LONG);
    ASSERT_CQE(own(A), 5, RDMAD_OK, RDMAD_DONE, LONG);
    cr_assert_arr_eq(to(1), c.end[A].client.pool, LONG);
    goes_on();
    done();
}

static const struct op_arrival *arrival(unsigned i) {
    const struct list *arrivals = &chan_of(&c, B)->in.arrivals, *pos = arrivals->next;
    while (i-- > 0 && pos != arrivals)
        pos = pos->next;
    return pos == arrivals ? NULL : list_entry(pos, const struct op_arrival, node);
}

/* The receive of a large message before it goes with its ring, in the turn in which that is whole:
 * both messages come again, but not before the fabric has let go of this one's receive. */
Test(channel_landing, one_behind_a_receive_that_goes_is_let_go_of_first) {
    chan_put(&c, B, RDMAD_OP_RECV, AT, 2 * LONG, 1);
    receive(2, 2);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, 0, 2 * LONG, 3);
    chan_put(&c, A, RDMAD_OP_SEND, 3, LONG, 4);
    while (!arrival(1) || arrival(1)->state != ARRIVAL_LANDING)
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_MSEC), "nothing lands");
    cr_assert_eq(arrival(0)->state, ARRIVAL_READING);
    struct op_ring *ring = arrival(0)->op->ring;
    ring->ending = true;
    while (arrival(0))
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_MSEC), "it stays");
    ring->ending = false;
    ASSERT_CQE(own(B), 1, RDMAD_E_CANCELED, RDMAD_FAILED_PARTIAL, 0);
    ASSERT_CQE(own(B), 2, RDMAD_E_TOO_SMALL, RDMAD_FAILED_PARTIAL, 2 * LONG);
    ASSERT_CQE(own(A), 3, RDMAD_E_TOO_SMALL, RDMAD_FAILED_UNTOUCHED, 0);
    receive(0, 5);
    ASSERT_CQE(own(B), 5, RDMAD_OK, RDMAD_DONE, LONG);
    ASSERT_CQE(own(A), 4, RDMAD_OK, RDMAD_DONE, LONG);
    goes_on();
    done();
}
