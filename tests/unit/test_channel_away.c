/* SPDX-License-Identifier: MIT */
/* While a channel's end has no way to the other: it is added without one, takes ops, ends them. */
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define POOL (4u << 20)
#define LARGE 300000u
#define SMALL 100u
#define AT (POOL / 2)

enum { MANY = 1000, TURN = 256 };

static struct rig rig;
static struct chan c;
static struct rig_client many; /* a second ring of one end's */

static void start(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.max_session_ops = 2 * MANY;
    rig_up(&rig, &settings, 8);
}

static void setup(void) {
    start();
    chan_remote_up(&rig, &c, POOL);
}

static void done(void) {
    chan_down(&c);
    rig_down(&rig);
}

TestSuite(channel_away, .init = setup, .timeout = 60);

static void run(uint64_t ns) {
    rig_run_until(&rig, sim_now() + ns);
}

static bool silent(int end) {
    struct rdmad_cqe cqe;
    run(NSEC_PER_MSEC);
    return !chan_take(&c, end, &cqe);
}

/* ---- ends, and cancels ---------------------------------------------------------------------- */

/* Two SENDs and two RECVs at either end wait for a way. */
static void away(void) {
    chan_rest(&c, A);
    chan_rest(&c, B);
    for (int end = A; end <= B; end++) {
        for (unsigned i = 0; i < 2; i++) {
            chan_put(&c, end, RDMAD_OP_SEND, 0, i ? LARGE : SMALL, 10 + i);
            chan_put(&c, end, RDMAD_OP_RECV, AT, LARGE, 20 + i);
        }
    }
    cr_assert(silent(A) && silent(B));
}

static void all_end(int end, int status) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < 4; i++) {
        struct rdmad_cqe cqe = chan_wait(&c, end);
        cr_assert(cqe.status == status && cqe.outcome == RDMAD_FAILED_UNTOUCHED, "%d, %u",
                  cqe.status, cqe.outcome);
        sum += cqe.user_data;
    }
    cr_assert_eq(sum, 62);
}

Test(channel_away, an_end_without_a_way_is_closed_at_once) {
    away();
    chan_end(&c, A, RDMAD_E_CLOSED, false);
    all_end(A, RDMAD_E_CLOSED);
    chan_put(&c, A, RDMAD_OP_SEND, 0, SMALL, 5);
    ASSERT_CQE(chan_wait(&c, A), 5, RDMAD_E_CLOSED, RDMAD_FAILED_UNTOUCHED, 0);
    chan_end(&c, B, RDMAD_E_PEER_LOST, false);
    all_end(B, RDMAD_E_PEER_LOST);
    done();
}

Test(channel_away, an_orderly_end_waits_for_a_way_to_deliver) {
    struct rig_answer ended = {0};
    away();
    plane_channel_end(c.end[A].client.session, CHAN_HANDLE, RDMAD_E_CLOSED, true, rig_done, &ended);
    for (unsigned i = 0; i < 2; i++)
        ASSERT_CQE(chan_wait(&c, A), 20 + i, RDMAD_E_CLOSED, RDMAD_FAILED_UNTOUCHED, 0);
    cr_assert(silent(A) && !ended.done);
    chan_way(&c, A);
    chan_way(&c, B);
    chan_open(&c);
    chan_connect(&c, A);
    chan_connect(&c, B);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    for (unsigned i = 0; i < 2; i++) {
        ASSERT_CQE(chan_wait(&c, A), 10 + i, RDMAD_OK, RDMAD_DONE, i ? LARGE : SMALL);
        ASSERT_CQE(chan_wait(&c, B), 20 + i, RDMAD_OK, RDMAD_DONE, i ? LARGE : SMALL);
    }
    for (unsigned i = 0; i < 2; i++)
        ASSERT_CQE(chan_wait(&c, B), 10 + i, RDMAD_E_CLOSED, RDMAD_FAILED_UNTOUCHED, 0);
    cr_assert_eq(c.end[B].closed, 1);
    done();
}

/* The channel, or its session, goes before it has rested: both calls are answered. */
static void ends_while_it_rests(bool session) {
    struct rig_client *client = &c.end[A].client;
    struct rig_answer rested = {0}, ended = {0};
    sim_script()->chunk = 4096;
    sim_script()->lazy_windows = sim_script()->lazy_cancel = true;
    chan_put(&c, B, RDMAD_OP_RECV, AT, LARGE, 1);
    chan_put(&c, A, RDMAD_OP_RECV, AT, LARGE, 2);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 3);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, 4);
    while (list_empty(&chan_of(&c, B)->in.arrivals))
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_MSEC), "nothing comes");
    plane_channel_rest(client->session, CHAN_HANDLE, rig_done, &rested);
    if (session) {
        plane_session_drop(client->session, rig_done, &ended);
    } else {
        plane_channel_end(client->session, CHAN_HANDLE, RDMAD_E_CLOSED, false, rig_done, &ended);
        plane_channel_forget(client->session, CHAN_HANDLE);
    }
    cr_assert_eq(rig_await(&rig, &ended), 0);
    cr_assert(rested.done);
    if (session) {
        client->session = NULL;
        rig_client_free(client);
    } else {
        uint64_t sum = 0;
        for (unsigned i = 0; i < 3; i++) {
            struct rdmad_cqe cqe = chan_wait(&c, A);
            cr_assert_eq(cqe.outcome == RDMAD_UNKNOWN, cqe.user_data == 3);
            sum += cqe.user_data;
        }
        cr_assert_eq(sum, 9);
        cr_assert(silent(A));
    }
    chan_rest(&c, B);
    cr_assert_eq(c.end[B].stats.receives_posted, 1);
    done();
}

Test(channel_away, a_channel_may_end_before_it_has_rested) {
    ends_while_it_rests(false);
}

Test(channel_away, a_session_may_end_before_its_channel_has_rested) {
    ends_while_it_rests(true);
}

/* No op holds it up, only what it said last, and then nothing of it is there any more. */
Test(channel_away, a_rest_is_answered_before_its_channel_is_gone) {
    struct rig_answer rested = {0}, dropped = {0};
    sim_script()->lazy_cancel = sim_script()->hold_sends = true;
    chan_break(&c, A);
    chan_connect(&c, A); /* there is something to say: */
    cr_assert_neq(chan_of(&c, A)->posted_sends, 0);
    plane_channel_rest(c.end[A].client.session, CHAN_HANDLE, rig_done, &rested);
    plane_channel_forget(c.end[A].client.session, CHAN_HANDLE);
    rig_settle(&rig);
    cr_assert_null(chan_of(&c, A));
    cr_assert(rested.done, "it waits for a channel that is gone");
    sim_script()->hold_sends = false;
    run(NSEC_PER_MSEC);
    plane_session_drop(c.end[A].client.session, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    rig_client_free(&c.end[A].client);
    c.end[A].client.session = NULL;
    done();
}

static void turn_of(int end) {
    struct worker *w = c.end[end].client.session->worker;
    op_fabric_wake(RIG_FABRIC(rig, w), sim_now());
    worker_turn(w, sim_now());
    sim_advance(100);
}

/* It has heard of the other's end, and what became of its SENDs, but not had a turn since. */
Test(channel_away, what_the_other_end_said_last_counts_more_than_that_its_way_is_lost) {
    struct rig_answer ended = {0};
    for (unsigned i = 0; i < 2; i++)
        chan_put(&c, A, RDMAD_OP_RECV, AT, LARGE, 20 + i);
    run(NSEC_PER_MSEC);
    sim_script()->hold_sends = true;
    for (unsigned i = 0; i < 2; i++)
        chan_put(&c, B, RDMAD_OP_SEND, 0, SMALL, 10 + i);
    run(100000);
    cr_assert_eq(chan_of(&c, B)->out.next_seq, 2);
    chan_break(&c, B);
    sim_script()->hold_sends = false;
    plane_channel_end(c.end[A].client.session, CHAN_HANDLE, RDMAD_E_CLOSED, false, rig_done,
                      &ended);
    for (unsigned n = 0; !channel_over(chan_of(&c, B)); n++) {
        cr_assert_lt(n, 100u);
        turn_of(A);
        turn_of(B);
    }
    chan_rest(&c, B);
    for (unsigned i = 0; i < 2; i++)
        ASSERT_CQE(chan_wait(&c, B), 10 + i, RDMAD_E_CLOSED, RDMAD_FAILED_UNTOUCHED, 0);
    cr_assert_eq(c.end[B].closed, 1);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    done();
}

Test(channel_away, a_session_ends_while_its_channel_has_no_way) {
    away();
    rig_client_down(&c.end[A].client);
    c.end[A].client.session = NULL;
    cr_assert(silent(B));
    chan_end(&c, B, RDMAD_E_PEER_LOST, false);
    all_end(B, RDMAD_E_PEER_LOST);
    done();
}

/* The next of those; others are passed over. */
static struct rdmad_cqe of_opcode(int end, uint8_t opcode) {
    struct rdmad_cqe cqe;
    do
        cqe = chan_wait(&c, end);
    while (cqe.opcode != opcode);
    return cqe;
}

Test(channel_away, what_is_canceled_meanwhile_is_not_sent_and_receives_nothing) {
    away();
    chan_cancel(&c, A, 10);
    chan_cancel(&c, B, 20);
    ASSERT_CQE(of_opcode(A, RDMAD_OP_SEND), 10, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED, 0);
    ASSERT_CQE(of_opcode(B, RDMAD_OP_RECV), 20, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED, 0);
    chan_return(&c);
    ASSERT_CQE(of_opcode(B, RDMAD_OP_RECV), 21, RDMAD_OK, RDMAD_DONE, LARGE);
    ASSERT_CQE(of_opcode(A, RDMAD_OP_SEND), 11, RDMAD_OK, RDMAD_DONE, LARGE);
    chan_well(&c);
    done();
}

/* ---- many at once --------------------------------------------------------------------------- */

static unsigned turn_ends(void) {
    struct rdmad_cqe cqe;
    unsigned count = 0;
    worker_turn(c.end[A].client.session->worker, sim_now());
    for (; rig_take(&many, &cqe); count++)
        cr_assert(cqe.status == RDMAD_E_PEER_LOST && cqe.outcome == RDMAD_UNKNOWN);
    return count;
}

Test(channel_away, many_on_their_way_end_a_bounded_number_a_turn) {
    struct rig_answer rested = {0};
    sim_script()->max_inflight = 2 * MANY;
    rig_ring_up(&c.end[B].client, &many, 1024, 2048);
    struct rdmad_sqe recv = chan_sqe(RDMAD_OP_RECV, 0, SMALL, 1);
    for (unsigned n = 0; n < MANY; n++)
        rig_put(&many, &recv);
    run(NSEC_PER_MSEC);
    struct rig_client receives = many;
    rig_ring_up(&c.end[A].client, &many, 1024, 2048);
    sim_script()->hold_sends = true;
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 0, SMALL, 1);
    for (unsigned n = 0; n < MANY; n++)
        rig_put(&many, &sqe);
    run(NSEC_PER_MSEC);
    const unsigned sent = (unsigned)chan_of(&c, A)->out.next_seq;
    cr_assert_geq(sent, 2 * TURN, "%u", sent);
    plane_channel_rest(c.end[A].client.session, CHAN_HANDLE, rig_done, &rested);
    unsigned count = 0, most = 0, turns = 0;
    while (count < sent) {
        unsigned now = turn_ends();
        count += now;
        most = now > most ? now : most;
        cr_assert_lt(turns++, 100u, "only %u end", count);
    }
    cr_assert_eq(most, TURN, "%u in a turn", most);
    cr_assert_eq(rig_await(&rig, &rested), 0);
    sim_script()->hold_sends = false;
    done();
    rig_ring_free(&many);
    rig_ring_free(&receives);
}

/* ---- a way that is the first ----------------------------------------------------------------- */

static void setup_away(void) {
    start();
    c = (struct chan){.rig = &rig};
}

TestSuite(channel_away_new, .init = setup_away, .timeout = 60);

/* Two ends without a way; each has taken SENDs and RECVs. */
static void added(bool local) {
    for (int end = A; end <= B; end++) {
        c.end[end].where = local || end == A ? HERE : THERE;
        c.end[end].number = 1000 + (unsigned)end;
        rig_client_on(&rig, c.end[end].where, &c.end[end].client, 256, 512, POOL);
        for (size_t i = 0; i < POOL; i++)
            c.end[end].client.pool[i] = (uint8_t)(i * 13 + i / 257 + (unsigned)end);
        chan_add(&c, end);
        for (unsigned i = 0; i < 4; i++) {
            chan_put(&c, end, RDMAD_OP_SEND, i, i % 2 ? LARGE : SMALL, 10 + i);
            chan_put(&c, end, RDMAD_OP_RECV, AT + i * LARGE, LARGE, 20 + i);
        }
    }
    cr_assert(silent(A) && silent(B));
}

static void all_arrive(int end) {
    unsigned sends = 10, receives = 20;
    while (sends < 14 || receives < 24) {
        struct rdmad_cqe cqe = chan_wait(&c, end);
        unsigned *next = cqe.opcode == RDMAD_OP_SEND ? &sends : &receives;
        uint64_t length = *next % 2 ? LARGE : SMALL;
        ASSERT_CQE(cqe, *next, RDMAD_OK, RDMAD_DONE, length);
        ++*next;
    }
    for (unsigned i = 0; i < 4; i++)
        cr_assert_arr_eq(c.end[end].client.pool + AT + i * LARGE, c.end[!end].client.pool + i,
                         i % 2 ? LARGE : SMALL);
    cr_assert(silent(end));
}

Test(channel_away_new, an_end_added_without_a_way_takes_ops_and_gets_one) {
    added(false);
    for (int end = A; end <= B; end++)
        c.end[end].peer_in = 2000 + (unsigned)end;
    chan_return(&c);
    all_arrive(A);
    all_arrive(B);
    chan_well(&c);
    done();
}

Test(channel_away_new, an_end_added_without_a_way_gets_one_to_an_end_on_its_daemon) {
    added(true);
    for (int end = A; end <= B; end++) {
        struct rig_answer there = {0};
        c.end[end].number += 5000;
        plane_channel_way(c.end[end].client.session, CHAN_HANDLE, c.end[end].number, NULL, 0,
                          rig_done, &there);
        cr_assert_eq(rig_await(&rig, &there), 0);
    }
    chan_open(&c);
    all_arrive(A);
    all_arrive(B);
    chan_well(&c);
    done();
}

Test(channel_away_new, an_end_added_without_a_way_ends) {
    added(false);
    for (int end = A; end <= B; end++) {
        chan_end(&c, end, RDMAD_E_CLOSED, false);
        for (unsigned i = 0; i < 8; i++)
            cr_assert_eq(chan_wait(&c, end).status, RDMAD_E_CLOSED);
    }
    done();
}

static int way_by(struct plane_lane *lane) {
    struct rig_answer there = {0};
    plane_channel_way(c.end[A].client.session, CHAN_HANDLE, 9000, lane, c.end[A].peer_in, rig_done,
                      &there);
    return rig_await(&rig, &there);
}

/* Its windows and its posts are of the first; nor is a peer ever this daemon. */
Test(channel_away_new, a_way_over_another_fabric_is_refused) {
    static struct fabric_ops second;
    struct plane_settings settings;
    struct rig_answer dropped = {0};
    rig_down(&rig);
    second = fabric_sim;
    second.name = "second";
    rig_defaults(&settings);
    settings.fabrics[1] = &second;
    rig_up(&rig, &settings, 8);
    chan_remote_up(&rig, &c, POOL);
    away();
    struct plane_session *s = c.end[A].client.session;
    struct plane_lane *lane =
        plane_lane_new(rig.plane[HERE], 1, plane_worker_of_session(s), false, &c.end[A]);
    cr_assert_eq(way_by(lane), RDMAD_E_PEER_LOST);
    cr_assert_eq(way_by(NULL), RDMAD_E_PEER_LOST);
    plane_lane_drop(lane, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    chan_return(&c); /* over the first it goes on */
    for (unsigned i = 0; i < 2; i++)
        for (int end = A; end <= B; end++)
            cr_assert_eq(chan_wait(&c, end).status, RDMAD_OK);
    chan_well(&c);
    done();
}

/* ---- one goes as another comes ------------------------------------------------------------------
 */

static struct rig_answer another;
static void add_another(uint64_t handle, uint64_t number) {
    static struct plane_channel_stats stats;
    const struct chan_end *a = &c.end[A];
    const struct plane_channel_spec spec = {.number = number,
                                            .kind = RDMAD_CHANNEL_RELIABLE,
                                            .lane = a->lane,
                                            .peer_in = a->peer_in,
                                            .stats = &stats,
                                            .cookie = &c.end[A]};
    another = (struct rig_answer){0};
    plane_channel_add(a->client.session, handle, &spec, rig_done, &another);
}

/* The session waits for one that lingers meanwhile. */
static void place_is_free(uint64_t handle, uint64_t next) {
    struct rig_answer lingers = {0}, ended = {0};
    struct plane_session *session = c.end[A].client.session;
    add_another(handle, 5000);
    cr_assert_eq(rig_await(&rig, &another), 0);
    plane_channel_end(session, handle, RDMAD_E_CLOSED, false, rig_done, &ended);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    chan_put(&c, A, RDMAD_OP_SEND, 0, SMALL, 1);
    run(NSEC_PER_MSEC);
    plane_channel_end(session, CHAN_HANDLE, RDMAD_E_CLOSED, true, rig_done, &lingers);
    plane_channel_forget(session, handle);
    add_another(next, 5001);
    cr_assert_eq(rig_await(&rig, &another), 0, "%s", another.result.text);
    run(NSEC_PER_MSEC);
    cr_expect_not_null(slots_get(&session->op.channels, next), "it went with the one before it");
    cr_assert_not(lingers.done);
    done();
}

/* Whoever closes a channel and opens the next gets its place, with the next generation. */
Test(channel_away, the_place_of_one_that_is_forgotten_is_free_at_once) {
    place_is_free(RIG_HANDLE(10), RIG_HANDLE(10) + (UINT64_C(1) << 32));
}

/* A session that was resumed names its channels itself. */
Test(channel_away, so_is_its_handle) {
    place_is_free(RIG_HANDLE(10), RIG_HANDLE(10));
}
