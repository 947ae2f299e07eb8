/* SPDX-License-Identifier: MIT */
/* How many notices a lease keeps whose owner takes none. */
#include "daemon/op/notify/grant.h"
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>

#define BYTES 4096u
#define HANDLE RIG_HANDLE(4)
#define LEASE 901u
#define MOST (256u * RDMAD_NOTIFY_DEPTH)

static struct rig rig;
static struct rig_client lessee, owner;
static struct fabric_audit audit;

static void attach(void) {
    rig_lease_of(&lessee, HANDLE, LEASE, &owner, owner.pool, BYTES, RDMAD_RIGHTS_ALL,
                 sim_now() + 60 * NSEC_PER_SEC, &audit);
}

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 5);
    rig_client_up(&rig, &lessee, 64, 128, BYTES);
    rig_client_up(&rig, &owner, 64, 128, BYTES);
    rig_grant(&owner, LEASE);
    attach();
}

static void down(void) {
    rig_client_down(&lessee);
    rig_client_down(&owner);
    rig_down(&rig);
}

TestSuite(notices, .init = setup, .timeout = 60);

static int notify(void) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFY, .lease = HANDLE};
    return rig_do(&lessee, &sqe).status;
}

/* Takes so many, of which there are no more. */
static void take(unsigned count) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFIED, .lease = LEASE};
    struct rdmad_cqe cqe;
    while (count-- > 0)
        cr_assert_eq(rig_do(&owner, &sqe).status, 0);
    rig_put(&owner, &sqe);
    rig_settle(&rig);
    cr_assert_not(rig_take(&owner, &cqe));
}

/* An attach is worth 64 of them, and who attaches again and again may not fill the daemon. */
Test(notices, of_attaches_that_come_and_go_are_bounded) {
    unsigned left = 0;
    int status = 0;
    for (unsigned n = 0; n < 300 && !status; n++) {
        for (unsigned i = 0; i < RDMAD_NOTIFY_DEPTH && !status; i++, left += !status)
            status = notify();
        plane_lease_forget(lessee.session, HANDLE);
        attach();
    }
    cr_assert_eq(status, RDMAD_E_NO_WAITER);
    cr_assert_eq(left, MOST);
    take(MOST);
    cr_assert_eq(notify(), 0, "there is room again");
    down();
}

/* They are let in by the daemon of who sends them. */
Test(notices, from_elsewhere_are_bounded) {
    struct worker *w = &rig.plane[HERE]->worker[0];
    struct op_notifier *n = notifier_new(&owner.session->op, LEASE);
    for (unsigned i = 0; i < 2 * MOST + 100; i++) {
        n->queued++;
        cr_assert_eq(notice_leave(w, n, i, 0), 0);
    }
    cr_assert_eq(n->queued, 2 * MOST, "the others are dropped");
    notifier_drop(n);
    take(2 * MOST);
    down();
}

/* A thousand leases are no way around it, nor what their owner's daemon hears from elsewhere. */
Test(notices, of_all_leases_of_a_user_are_bounded) {
    struct worker *w = &rig.plane[HERE]->worker[0];
    for (unsigned lease = LEASE + 1; lease < LEASE + 12; lease++) {
        rig_grant(&owner, lease);
        struct op_notifier *n = notifier_new(&owner.session->op, lease);
        for (unsigned i = 0; i < 2 * MOST; i++) {
            n->queued++;
            cr_assert_eq(notice_leave(w, n, i, 0), 0);
        }
        notifier_drop(n);
    }
    cr_assert_eq(owner.session->op.account->notices, 16 * MOST, "%u",
                 owner.session->op.account->notices);
    cr_assert_eq(notify(), RDMAD_E_NO_WAITER, "of its own lease nobody has left any");
    plane_grant_drop(owner.session, LEASE + 1, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    rig_settle(&rig);
    cr_assert_eq(owner.session->op.account->notices, 14 * MOST,
                 "a lease that ends takes them along");
    down();
}

/* ---- who takes them ---------------------------------------------------------------------- */

static void wait_on(struct rig_client *ring, unsigned count) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFIED, .lease = LEASE};
    while (count-- > 0)
        rig_put(ring, &sqe);
    rig_settle(&rig);
}

/* Nobody may read the completions of a ring that is closed, and its ops end some in a turn. */
Test(notices, of_a_ring_that_ends_go_to_those_who_still_wait) {
    struct worker *w = &rig.plane[HERE]->worker[0];
    struct op_notifier *n = notifier_new(&owner.session->op, LEASE);
    struct rig_answer dropped = {0};
    struct rig_client closing;
    struct rdmad_cqe cqe;
    rig_ring_up(&owner, &closing, 1024, 1024);
    wait_on(&closing, 1000);
    wait_on(&owner, 3);
    plane_ring_drop(owner.session, RIG_HANDLE(1), rig_done, &dropped);
    worker_turn(w, sim_now());
    cr_assert_gt(owner.session->op.inflight, 3, "some are ending still");
    for (unsigned i = 0; i < 5; i++) {
        n->queued++;
        cr_assert_eq(notice_leave(w, n, i, 0), 0);
    }
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert(rig_take(&owner, &cqe), "notice %u went to a ring that is closed", i);
        cr_assert_eq(cqe.status, 0);
        cr_assert_eq(cqe.imm, i);
    }
    cr_assert_eq(n->queued, 2);
    take(2);
    notifier_drop(n);
    down();
    rig_ring_free(&closing);
}

Test(notices, end_no_op_on_the_stack_of_who_leaves_them) {
    struct worker *w = &rig.plane[HERE]->worker[0];
    struct op_notifier *n = notifier_new(&owner.session->op, LEASE);
    wait_on(&owner, 1);
    n->queued++;
    cr_assert_eq(notice_leave(w, n, 1, 0), 0);
    cr_assert_eq(owner.session->op.inflight, 1, "it ended before its turn");
    worker_turn(w, sim_now());
    cr_assert_eq(owner.session->op.inflight, 0);
    notifier_drop(n);
    down();
}
