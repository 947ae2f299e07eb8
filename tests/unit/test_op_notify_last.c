/* SPDX-License-Identifier: MIT */
/* Whoever waits hears what was notified before its lease ended. */
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>

#define BYTES 4096u
#define HANDLE RIG_HANDLE(3)

static struct rig rig;
static struct rig_client lessee, owner; /* on a worker each */
static struct fabric_audit audit;

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.workers = 2;
    rig_up(&rig, &settings, 11);
    rig_client_up(&rig, &lessee, 64, 128, BYTES);
    rig_client_up(&rig, &owner, 64, 128, BYTES);
    cr_assert_neq(plane_worker_of_session(lessee.session), plane_worker_of_session(owner.session));
    rig_grant(&owner, RIG_LEASE);
    rig_lease_of(&lessee, HANDLE, RIG_LEASE, &owner, owner.pool, BYTES, RDMAD_RIGHTS_ALL,
                 sim_now() + 1000 * NSEC_PER_SEC, &audit);
}

static void teardown(void) {
    rig_client_down(&lessee);
    rig_client_down(&owner);
    rig_down(&rig);
}

TestSuite(notify_last, .init = setup, .fini = teardown, .timeout = 60);

static void ask(uint64_t user_data) {
    struct rdmad_sqe sqe = {
        .opcode = RDMAD_OP_NOTIFIED, .lease = RIG_LEASE, .user_data = user_data};
    rig_put(&owner, &sqe);
}

/* Done for the lessee, whose worker alone turns: the owner's does not know of it. */
static void notify_unheard(uint32_t imm) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFY, .lease = HANDLE, .imm = imm};
    struct worker *w = &rig.plane[HERE]->worker[plane_worker_of_session(lessee.session)];
    struct rdmad_cqe cqe;
    rig_put(&lessee, &sqe);
    for (unsigned n = 0; !rig_take(&lessee, &cqe); n++) {
        cr_assert_lt(n, 100, "it does not complete");
        worker_turn(w, sim_now());
    }
    cr_assert_eq(cqe.status, 0);
}

static void end_lease(void) {
    struct rig_answer dropped = {0};
    plane_grant_drop(owner.session, RIG_LEASE, RDMAD_E_LEASE_EXPIRED, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
}

static struct rdmad_cqe expect_end(uint64_t user_data, int status) {
    struct rdmad_cqe cqe = rig_wait(&owner);
    cr_assert_eq(cqe.user_data, user_data);
    cr_expect_eq(cqe.status, status, "of %lu: status %d", (unsigned long)user_data, cqe.status);
    return cqe;
}

Test(notify_last, what_comes_together_with_the_end_is_given_first) {
    ask(1);
    ask(2);
    ask(3);
    rig_settle(&rig);
    notify_unheard(7);
    notify_unheard(8);
    end_lease();
    cr_expect_eq(expect_end(1, 0).imm, 7);
    cr_expect_eq(expect_end(2, 0).imm, 8);
    expect_end(3, RDMAD_E_LEASE_EXPIRED);
}

Test(notify_last, what_nobody_waits_for_goes_with_the_lease) {
    notify_unheard(7);
    end_lease();
    rig_grant(&owner, RIG_LEASE);
    ask(1);
    rig_settle(&rig);
    end_lease();
    expect_end(1, RDMAD_E_LEASE_EXPIRED);
}
