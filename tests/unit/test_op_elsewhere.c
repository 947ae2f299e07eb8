/* SPDX-License-Identifier: MIT */
/*
 * Users at several workers: what one has of the others counts where somebody has only this one.
 */
#include "daemon/op/engine/user.h"
#include "tests/unit/op_crowd.h"
#include <criterion/criterion.h>

#define MANY 32u

static void setup(void) {
    crowds_up(2);
}

TestSuite(elsewhere, .init = setup, .timeout = 120);

static const struct worker *worker_of(const struct source *s) {
    return s->c.session->op.worker;
}

/* Alice has both workers, bob has one. */
static void alice_at_both(unsigned sessions, uint32_t weight, uint8_t opcode, uint64_t size) {
    both(sessions, 1, opcode, LOCAL, size);
    set_share(ALICE, weight, 0, 0, 0);
    bool beside = false, apart = false;
    for (unsigned i = 0; i < sessions; i++) {
        bool with_bob = worker_of(&alice.of[i]) == worker_of(&bob.of[0]);
        beside |= with_bob;
        apart |= !with_bob;
    }
    cr_assert(beside && apart);
}

/* Equal parts of both would be one worker each; but where bob is alice keeps a fifth. */
Test(elsewhere, a_neighbour_at_one_worker_has_more_of_it_than_who_is_at_two) {
    alice_at_both(MANY, 100, RDMAD_OP_WRITE, BYTES);
    is_about(ratio_of(4000).bytes, 1.2 / 0.8);
    crowds_down();
}

Test(elsewhere, weights_hold_for_all_workers_together) {
    alice_at_both(MANY, 300, RDMAD_OP_READ, 256 * 1024);
    is_about(ratio_of(8000).bytes, 3);
    crowds_down();
}

/* Alice's one session at bob's worker. */
static struct source *beside_bob(void) {
    bool first = worker_of(&alice.of[0]) == worker_of(&bob.of[0]);
    return &alice.of[first ? 0 : 1];
}

/* What bob got for each that the session got. */
static struct done bob_to(const struct source *s, unsigned turns) {
    struct done a = session_done(s), b = session_done(&bob.of[0]);
    saturate(RIG_COUNT(turns));
    struct done x = session_done(s), y = session_done(&bob.of[0]);
    return (struct done){(y.ops - b.ops) / (x.ops - a.ops),
                         (y.bytes - b.bytes) / (x.bytes - a.bytes)};
}

Test(elsewhere, who_is_served_there_is_not_starved_here) {
    alice_at_both(2, 100, RDMAD_OP_WRITE, 64 * 1024);
    saturate(1000);
    is_about(bob_to(beside_bob(), 4000).bytes, 4);
    crowds_down();
}

Test(elsewhere, nor_with_small_ops) {
    alice_at_both(2, 100, RDMAD_OP_READ, 8192); /* more in a ring than a turn takes */
    saturate(1000);
    is_about(bob_to(beside_bob(), 4000).ops, 4);
    crowds_down();
}

Test(elsewhere, what_was_there_is_forgotten_when_it_is_over) {
    alice_at_both(2, 100, RDMAD_OP_WRITE, 64 * 1024);
    saturate(RIG_COUNT(4000));
    struct crowd both_sessions = alice;
    alice.of = beside_bob();
    alice.sessions = 1;
    saturate(RIG_COUNT(2000));
    is_about(bob_to(alice.of, 4000).bytes, 1);
    alice = both_sessions;
    crowds_down();
}

Test(elsewhere, who_has_one_worker_pays_what_it_costs) {
    both(1, 1, RDMAD_OP_WRITE, LOCAL, 64 * 1024);
    saturate(RIG_COUNT(4000));
    list_for_each (pos, &rig.plane[HERE]->worker[0].users)
        cr_assert_eq(list_entry(pos, struct op_user, node)->elsewhere.times, ELSEWHERE_ONCE);
    list_for_each (pos, &rig.plane[HERE]->worker[1].users)
        cr_assert_eq(list_entry(pos, struct op_user, node)->elsewhere.times, ELSEWHERE_ONCE);
    crowds_down();
}
