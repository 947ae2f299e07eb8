/* SPDX-License-Identifier: MIT */
/*
 * Who waits for one answer and asks again at once waits for a slice of others' long ops, not for a
 * turn, and gets no more of the turn than its part. The clients here ask between the polls of one
 * turn, and what they wait for is counted in bytes, so no test depends on the speed of the machine.
 */
#include "daemon/fabric/local/instance.h"
#include "daemon/op/engine/prompt.h"
#include "daemon/op/engine/user.h"
#include "tests/unit/op_crowd.h"
#include <criterion/criterion.h>

#define TURN_OPS (USER_TURN_COST / USER_OP_COST)
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

static void bob_asks_for_all_he_can(void) {
    struct rig_client *ring = &bob.of[0].c;
    while (ring->sq_tail != ring->cq_head && heard(ring)) {
    }
    if (ring->sq_tail == ring->cq_head)
        for (unsigned n = 0; n < DEPTH; n++)
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
    bob_acts = bob_asks_for_all_he_can;
    turns(WARM_UP);
    for (unsigned n = 0; n < WARM_UP; n++) {
        double before = crowd_done(&bob).ops;
        turns(1);
        double ops = crowd_done(&bob).ops - before;
        cr_assert_leq(ops, TURN_OPS / 2 + DEPTH, "%.0f ops in a turn of %u for both", ops,
                      TURN_OPS);
    }
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
