/* SPDX-License-Identifier: MIT */
/* An end loses its way to the other, and gets another: what was on the way is unknown unless it was
 * acknowledged, everything else waits, and nothing comes twice. */
#include "common/ringword.h"
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define POOL (16u << 20)
#define ROOM 60000u
#define LARGE 300000u
#define SMALL 100u
#define AT (POOL / 2)

static struct rig rig;
static struct chan c;

static void fill(void) {
    for (int end = A; end <= B; end++)
        for (size_t i = 0; i < POOL; i++)
            c.end[end].client.pool[i] = (uint8_t)(i * 13 + i / 257 + (unsigned)end);
}

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 8);
    chan_remote_up(&rig, &c, POOL);
    fill();
}

static void done(void) {
    chan_down(&c);
    rig_down(&rig);
}

TestSuite(channel_rest, .init = setup, .timeout = 60);

static uint8_t *from(unsigned i) {
    return c.end[A].client.pool + i;
}
static uint8_t *to(unsigned i) {
    return c.end[B].client.pool + AT + (size_t)i * LARGE;
}

/* Message i is what begins at byte i of A's pool. */
static void send(unsigned i, uint64_t length) {
    chan_put(&c, A, RDMAD_OP_SEND, i, length, 100 + i);
}
static void receive(unsigned i, uint64_t length) {
    chan_put(&c, B, RDMAD_OP_RECV, AT + (uint64_t)i * LARGE, length, i);
}

/* The next that B hears of is message i, in receive number at. */
static void arrives(unsigned i, unsigned at, uint64_t length) {
    ASSERT_CQE(chan_wait(&c, B), at, RDMAD_OK, RDMAD_DONE, length);
    cr_assert_arr_eq(to(at), from(i), length);
}
static void is_done(unsigned i, uint64_t length) {
    ASSERT_CQE(chan_wait(&c, A), 100 + i, RDMAD_OK, RDMAD_DONE, length);
}
static void is_unknown(unsigned i) {
    ASSERT_CQE(chan_wait(&c, A), 100 + i, RDMAD_E_PEER_LOST, RDMAD_UNKNOWN, 0);
}

static void run(uint64_t ns) {
    rig_run_until(&rig, sim_now() + ns);
}

static bool silent(int end) {
    struct rdmad_cqe cqe;
    run(NSEC_PER_MSEC);
    return !chan_take(&c, end, &cqe);
}

static void rest_both(void) {
    chan_rest(&c, A);
    chan_rest(&c, B);
}

/* Both go on as if nothing had been. */
static void goes_on(void) {
    const uint64_t lengths[] = {SMALL, ROOM, LARGE, 0};
    for (unsigned i = 0; i < 4; i++) {
        receive(i, LARGE);
        send(30 + i, lengths[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        arrives(30 + i, i, lengths[i]);
        is_done(30 + i, lengths[i]);
    }
    chan_put(&c, A, RDMAD_OP_RECV, AT, ROOM, 1);
    chan_put(&c, B, RDMAD_OP_SEND, 0, SMALL, 2);
    ASSERT_CQE(chan_wait(&c, A), 1, RDMAD_OK, RDMAD_DONE, SMALL);
    ASSERT_CQE(chan_wait(&c, B), 2, RDMAD_OK, RDMAD_DONE, SMALL);
    cr_assert(silent(A) && silent(B));
    chan_well(&c);
}

/* ---- what becomes of what ------------------------------------------------------------------ */

Test(channel_rest, a_send_on_its_way_ends_unknown_and_one_that_waits_goes_on) {
    const uint64_t lengths[] = {SMALL, LARGE, SMALL, SMALL, LARGE, SMALL, 0};
    for (unsigned i = 0; i < 3; i++)
        receive(i, LARGE);
    run(NSEC_PER_MSEC);
    sim_script()->hold_sends = true;
    for (unsigned i = 0; i < 7; i++)
        send(i, lengths[i]);
    run(NSEC_PER_MSEC);
    cr_assert_eq(c.end[A].stats.sends_waiting, 4);
    rest_both();
    for (unsigned i = 0; i < 3; i++)
        is_unknown(i);
    cr_assert(silent(A) && silent(B));
    cr_assert_eq(c.end[A].stats.sends_waiting, 4);
    sim_script()->hold_sends = false;
    chan_return(&c);
    for (unsigned i = 3; i < 7; i++) {
        if (i == 6)
            receive(6, LARGE);
        arrives(i, i < 6 ? i - 3 : i, lengths[i]);
        is_done(i, lengths[i]);
    }
    goes_on();
    done();
}

/* What was received is told once; who sent it hears of it what it had heard when the way was lost.
 */
Test(channel_rest, what_was_acknowledged_is_done_and_does_not_come_again) {
    for (unsigned i = 0; i < 5; i++)
        receive(i, ROOM);
    run(NSEC_PER_MSEC);
    for (unsigned i = 0; i < 2; i++)
        send(i, SMALL);
    for (unsigned i = 0; i < 2; i++)
        is_done(i, SMALL);
    chan_break(&c, B); /* so that A hears no more of it */
    for (unsigned i = 2; i < 4; i++)
        send(i, SMALL);
    for (unsigned i = 0; i < 4; i++)
        arrives(i, i, SMALL);
    cr_assert(silent(A));
    rest_both();
    for (unsigned i = 2; i < 4; i++)
        is_unknown(i);
    send(9, SMALL);
    chan_return(&c);
    arrives(9, 4, SMALL);
    is_done(9, SMALL);
    cr_assert_eq(c.end[B].stats.messages_received, 5);
    cr_assert_eq(c.end[A].stats.messages_sent, 3);
    goes_on();
    done();
}

/* Also those for which something has come: it is being READ, or is behind what is. */
Test(channel_rest, receives_stay_posted_and_keep_their_order) {
    for (unsigned i = 0; i < 8; i++)
        receive(i, LARGE);
    run(NSEC_PER_MSEC);
    sim_script()->chunk = 4096;
    send(0, LARGE);
    for (unsigned i = 1; i < 5; i++)
        send(i, i == 2 ? LARGE : SMALL);
    while (chan_of(&c, B)->in.state.expect < 5)
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_MSEC), "they do not come");
    rest_both();
    cr_assert_eq(c.end[B].stats.receives_posted, 8);
    for (unsigned i = 0; i < 5; i++)
        is_unknown(i);
    cr_assert(silent(B));
    chan_return(&c);
    for (unsigned i = 0; i < 8; i++) {
        send(10 + i, SMALL);
        arrives(10 + i, i, SMALL);
        is_done(10 + i, SMALL);
    }
    goes_on();
    done();
}

/* Not even one that is just being opened or closed. */
Test(channel_rest, what_waits_has_no_window_while_there_is_no_way) {
    receive(0, LARGE);
    run(NSEC_PER_MSEC);
    sim_script()->lazy_windows = true;
    send(0, LARGE);
    rig_settle(&rig);
    const struct list *waiting = &chan_of(&c, A)->out.waiting;
    const struct op_send *s = list_entry(waiting->next, struct op_send, node);
    cr_assert(!list_empty(waiting) && s->window.state == OP_WINDOW_OPENING);
    chan_rest(&c, A);
    cr_assert_eq(waiting->next, &s->node);
    cr_assert_eq(s->window.state, OP_WINDOW_NONE);
    chan_rest(&c, B);
    chan_return(&c);
    arrives(0, 0, LARGE);
    is_done(0, LARGE);
    sim_script()->lazy_windows = false;
    goes_on();
    done();
}

/* ---- messages under way -------------------------------------------------------------------- */

/* Until some of message 0 is in receive 0, and not all of it. */
static void until_coming(uint64_t length) {
    memset(to(0), 0x55, LARGE);
    receive(0, length);
    run(NSEC_PER_MSEC);
    send(0, length);
    while (to(0)[0] == 0x55 && to(0)[1] == 0x55)
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_MSEC), "nothing comes");
    cr_assert_eq(to(0)[length - 1], 0x55);
}

static bool all(const uint8_t *at, uint8_t value, uint64_t length) {
    return at[0] == value && memcmp(at, at + 1, length - 1) == 0;
}

/* So many of that in a row are in no message. */
static bool has_run(const uint8_t *at, uint8_t value, uint64_t length) {
    uint64_t run_length = 0;
    for (uint64_t i = 0; i < length && run_length < 16; i++)
        run_length = at[i] == value ? run_length + 1 : 0;
    return run_length == 16;
}

static void let_go_of(uint64_t length, int first, bool lazy) {
    sim_script()->lazy_windows = sim_script()->lazy_cancel = lazy;
    until_coming(length);
    chan_rest(&c, first);
    if (first == A) {
        is_unknown(0); /* its buffer is the client's again */
        memset(from(0), 0xbb, length);
    } else {
        memset(to(0), 0xaa, length); /* not yet the client's, but nothing writes there */
    }
    run(100000);
    if (first == B)
        cr_assert(all(to(0), 0xaa, length), "written after it has rested");
    chan_rest(&c, !first);
    if (first == B)
        is_unknown(0);
    else
        cr_assert(!has_run(to(0), 0xbb, length), "read after it has ended");
    struct rdmad_cqe cqe;
    cr_assert(silent(A));
    if (chan_take(&c, B, &cqe)) { /* it had left A whole */
        ASSERT_CQE(cqe, 0, RDMAD_OK, RDMAD_DONE, length);
        cr_assert_eq(first, A);
        receive(0, length);
    }
    fill();
    chan_return(&c);
    send(1, length);
    arrives(1, 0, length);
    is_done(1, length);
    sim_script()->lazy_windows = sim_script()->lazy_cancel = false;
    goes_on();
}

static void let_go_of_all(uint64_t length) {
    for (unsigned n = 0; n < 4; n++)
        let_go_of(length, n % 2 ? B : A, n / 2);
    done();
}

Test(channel_rest, a_large_message_under_way_is_let_go_of) {
    sim_script()->chunk = 4096;
    let_go_of_all(LARGE);
}

static void setup_landing(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 9);
    sim_script()->max_send = ROOM + FABRIC_HEAD_MAX;
    sim_script()->land_from = 2048;
    sim_script()->chunk = 4096;
    chan_remote_up(&rig, &c, POOL);
    fill();
}

TestSuite(channel_rest_landing, .init = setup_landing, .timeout = 60);

Test(channel_rest_landing, a_landing_under_way_is_let_go_of) {
    let_go_of_all(ROOM);
}

/* It was acknowledged, but its window closes only now. */
Test(channel_rest, what_is_done_has_been_told_once_it_has_rested) {
    struct rdmad_cqe cqe;
    sim_script()->lazy_windows = true;
    receive(0, LARGE);
    send(0, LARGE);
    while (list_empty(&chan_of(&c, A)->out.leaving))
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_MSEC), "it is not acknowledged");
    struct rig_answer rested = {0};
    plane_channel_rest(c.end[A].client.session, CHAN_HANDLE, rig_done, &rested);
    cr_assert_eq(rig_await(&rig, &rested), 0);
    cr_assert(chan_take(&c, A, &cqe), "its buffer is still reached");
    ASSERT_CQE(cqe, 100, RDMAD_OK, RDMAD_DONE, LARGE);
    arrives(0, 0, LARGE);
    sim_script()->lazy_windows = false;
    rest_both();
    chan_return(&c);
    goes_on();
    done();
}

/* When rest's done is there, the lane has nothing of the channel. */
Test(channel_rest, nothing_of_it_is_on_its_lane_once_it_has_rested) {
    for (unsigned lazy = 0; lazy < 2; lazy++) {
        struct rig_answer rested = {0};
        sim_script()->lazy_cancel = lazy;
        sim_script()->hold_sends = true;
        receive(0, ROOM);
        chan_put(&c, A, RDMAD_OP_RECV, AT, ROOM, 99);
        run(NSEC_PER_MSEC);
        cr_assert_neq(chan_of(&c, B)->posted_sends, 0);
        plane_channel_rest(c.end[B].client.session, CHAN_HANDLE, rig_done, &rested);
        cr_assert_eq(rig_await(&rig, &rested), 0);
        cr_assert_eq(chan_of(&c, B)->posted_sends, 0);
        sim_script()->hold_sends = false;
        rest_both();
        chan_return(&c);
        send(0, SMALL);
        arrives(0, 0, SMALL);
        is_done(0, SMALL);
        chan_cancel(&c, A, 99);
        while (chan_wait(&c, A).user_data != 99)
            ;
        run(NSEC_PER_MSEC);
        while (chan_take(&c, A, &(struct rdmad_cqe){0}))
            ;
        sim_script()->lazy_cancel = false;
    }
    goes_on();
    done();
}

/* ---- what the way before still says --------------------------------------------------------- */

static void late(bool rested, bool returned) {
    sim_script()->late_send_ppm = 1000000; /* what was cut off is received all the same */
    for (unsigned i = 0; i < 3; i++)
        receive(i, ROOM);
    run(NSEC_PER_MSEC);
    sim_script()->hold_sends = true;
    for (unsigned i = 0; i < 3; i++)
        send(i, SMALL);
    run(NSEC_PER_MSEC);
    if (rested)
        chan_rest(&c, B);
    if (returned)
        chan_way(&c, B);
    sim_script()->hold_sends = false;
    cr_assert(silent(B), "it hears of messages that are not of its way");
    cr_assert_eq(c.end[B].stats.messages_received, 0);
    chan_rest(&c, A);
    for (unsigned i = 0; i < 3; i++)
        is_unknown(i);
    if (!returned)
        chan_way(&c, B);
    chan_way(&c, A);
    chan_open(&c);
    chan_connect(&c, A);
    chan_connect(&c, B);
    for (unsigned i = 0; i < 3; i++) {
        send(10 + i, SMALL);
        arrives(10 + i, i, SMALL);
        is_done(10 + i, SMALL);
    }
    goes_on();
    done();
}

Test(channel_rest, a_message_that_comes_while_it_rests_is_not_heard) {
    late(true, false);
}

Test(channel_rest, a_message_of_the_way_before_is_not_heard) {
    late(true, true);
}

/* Not even that the other end has another link, on which it would say so. */
Test(channel_rest, a_link_that_is_made_anew_while_it_rests_is_not_heard) {
    receive(0, ROOM);
    chan_rest(&c, B);
    chan_break(&c, A);
    chan_connect(&c, A);
    send(0, SMALL);
    cr_assert(silent(A) && silent(B));
    cr_assert_eq(chan_of(&c, B)->via, 0);
    chan_rest(&c, A);
    chan_return(&c);
    arrives(0, 0, SMALL);
    is_done(0, SMALL);
    goes_on();
    done();
}

/* As after a crash of its daemon: B knows nothing of what was said before, and begins with its
 * first epoch. */
Test(channel_rest, the_other_end_may_be_one_that_was_made_anew) {
    const uint64_t peer_in = c.end[B].peer_in;
    for (unsigned i = 0; i < 3; i++) {
        for (int end = A; end <= B; end++) {
            chan_break(&c, end);
            chan_connect(&c, end);
        }
        receive(i, LARGE);
        send(i, i ? SMALL : LARGE);
        arrives(i, i, i ? SMALL : LARGE);
        is_done(i, i ? SMALL : LARGE);
    }
    run(NSEC_PER_MSEC);
    cr_assert_gt(chan_of(&c, A)->sync.peer_epoch, 2);
    rest_both();
    chan_end(&c, B, RDMAD_E_CLOSED, false);
    plane_channel_forget(c.end[B].client.session, CHAN_HANDLE);
    c.end[B].peer_in = 0;
    chan_add(&c, B);
    c.end[B].peer_in = peer_in;
    send(5, SMALL);
    receive(0, LARGE);
    chan_return(&c);
    arrives(5, 0, SMALL);
    is_done(5, SMALL);
    goes_on();
    done();
}

/* ---- what was received is told before it is acknowledged ----------------------------------- */

static unsigned acknowledgements;

/* Every message that B posts: what it acknowledges, B's client can see. */
static int post_watched(struct fabric_link *link, struct fabric_op *fop) {
    struct channel_message m;
    if (fop->opcode == RDMAD_OP_SEND && c.rig && c.end[A].client.session &&
        !channel_decode(&m, fop->head, fop->head_size, fop->length - fop->head_size) &&
        m.channel == c.end[A].number) {
        uint32_t told = ringword_peek(&c.end[B].client.daemon->cq_tail);
        cr_assert_leq(m.state.next, told, "%lu messages are acknowledged, and %u told of",
                      (unsigned long)m.state.next, told);
        acknowledgements++;
    }
    return fabric_sim.post(link, fop);
}

static struct fabric_ops watched;

static void setup_watched(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    watched = fabric_sim;
    watched.post = post_watched;
    settings.fabrics[0] = &watched;
    rig_up(&rig, &settings, 10);
    sim_script()->max_send = ROOM + FABRIC_HEAD_MAX;
    sim_script()->land_from = 2048;
    chan_remote_up(&rig, &c, POOL);
    fill();
}

TestSuite(channel_rest_told, .init = setup_watched, .timeout = 60);

Test(channel_rest_told, the_completion_is_published_before_the_acknowledgement_leaves) {
    const uint64_t lengths[] = {LARGE, SMALL, LARGE, 10000, LARGE, 0, 10000, LARGE};
    for (unsigned at_once = 1; at_once <= 8; at_once++) {
        for (unsigned i = 0; i < at_once; i++)
            receive(i, LARGE);
        for (unsigned i = 0; i < at_once; i++)
            send(i, lengths[i]);
        for (unsigned i = 0; i < at_once; i++)
            ASSERT_CQE(chan_wait(&c, B), i, RDMAD_OK, RDMAD_DONE, lengths[i]);
        for (unsigned i = 0; i < at_once; i++)
            is_done(i, lengths[i]);
    }
    cr_assert_gt(acknowledgements, 8);
    done();
}

/* ---- an end that is over ------------------------------------------------------------------------
 */

/* It is being closed, with SENDs that nobody takes; its worker has heard the other end's last word,
 * of which the control thread does not know, and gives it another way. */
static void way_after_its_end(bool rest, bool way) {
    struct chan_end *a = &c.end[A];
    struct rig_answer ended = {0}, rested = {0}, there = {0};
    for (unsigned i = 0; i < 100; i++)
        send(i, SMALL);
    run(NSEC_PER_MSEC);
    plane_channel_end(a->client.session, CHAN_HANDLE, RDMAD_E_CLOSED, true, rig_done, &ended);
    run(NSEC_PER_MSEC);
    cr_assert_not(ended.done, "it was to linger");
    channel_lost(chan_of(&c, A), RDMAD_E_PEER_LOST, "as the test has it");
    if (rest)
        plane_channel_rest(a->client.session, CHAN_HANDLE, rig_done, &rested);
    if (way)
        plane_channel_way(a->client.session, CHAN_HANDLE, a->number + 1, a->lane, a->peer_in,
                          rig_done, &there);
    cr_expect_eq(rest ? rig_await(&rig, &rested) : 0, rest ? RDMAD_E_PEER_LOST : 0);
    cr_expect_eq(way ? rig_await(&rig, &there) : 0, way ? RDMAD_E_PEER_LOST : 0);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    for (unsigned i = 0; i < 100; i++)
        cr_assert_eq(chan_wait(&c, A).status, RDMAD_E_PEER_LOST);
    done();
}

Test(channel_rest, an_end_whose_other_end_is_over_does_not_rest_to_be_found_again) {
    way_after_its_end(true, false);
}

Test(channel_rest, an_end_whose_other_end_is_over_gets_no_other_way) {
    way_after_its_end(false, true);
}
