/* SPDX-License-Identifier: MIT */
/* Rings to whose clients a wakeup is owed cost others nothing, however many they are, and are not
 * forgotten. */
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <sys/socket.h>

#define POOL 4096u
#define MANY 100u

static struct rig rig;
static struct chan c; /* within the daemon; its ends' own rings owe nothing */
static struct rig_client ring[MANY];
static struct send_rest rest;
static struct worker *w;
static unsigned looks; /* at them */

bool __real_ring_flush(struct ring *r, bool owed);
bool __wrap_ring_flush(struct ring *r, bool owed);

bool __wrap_ring_flush(struct ring *r, bool owed) {
    looks += r->wakeup_cost.rest == &rest;
    return __real_ring_flush(r, owed);
}

/* Turns, each of which looks at some of its session's rings, and no time. */
static void is_answered(struct rig_client *client) {
    struct rdmad_cqe cqe;
    for (unsigned turns = 0; !rig_take(client, &cqe); turns++) {
        cr_assert_lt(turns, MANY, "it is not published");
        worker_turn(w, sim_now());
    }
    cr_assert_eq(cqe.status, RDMAD_OK);
}

static void answer_one(unsigned n) {
    const struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};
    rig_put(&ring[n], &nop);
    is_answered(&ring[n]);
}

/* Sends to all of them rest, and their clients sleep. */
static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 5);
    chan_local_up(&rig, &c, POOL);
    w = &rig.plane[HERE]->worker[0];
    rest.until_ns = CLOCK_NEVER;
    for (unsigned n = 0; n < MANY; n++) {
        rig_ring_up(&c.end[A].client, &ring[n], 8, 8);
        ring[n].ring->wakeup_cost = (struct send_cost){.rest = &rest, .doubted = true};
        ring[n].client->cq_wait = 1;
        answer_one(n);
        cr_assert(ring[n].ring->wakeup_owed);
    }
    looks = 0;
}

TestSuite(op_owed, .init = setup, .timeout = 60);

static void down(void) {
    chan_down(&c);
    for (unsigned n = 0; n < MANY; n++)
        rig_ring_free(&ring[n]);
    rig_down(&rig);
}

static unsigned looks_after(uint64_t ns) {
    looks = 0;
    sim_advance(ns);
    worker_turn(w, sim_now());
    return looks;
}

Test(op_owed, messages_of_others_look_at_none_of_them) {
    for (unsigned n = 0; n < 20; n++) {
        chan_put(&c, B, RDMAD_OP_RECV, 0, 8, 1);
        chan_put(&c, A, RDMAD_OP_SEND, 8, 8, 2);
        is_answered(&c.end[B].client);
        is_answered(&c.end[A].client);
    }
    cr_assert_eq(looks, 0, "%u looks", looks);
    down();
}

Test(op_owed, some_of_them_are_tried_each_millisecond) {
    cr_assert_leq(worker_next_ns(w), sim_now() + NSEC_PER_MSEC, "it sleeps over them");
    cr_assert_eq(looks_after(NSEC_PER_MSEC), 64);
    cr_assert_eq(looks_after(0), 0);
    cr_assert_eq(looks_after(NSEC_PER_MSEC), 64);
    rest.until_ns = 0;
    cr_assert_eq(looks_after(NSEC_PER_MSEC), 64);
    cr_assert_eq(looks_after(NSEC_PER_MSEC), MANY - 64);
    for (unsigned n = 0; n < MANY; n++) {
        char byte;
        cr_assert_eq(recv(ring[n].fds[2], &byte, 1, MSG_DONTWAIT), 1, "%u sleeps on", n);
    }
    cr_assert_eq(looks_after(NSEC_PER_MSEC), 0);
    cr_assert_eq(rings_next_ns(w), UINT64_MAX);
    down();
}

/* The first, which would be tried next, has something new before each try. */
Test(op_owed, one_that_has_something_new_keeps_its_place) {
    cr_assert_eq(looks_after(NSEC_PER_MSEC), 64);
    answer_one(64); /* the next of those that are left */
    rest.until_ns = 0;
    cr_assert_eq(looks_after(NSEC_PER_MSEC), 64);
    char byte;
    cr_assert_eq(recv(ring[64].fds[2], &byte, 1, MSG_DONTWAIT), 1, "it was put behind the others");
    down();
}

Test(op_owed, what_is_completed_meanwhile_is_published) {
    answer_one(3);
    answer_one(3);
    cr_assert_eq(looks, 2, "others were looked at, too: %u", looks);
    down();
}
