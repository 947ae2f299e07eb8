/* SPDX-License-Identifier: MIT */
/* Very many channels of one worker: each is found by its messages, whichever of the others end; and
 * together they take no more of a turn than one, while their link takes nothing. */
#include "daemon/op/channel/entry.h"
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <limits.h>

#define POOL 4096u

enum { MANY = RIG_COUNT(3000), MANY_REMOTE = 400 };

static struct rig rig;
static struct chan c;
static unsigned count;
static struct plane_channel_stats stats[MANY][2];

static void up(void (*chan_up)(struct rig *rig, struct chan *c, size_t pool_bytes)) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 5);
    chan_up(&rig, &c, POOL);
}

TestSuite(channel_many, .timeout = 120);

static uint64_t handle(unsigned n) {
    return RIG_HANDLE(10 + n);
}

static uint64_t number(unsigned n, int end) {
    return (UINT64_C(3) << 32) + 2 * n + (unsigned)end;
}

/* Channel n has the way of c. */
static void many_up(void) {
    for (unsigned n = 0; n < count; n++)
        for (int i = 0; i < 2; i++) {
            struct rig_answer added = {0};
            const struct plane_channel_spec spec = {.number = number(n, i),
                                                    .kind = c.end[i].kind,
                                                    .lane = c.end[i].lane,
                                                    .peer_in = c.end[i].peer_in,
                                                    .stats = &stats[n][i],
                                                    .cookie = &c.end[i]};
            plane_channel_add(c.end[i].client.session, handle(n), &spec, rig_done, &added);
            cr_assert_eq(rig_await(&rig, &added), 0, "%s", added.result.text);
        }
    for (unsigned n = 0; n < count; n++)
        for (int i = 0; i < 2; i++)
            plane_channel_open(c.end[i].client.session, handle(n), number(n, !i),
                               c.end[A].lane ? NULL : c.end[!i].client.session);
    rig_settle(&rig);
}

static const struct op_channel *many_of(unsigned n, int end) {
    unsigned worker = plane_worker_of_session(c.end[end].client.session);
    return channel_find(&rig.plane[c.end[end].where]->worker[worker], number(n, end));
}

static void message_comes(unsigned n) {
    struct rdmad_sqe recv = chan_sqe(RDMAD_OP_RECV, 0, 8, n);
    struct rdmad_sqe send = chan_sqe(RDMAD_OP_SEND, 8, 8, n);
    recv.lease = send.lease = handle(n);
    *(uint64_t *)(c.end[A].client.pool + 8) = n;
    rig_put(&c.end[B].client, &recv);
    rig_put(&c.end[A].client, &send);
    ASSERT_CQE(chan_wait(&c, B), n, RDMAD_OK, RDMAD_DONE, 8);
    ASSERT_CQE(chan_wait(&c, A), n, RDMAD_OK, RDMAD_DONE, 8);
    cr_assert_eq(*(uint64_t *)c.end[B].client.pool, n);
}

static void one_gone(unsigned n) {
    for (int i = 0; i < 2; i++) {
        struct rig_answer ended = {0};
        plane_channel_end(c.end[i].client.session, handle(n), RDMAD_E_CLOSED, false, rig_done,
                          &ended);
        cr_assert_eq(rig_await(&rig, &ended), 0);
        plane_channel_forget(c.end[i].client.session, handle(n));
    }
    rig_settle(&rig);
}

static bool goes(unsigned n) {
    return n * 7 % 5 < 3;
}

/* Most of them end, the last first. */
static void each_is_found(void) {
    many_up();
    for (unsigned n = 0; n < count; n++)
        message_comes(n);
    for (unsigned n = count; n-- > 0;)
        if (goes(n))
            one_gone(n);
    for (unsigned n = 0; n < count; n++)
        for (int i = 0; i < 2; i++)
            cr_assert_eq(many_of(n, i) != NULL, !goes(n), "channel %u", n);
    for (unsigned n = 0; n < count; n++)
        if (!goes(n))
            message_comes(n);
    chan_put(&c, B, RDMAD_OP_RECV, 0, 8, 1); /* one that was there before them */
    chan_put(&c, A, RDMAD_OP_SEND, 8, 8, 2);
    ASSERT_CQE(chan_wait(&c, B), 1, RDMAD_OK, RDMAD_DONE, 8);
    ASSERT_CQE(chan_wait(&c, A), 2, RDMAD_OK, RDMAD_DONE, 8);
    chan_down(&c);
    rig_down(&rig);
}

Test(channel_many, each_is_found_by_its_peers_messages) {
    count = MANY_REMOTE;
    up(chan_remote_up);
    each_is_found();
}

Test(channel_many, each_is_found_by_messages_of_the_same_daemon) {
    count = MANY;
    up(chan_local_up);
    each_is_found();
}

/* So nobody who opens and closes channels can tell which fall together. */
Test(channel_many, the_table_has_a_secret_of_its_worker) {
    up(chan_remote_up);
    for (int where = HERE; where <= THERE; where++) {
        const struct worker *w = &rig.plane[where]->worker[0];
        cr_assert(w->secret && w->channels->by_number.secret == w->secret);
        cr_assert(w->grants.secret == w->secret && w->notifiers.secret == w->secret);
    }
    chan_down(&c);
    rig_down(&rig);
}

/* ---- a link that takes nothing ------------------------------------------------------------ */

static struct chan witness; /* on another link */
static struct fabric_ops counted;
static const struct fabric_link *stuck;
static unsigned tried, room; /* on stuck: how often it was asked; how much it takes */

static int counted_post(struct fabric_link *link, struct fabric_op *op) {
    if (link != stuck)
        return fabric_sim.post(link, op);
    tried++;
    if (!room)
        return RDMAD_E_AGAIN;
    room--;
    return fabric_sim.post(link, op);
}

static void receive(unsigned n) {
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_RECV, 0, 8, n);
    sqe.lease = handle(n);
    rig_put(&c.end[B].client, &sqe);
    rig_settle(&rig);
}

static void send_one(unsigned n, uint64_t user_data) {
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 8, 8, user_data);
    sqe.lease = handle(n);
    rig_put(&c.end[A].client, &sqe);
    rig_settle(&rig);
}

static void run(void) {
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
}

/* Each channel but the last two has a SEND that waits for the link. */
static void stuck_up(void) {
    struct plane_settings settings;
    counted = fabric_sim;
    counted.post = counted_post;
    stuck = NULL;
    count = MANY_REMOTE;
    rig_defaults(&settings);
    settings.max_session_ops = 2 * MANY_REMOTE;
    settings.fabrics[0] = &counted;
    rig_up(&rig, &settings, 5);
    chan_remote_up(&rig, &c, POOL);
    chan_remote_up(&rig, &witness, POOL);
    many_up();
    for (unsigned n = 0; n < count; n++)
        receive(n);
    run();
    stuck = chan_of(&c, A)->lane->route.link;
    room = 0;
    sim_script()->max_inflight = 2 * MANY_REMOTE;
    for (unsigned n = 0; n < count - 2; n++)
        send_one(n, n);
}

static void stuck_down(void) {
    chan_down(&c);
    chan_down(&witness);
    rig_down(&rig);
}

/* In a turn of the worker. */
static unsigned tries(void) {
    tried = 0;
    worker_turn(&rig.plane[HERE]->worker[0], sim_now());
    return tried;
}

static void witness_is_served(void) {
    chan_put(&witness, B, RDMAD_OP_RECV, 0, 8, 1);
    chan_put(&witness, A, RDMAD_OP_SEND, 0, 8, 2);
    ASSERT_CQE(chan_wait(&witness, B), 1, RDMAD_OK, RDMAD_DONE, 8);
    ASSERT_CQE(chan_wait(&witness, A), 2, RDMAD_OK, RDMAD_DONE, 8);
}

/* Whose SENDs are done now, in that order; and whose is done. */
static unsigned all_done(unsigned done[MANY_REMOTE]) {
    struct rdmad_cqe cqe;
    unsigned all = 0;
    while (chan_take(&c, A, &cqe)) {
        cr_assert_eq(cqe.status, RDMAD_OK, "%lu: %d", cqe.user_data, cqe.status);
        done[all++] = (unsigned)cqe.user_data;
    }
    return all;
}

Test(channel_many, on_a_full_link_one_of_them_tries_in_a_turn) {
    unsigned done[MANY_REMOTE];
    stuck_up();
    for (unsigned n = 0; n < 10; n++)
        cr_assert_leq(tries(), 1, "%u try in a turn", tried);
    cr_assert(list_empty(&rig.plane[HERE]->worker[0].channels->run), "some have a turn each time");
    witness_is_served();
    cr_assert_eq(all_done(done), 0);
    room = UINT_MAX;
    cr_assert_leq(tries(), 64, "%u have room in a turn", tried);
    run();
    cr_assert_eq(all_done(done), count - 2, "some were forgotten");
    for (unsigned n = 0; n < count - 2; n++)
        cr_assert_eq(done[n], n, "it was overtaken");
    cr_assert(list_empty(&rig.plane[HERE]->worker[0].channels->full));
    stuck_down();
}

/* Who says much has something to say whenever there is room, and asks in each turn. */
Test(channel_many, room_on_a_full_link_is_shared_in_turn) {
    unsigned done[2 * MANY_REMOTE];
    stuck_up();
    for (unsigned n = 0; n < 20; n++)
        receive(0);
    for (unsigned n = 0; n < 10; n++)
        send_one(0, 1000 + n);
    run();
    for (unsigned n = 0; n < count - 2; n++) {
        room = 1;
        if (n < 10)
            send_one(0, 1010 + n);
        run();
    }
    unsigned all = all_done(done), of_others = 0;
    for (unsigned n = 0; n < all; n++)
        of_others += done[n] > 0 && done[n] < count;
    cr_assert_geq(of_others, count - 4, "%u of others in %u", of_others, all);
    room = UINT_MAX;
    run();
    stuck_down();
}

static void send_until(unsigned n, uint64_t timeout_ns) {
    struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 8, 8, 1000 + n);
    sqe.lease = handle(n);
    sqe.timeout_ns = timeout_ns;
    rig_put(&c.end[A].client, &sqe);
    rig_settle(&rig);
}

Test(channel_many, what_waits_for_room_is_canceled_late_and_closed) {
    unsigned done[MANY_REMOTE];
    stuck_up();
    chan_cancel(&c, A, 1);
    ASSERT_CQE(chan_wait(&c, A), 1, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED, 0);
    ASSERT_CQE(chan_wait(&c, A), UINT64_MAX, RDMAD_OK, RDMAD_DONE, 0);
    send_until(count - 1, NSEC_PER_MSEC);
    ASSERT_CQE(chan_wait(&c, A), 1000 + count - 1, RDMAD_E_TIMEOUT, RDMAD_FAILED_UNTOUCHED, 0);
    one_gone(0); /* the first, and */
    ASSERT_CQE(chan_wait(&c, A), 0, RDMAD_E_CLOSED, RDMAD_FAILED_UNTOUCHED, 0);
    one_gone(count - 3); /* the last that waits */
    ASSERT_CQE(chan_wait(&c, A), count - 3, RDMAD_E_CLOSED, RDMAD_FAILED_UNTOUCHED, 0);
    room = UINT_MAX;
    run();
    cr_assert_eq(all_done(done), count - 5);
    stuck_down();
}

Test(channel_many, what_waits_for_room_goes_by_the_next_link) {
    unsigned done[MANY_REMOTE];
    stuck_up();
    chan_break(&c, A);
    cr_assert_eq(all_done(done), 0);
    chan_connect(&c, A);
    run();
    cr_assert_eq(all_done(done), count - 2);
    cr_assert(list_empty(&rig.plane[HERE]->worker[0].channels->full));
    stuck_down();
}

/* Its lane is dropped, too, and a worker looks at none that is gone. */
Test(channel_many, what_waits_for_room_ends_with_its_peer) {
    struct rig_answer dropped = {0};
    struct rdmad_cqe cqe;
    unsigned lost = 0;
    stuck_up();
    plane_lane_drop(c.end[A].lane, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    c.end[A].lane = NULL;
    run();
    for (; chan_take(&c, A, &cqe); lost++)
        cr_assert_eq(cqe.status, RDMAD_E_PEER_LOST, "%d", cqe.status);
    cr_assert_eq(lost, count - 2);
    witness_is_served();
    stuck_down();
}

/* A state has one of four posts, and the fifth waits until one of them is back. */
Test(channel_many, who_has_all_its_posts_out_has_no_turn_until_one_is_back) {
    const struct list *with_something_to_do;
    up(chan_remote_up);
    with_something_to_do = &rig.plane[HERE]->worker[0].channels->run;
    sim_script()->hold_sends = true;
    for (unsigned n = 0; n < 16; n++) {
        chan_put(&c, A, RDMAD_OP_RECV, 8 * n, 8, n);
        rig_settle(&rig);
    }
    cr_assert_eq(chan_of(&c, A)->posted_sends, CHANNEL_POSTS);
    cr_assert(chan_of(&c, A)->due.state, "nothing is left to be said");
    cr_assert(list_empty(with_something_to_do), "it tries in vain in each turn");
    sim_script()->hold_sends = false;
    run();
    cr_assert_eq(chan_of(&c, B)->out.limit, 16);
    chan_down(&c);
    rig_down(&rig);
}

/* ---- ends that begin anew ------------------------------------------------------------------ */

#define AMONG 2100u /* SENDs of each */

/* Its daemon says so of B, which may be true or not. */
static void begins_anew(unsigned n) {
    uint8_t bytes[FABRIC_HEAD_MAX];
    struct channel_message m;
    const struct op_channel *to = many_of(n, A);
    channel_message_init(many_of(n, B), &m, CHANNEL_SYNC);
    m.state.epoch = to->sync.peer_epoch + 1;
    channel_received(&rig.plane[HERE]->worker[0], c.end[A].peer_in, to->via, bytes,
                     channel_encode(&m, bytes));
}

/* After a turn of the worker. */
static unsigned not_looked_at(unsigned *work) {
    struct worker *w = &rig.plane[HERE]->worker[0];
    unsigned left = 0;
    *work = worker_turn(w, sim_now());
    list_for_each (pos, &w->channels->anew)
        left++;
    return left;
}

Test(channel_many, of_ends_that_begin_anew_some_are_looked_at_in_a_turn) {
    struct plane_settings settings;
    struct rig_client ring[6];
    unsigned work;
    count = 6;
    rig_defaults(&settings);
    settings.max_session_ops = count * AMONG;
    rig_up(&rig, &settings, 5);
    chan_remote_up(&rig, &c, POOL);
    many_up();
    run();
    for (unsigned n = 0; n < count; n++) {
        struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 0, 8, n);
        sqe.lease = handle(n);
        rig_ring_up(&c.end[A].client, &ring[n], AMONG, AMONG);
        for (unsigned i = 0; i < AMONG; i++)
            rig_put(&ring[n], &sqe);
        rig_settle(&rig);
        cr_assert_eq(many_of(n, A)->out.waits, AMONG);
    }
    for (unsigned n = 0; n < count; n++)
        begins_anew(n);
    cr_assert_eq(not_looked_at(&work), 4);
    cr_assert_eq(not_looked_at(&work), 2); /* and nothing else is done in that turn */
    cr_assert(work, "it sleeps over those that are left");
    begins_anew(0); /* which is behind those that are left */
    cr_assert_eq(not_looked_at(&work), 1);
    cr_assert_not(list_empty(&many_of(0, A)->anew_node));
    cr_assert_eq(not_looked_at(&work), 0);
    receive(0);
    ASSERT_CQE(chan_wait(&c, B), 0, RDMAD_OK, RDMAD_DONE, 8);
    ASSERT_CQE(rig_wait(&ring[0]), 0, RDMAD_OK, RDMAD_DONE, 8);
    chan_down(&c);
    for (unsigned n = 0; n < count; n++)
        rig_ring_free(&ring[n]);
    rig_down(&rig);
}

/* ---- ends ---------------------------------------------------------------------------------- */

Test(channel_many, of_a_session_that_ends_no_channel_tries_in_vain_again_and_again) {
    struct rig_answer dropped = {0};
    struct rig_client ring[2];
    struct worker *w;
    unsigned turns = 0;
    count = 400;
    up(chan_local_up);
    many_up();
    w = &rig.plane[HERE]->worker[0];
    for (unsigned k = 0; k < 2; k++) {
        rig_ring_up(&c.end[B].client, &ring[k], 4096, 4096);
        for (unsigned i = 0; i < 10 * count; i++) {
            struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_RECV, 0, 8, i);
            sqe.lease = handle(i % count);
            rig_put(&ring[k], &sqe);
        }
        rig_settle(&rig);
    }
    plane_session_drop(c.end[B].client.session, rig_done, &dropped);
    while (worker_turn(w, sim_now())) {
        cr_assert(list_empty(&w->channels->run), "some have a turn in vain");
        turns++;
    }
    cr_assert_geq(turns, 20 * count / 256);
    cr_assert_leq(turns, 20 * count / 256 + 8);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    rig_client_free(&c.end[B].client);
    c.end[B].client.session = NULL;
    for (unsigned k = 0; k < 2; k++)
        rig_ring_free(&ring[k]);
    chan_down(&c);
    rig_down(&rig);
}
