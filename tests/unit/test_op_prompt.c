/* SPDX-License-Identifier: MIT */
/*
 * Who waits for one answer and asks again at once waits for a slice of others' long ops, not for a
 * turn, and gets no more of the turn than its part. The clients here ask between the polls of one
 * turn, and what they wait for is counted in bytes, so no test depends on the speed of the machine.
 */
#include "daemon/fabric/local/instance.h"
#include "daemon/op/engine/admit.h"
#include "daemon/op/engine/prompt.h"
#include "tests/unit/op_crowd.h"
#include <criterion/criterion.h>

#define RINGS_OF_BOB 4u
#define WARM_UP 200u

static struct fabric_ops watched; /* the local fabric, with clients that act before each poll */
static struct worker *worker;
static unsigned polls;    /* in this turn */
static uint64_t asked_at; /* bytes that alice had moved when bob asked last */
static uint64_t longest;  /* what she moved while he waited */
static unsigned answers;
static void (*bob_acts)(void);

static uint64_t alice_moved(void) {
    return alice.audit->bytes_written;
}

static unsigned poll_watched(struct fabric *f) {
    polls++;
    if (bob_acts)
        bob_acts();
    return fabric_local.poll(f);
}

static void ask(struct rig_client *ring) {
    struct rdmad_sqe sqe = {
        .opcode = RDMAD_OP_READ, .pool = RIG_HANDLE(0), .lease = LOCAL, .length = 8};
    rig_put(ring, &sqe);
}

static bool heard(struct rig_client *ring) {
    struct rdmad_cqe cqe;
    if (!rig_take(ring, &cqe))
        return false;
    cr_assert_eq(cqe.status, 0);
    return true;
}

static void bob_asks_one_thing_after_the_other(void) {
    struct rig_client *ring = &bob.of[0].c;
    if (ring->sq_tail != ring->cq_head && !heard(ring))
        return;
    uint64_t waited = alice_moved() - asked_at;
    if (waited > longest)
        longest = waited;
    answers++;
    asked_at = alice_moved();
    ask(ring);
}

static void bob_asks_on_all_rings(void) {
    struct source *s = &bob.of[0];
    for (unsigned i = 0; i <= s->rings; i++) {
        struct rig_client *ring = i ? &s->ring[i - 1] : &s->c;
        if (ring->sq_tail == ring->cq_head || heard(ring))
            ask(ring);
    }
}

static void turns(unsigned count) {
    for (unsigned n = 0; n < count; n++) {
        polls = 0;
        saturate(1);
    }
}

static void setup(void) {
    crowds_up(1);
    worker = &rig.plane[HERE]->worker[0];
    watched = fabric_local;
    watched.poll = poll_watched;
    worker->local.ops = &watched;
    crowd_up(&alice, ALICE, 1, 4);
    crowd_up(&bob, BOB, 1, RINGS_OF_BOB);
    bob.stopped = true;
    crowd_does(&alice, RDMAD_OP_WRITE, LOCAL, BYTES);
}

/* What bob has asked ends first; then nothing is prompt. */
static void teardown(void) {
    bob_acts = NULL;
    crowds_down();
}

TestSuite(prompt, .init = setup, .fini = teardown, .timeout = 120);

Test(prompt, who_waits_for_one_answer_waits_for_a_slice) {
    bob_acts = bob_asks_one_thing_after_the_other;
    turns(WARM_UP);
    longest = answers = 0;
    turns(WARM_UP);
    cr_assert_gt(answers, 8 * WARM_UP, "%u answers in %u turns", answers, WARM_UP);
    cr_assert_leq(longest, 2 * LOCAL_HURRY, "%lu bytes went before one of them",
                  (unsigned long)longest);
}

Test(prompt, long_ops_go_on_as_much_as_before) {
    turns(WARM_UP);
    uint64_t before = alice_moved();
    turns(WARM_UP);
    uint64_t alone = alice_moved() - before;
    bob_acts = bob_asks_one_thing_after_the_other;
    turns(WARM_UP);
    before = alice_moved();
    turns(WARM_UP);
    uint64_t beside = alice_moved() - before;
    cr_assert_geq(beside, alone - alone / 8, "%lu bytes in as many turns, and %lu beside bob",
                  (unsigned long)alone, (unsigned long)beside);
}

Test(prompt, nobody_who_is_prompt_makes_no_short_slices) {
    turns(WARM_UP);
    cr_assert_leq(polls, 3, "%u polls in a turn", polls);
    cr_assert(!prompt_waits(worker));
}

Test(prompt, what_is_taken_early_is_of_the_same_part) {
    struct rig_client *ring = &bob.of[0].c;
    struct op_session *s = &ring->session->op;
    struct op_user *u = s->user;
    struct op_ring *r = slots_get(&s->rings, RIG_HANDLE(0));
    uint64_t limit = worker->limit;
    bob_acts = bob_asks_one_thing_after_the_other;
    turns(WARM_UP);
    ask(ring);
    worker->limit = u->vtime;
    cr_assert_not(ring_serve_early(worker, r), "its user has used its part");
    worker->limit = limit + u->vtime;
    cr_assert_eq(u->part_turn, worker->turns);
    s->turn = worker->turns;
    s->spent = u->part;
    cr_assert_not(ring_serve_early(worker, r), "its session has");
    s->spent = 0;
    uint32_t charged = s->charged;
    s->charged = s->ops_may;
    cr_assert_not(ring_serve_early(worker, r), "its session may have no more ops");
    s->charged = charged;
    cr_assert(ring_serve_early(worker, r));
    cr_assert_gt(s->spent, 0);
}

/* So the worker may sleep. */
Test(prompt, a_ring_of_which_nothing_may_be_taken_is_soon_forgotten) {
    struct rig_client *ring = &bob.of[0].c;
    struct op_session *s = &ring->session->op;
    bob_acts = bob_asks_one_thing_after_the_other;
    turns(WARM_UP);
    bob_acts = NULL;
    cr_assert(prompt_waits(worker));
    uint32_t charged = s->charged;
    s->charged = s->ops_may;
    ask(ring);
    for (unsigned n = 0; n < PROMPT_LOOKS; n++)
        cr_assert_eq(prompt_serve(worker), 0);
    cr_assert(!prompt_waits(worker));
    s->charged = charged;
    turns(2);
}

Test(prompt, only_some_rings_of_a_user_are) {
    bob_acts = bob_asks_on_all_rings;
    unsigned most = 0;
    for (unsigned n = 0; n < WARM_UP; n++) {
        turns(1);
        cr_assert_leq(worker->nprompt, PROMPT_OF_USER);
        most = worker->nprompt > most ? worker->nprompt : most;
    }
    cr_assert_eq(most, PROMPT_OF_USER);
}

Test(prompt, who_asks_no_more_is_soon_forgotten) {
    bob_acts = bob_asks_one_thing_after_the_other;
    turns(WARM_UP);
    cr_assert(prompt_waits(worker));
    bob_acts = NULL;
    turns(1 + PROMPT_LOOKS);
    cr_assert(!prompt_waits(worker));
    cr_assert_eq(worker->nprompt, 0);
}

Test(prompt, a_session_that_is_paused_has_nothing_taken_early) {
    bob_acts = bob_asks_one_thing_after_the_other;
    turns(WARM_UP);
    struct op_session *s = &bob.of[0].c.session->op;
    rings_pause(s);
    turns(2);
    answers = 0;
    turns(PROMPT_LOOKS);
    cr_assert_eq(answers, 0);
    rings_resume(worker, s);
    turns(2);
    cr_assert_gt(answers, 0);
}

Test(prompt, nobody_with_a_rate_is) {
    set_share(BOB, 100, 0, 0, 1000000);
    bob_acts = bob_asks_one_thing_after_the_other;
    turns(WARM_UP);
    cr_assert_gt(answers, 0);
    cr_assert(!prompt_waits(worker));
    forget_share(BOB);
}

static void one_ring_asks_and_one_does_nothing(void) {
    struct rig_client *ring = &bob.of[0].ring[0];
    struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};
    bob_asks_one_thing_after_the_other();
    if (ring->sq_tail == ring->cq_head || heard(ring))
        rig_put(ring, &nop);
}

Test(prompt, nor_who_does_anything_but_read_or_write_here) {
    struct rdmad_sqe there = {
        .opcode = RDMAD_OP_WRITE, .pool = RIG_HANDLE(0), .lease = REMOTE, .length = 8};
    rig_put(&bob.of[0].ring[0], &there);
    turns(WARM_UP);
    bob_acts = one_ring_asks_and_one_does_nothing;
    turns(WARM_UP);
    cr_assert_eq(worker->nprompt, 1);
}

Test(prompt, a_session_may_end_while_it_is) {
    bob_acts = bob_asks_one_thing_after_the_other;
    turns(WARM_UP);
    cr_assert(prompt_waits(worker));
    bob_acts = NULL;
    crowd_down(&bob);
    cr_assert(!prompt_waits(worker));
    cr_assert_eq(worker->nprompt, 0);
    crowd_up(&bob, BOB, 1, 1);
    bob.stopped = true;
    turns(WARM_UP);
}
