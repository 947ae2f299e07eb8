/* SPDX-License-Identifier: MIT */
/* Very many channels of one worker: each is found by its messages, whichever of the others end. */
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>

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
