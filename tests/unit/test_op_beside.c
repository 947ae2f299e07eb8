/* SPDX-License-Identifier: MIT */
/*
 * test_op_beside.c - what a user makes a worker and the control thread do besides ops of routes:
 * calls, leases of other daemons, CANCELs, NOPs. It counts as bytes do, wherever this processor
 * moves them.
 */
#include "daemon/op/engine/route.h"
#include "daemon/op/engine/user.h"
#include "daemon/op/seam/objects.h"
#include "tests/unit/op_crowd.h"
#include <criterion/criterion.h>

static void setup(void) {
    crowds_up(1);
}

TestSuite(beside, .init = setup, .timeout = 120);

/* Alice and bob, of equal weight, and what bob does besides. */
struct parts {
    struct done alice, bob;
    double beside; /* bytes that are counted for that */
};

static struct parts parts_while(unsigned turns, unsigned every, double (*besides)(void)) {
    struct parts p = {0};
    set_share(ALICE, 100, 0, 0, 0);
    saturate(500);
    struct done a = crowd_done(&alice), b = crowd_done(&bob);
    for (unsigned n = 0; n < turns; n++) {
        if (n % every == 0)
            p.beside += besides();
        saturate(1);
        mailbox_drain(&rig.control);
    }
    struct done x = crowd_done(&alice), y = crowd_done(&bob);
    p.alice = (struct done){x.ops - a.ops, x.bytes - a.bytes};
    p.bob = (struct done){y.ops - b.ops, y.bytes - b.bytes};
    return p;
}

static void it_counts(struct parts p, double times, const char *what) {
    is_about(p.alice.bytes / (p.bob.bytes + p.beside), 1);
    cr_assert_gt(p.alice.bytes, times * p.bob.bytes, "bob's %s cost nothing", what);
    crowds_down();
}

/* And it would show if it did. */
static void it_does_not_count(struct parts p, double part) {
    cr_assert_gt(p.beside, part * p.bob.bytes);
    is_about(p.alice.bytes / p.bob.bytes, 1);
    crowds_down();
}

static void has_asked(void *arg, const struct error *result) {
    (void)result;
    ++*(unsigned *)arg;
}

static unsigned asked;

static double two_calls(void) {
    for (unsigned i = 0; i < 2; i++)
        plane_session_ask_alive(bob.of[i].c.session, has_asked, &asked);
    return 2 * USER_CALL_COST;
}

Test(beside, calls_of_the_control_thread_count_as_bytes_do) {
    both(2, 2, RDMAD_OP_WRITE, LOCAL, BYTES);
    struct parts p = parts_while(2000, 1, two_calls);
    cr_assert_geq(asked, 2 * 1999);
    it_counts(p, 1.5, "calls");
}

static double no_calls(void) {
    return 0;
}

static void both_on_a_link(void) {
    sim_script()->max_inflight = 8;
    both(2, 2, RDMAD_OP_WRITE, REMOTE, 64 * 1024);
}

Test(beside, and_where_this_processor_moves_what_goes_over_a_link) {
    both_on_a_link();
    it_counts(parts_while(20000, 16, two_calls), 1.2, "calls");
}

Test(beside, but_not_where_a_device_does) {
    both_on_a_link();
    list_for_each (pos, &alice.of[0].c.session->op.user->flows)
        list_entry(pos, struct op_flow, node)->route->copied = false;
    it_does_not_count(parts_while(20000, 16, two_calls), 0.2);
}

/* They kept nobody from anything. */
Test(beside, and_not_for_calls_of_before_it_had_anything_to_move) {
    both_on_a_link();
    bob.stopped = true;
    parts_while(5000, 1, two_calls);
    bob.stopped = false;
    cr_assert_geq(asked, 2 * 4999);
    struct parts p = parts_while(5000, 1, no_calls);
    is_about(p.alice.bytes / p.bob.bytes, 1);
    crowds_down();
}

static double attach_and_end(void) {
    const uint64_t handle = RIG_HANDLE(9);
    struct plane_session *s = bob.of[0].c.session;
    plane_lease_add(s, handle,
                    &(struct plane_lease_spec){.lease_id = RIG_LEASE,
                                               .length = remote.length,
                                               .rights = RDMAD_RIGHTS_ALL,
                                               .deadline_ns = remote.deadline_ns,
                                               .lane = remote.lane,
                                               .key = remote.key},
                    NULL, NULL);
    plane_lease_end(s, handle, RDMAD_E_LEASE_RELEASED, NULL, NULL);
    plane_lease_forget(s, handle);
    return 3 * USER_CALL_COST + USER_ATTACH_COST;
}

/* The control threads of both daemons have work by it. */
Test(beside, an_attach_to_another_daemon_counts_for_what_both_do) {
    both_on_a_link();
    it_counts(parts_while(20000, 64, attach_and_end), 1.2, "attaches");
}

/* Its owner may renew it as often as it likes. */
static double renewals(void) {
    for (unsigned i = 0; i < 4; i++)
        plane_lease_extend(bob.of[0].c.session, REMOTE, CLOCK_NEVER);
    return 4 * USER_CALL_COST;
}

Test(beside, but_no_lessee_pays_for_what_the_owner_does_with_a_lease) {
    both_on_a_link();
    it_does_not_count(parts_while(20000, 16, renewals), 0.4);
}

static struct rig_client bobs_second_ring;
static struct rdmad_sqe in_it;

static double a_ring_full(void) {
    struct rig_client *r = &bobs_second_ring;
    struct rdmad_cqe cqe;
    while (rig_take(r, &cqe))
        ;
    unsigned count = DEPTH - (r->sq_tail - r->cq_head);
    for (unsigned i = 0; i < count; i++)
        rig_put(r, &in_it);
    return (double)count * USER_OP_COST;
}

static void counts_on_a_link(uint8_t opcode, const char *what) {
    both_on_a_link();
    rig_ring_up(&bob.of[0].c, &bobs_second_ring, DEPTH, DEPTH);
    in_it = (struct rdmad_sqe){.opcode = opcode, .lease = opcode == RDMAD_OP_NOP ? 0 : 12345};
    it_counts(parts_while(20000, 16, a_ring_full), 1.2, what);
    rig_ring_free(&bobs_second_ring);
}

Test(beside, cancels_of_nothing_count_on_a_link_too) {
    counts_on_a_link(RDMAD_OP_CANCEL, "CANCELs");
}

Test(beside, and_nops) {
    counts_on_a_link(RDMAD_OP_NOP, "NOPs");
}

Test(beside, and_sqes_that_are_refused) {
    counts_on_a_link(RDMAD_OP_COUNT, "mistakes");
}

Test(beside, what_a_route_takes_counts_there_once) {
    both_on_a_link();
    crowd_does(&bob, RDMAD_OP_WRITE, REMOTE, 8192); /* more than what needs no queue */
    struct parts p = parts_while(20000, 1, no_calls);
    double alices = p.alice.bytes + p.alice.ops * ROUTE_OP_COST;
    double bobs = p.bob.bytes + p.bob.ops * ROUTE_OP_COST;
    is_about(alices / bobs, 1);
    crowds_down();
}
