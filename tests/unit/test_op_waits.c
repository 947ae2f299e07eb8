/* SPDX-License-Identifier: MIT */
/* Ops that wait for somebody else are counted, refused beyond the limits, and given back. */
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>

static struct rig rig;
static struct rig_client a, b;
static uint64_t uid_ops = 16384, all_ops = 32768;

enum whose { ONE_USER = 1, TWO_UIDS, TWO_TENANTS }; /* of one uid */

static void up(unsigned workers, enum whose whose, uint64_t session, uint64_t uid, uint64_t all) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.workers = workers;
    settings.max_session_waits = session;
    settings.max_uid_waits = uid;
    settings.max_waits = all;
    settings.max_session_ops = 1024;
    settings.max_uid_ops = uid_ops;
    settings.max_ops = all_ops;
    rig_up(&rig, &settings, 37);
    rig.uid = 1000;
    rig_client_up(&rig, &a, 4096, 4096, 4096);
    rig.uid = whose == TWO_UIDS ? 1001 : 1000;
    rig.tenant = whose == TWO_TENANTS ? 7 : 0;
    rig_client_up(&rig, &b, 4096, 4096, 4096);
    rig_grant(&a, 333);
    rig_grant(&b, 444);
}

static void down(void) {
    rig_client_down(&a);
    rig_client_down(&b);
    const struct op_account *all = &rig.plane[HERE]->all;
    cr_assert_eq(all->waits + all->ops + all->name_bytes, 0,
                 "what ended sessions had is counted for ever");
    cr_assert(list_empty(&rig.plane[HERE]->accounts));
    rig_down(&rig);
}

static uint64_t lease_of(const struct rig_client *c) {
    return c == &a ? 333 : 444;
}

static void post(struct rig_client *c, unsigned count, uint64_t tag) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFIED, .lease = lease_of(c), .user_data = tag};
    while (count--)
        rig_put(c, &sqe);
    rig_settle(&rig);
}

/* How many of those posted were refused, for whose limit. */
static unsigned refused(struct rig_client *c, uint64_t whose) {
    struct rdmad_cqe cqe;
    unsigned count = 0;
    while (rig_take(c, &cqe)) {
        cr_assert_eq(cqe.status, RDMAD_E_LIMIT);
        cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
        cr_assert_eq(cqe.lease_id, whose, "%lu's limit", (unsigned long)cqe.lease_id);
        count++;
    }
    return count;
}

static void cancel(struct rig_client *c, uint64_t tag) {
    struct rdmad_cqe cqe;
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_CANCEL, .lease = tag, .user_data = 999};
    rig_put(c, &sqe);
    rig_settle(&rig);
    while (rig_take(c, &cqe))
        cr_assert(cqe.status == RDMAD_E_CANCELED || cqe.user_data == 999);
}

Test(waits, a_session_has_as_many_as_it_may) {
    up(1, ONE_USER, 100, 1000, 1000);
    post(&a, 130, 1);
    cr_assert_eq(refused(&a, RDMAD_LIMIT_SESSION), 30);
    cr_assert_eq(a.session->op.waits, 100);
    post(&b, 100, 1);
    cr_assert_eq(refused(&b, 0), 0, "its neighbour has its own");
    down();
}

Test(waits, what_ends_makes_room) {
    up(1, ONE_USER, 100, 100, 100);
    for (unsigned round = 0; round < 20; round++) {
        post(&a, 100, 1);
        cr_assert_eq(refused(&a, 0), 0);
        cancel(&a, 1);
    }
    cr_assert_eq(a.session->op.waits, 0);
    cr_assert_lt(a.session->op.account->waits, 2 * WAITS_AT_ONCE);
    down();
}

Test(waits, sessions_of_one_user_on_several_workers_count_together) {
    up(2, ONE_USER, 1000, 150, 1000);
    cr_assert_neq(a.session->worker, b.session->worker);
    post(&a, 100, 1);
    cr_assert_eq(refused(&a, 0), 0);
    post(&b, 100, 1);
    unsigned count = refused(&b, RDMAD_LIMIT_UID);
    cr_assert(count >= 50 && count < 50 + 2 * WAITS_AT_ONCE, "%u refused", count);
    cancel(&a, 1);
    post(&b, count, 1);
    cr_assert_eq(refused(&b, 0), 0, "what the one gave back, the other may have");
    down();
}

Test(waits, users_have_a_limit_together) {
    up(1, TWO_UIDS, 1000, 160, 256);
    post(&a, 160, 1);
    cr_assert_eq(refused(&a, 0), 0);
    post(&b, 160, 1);
    cr_assert_eq(refused(&b, RDMAD_LIMIT_DAEMON), 160 - (256 - 160));
    down();
}

/* What is left of all is for both; the daemon's total is nobody's to dodge. */
Test(waits, tenants_of_one_uid_have_limits_of_their_own_and_one_together) {
    up(1, TWO_TENANTS, 1000, 160, 256);
    post(&a, 200, 1);
    cr_assert_eq(refused(&a, RDMAD_LIMIT_UID), 200 - 160);
    post(&b, 160, 1);
    cr_assert_eq(refused(&b, RDMAD_LIMIT_DAEMON), 160 - (256 - 160));
    cancel(&a, 1);
    post(&b, 64, 1);
    cr_assert_eq(refused(&b, 0), 0);
    down();
}

Test(waits, a_session_that_goes_gives_back_all_and_their_memory) {
    up(1, ONE_USER, 4096, 4096, 4096);
    const struct worker *w = a.session->worker;
    uint32_t chunks = w->ops.chunks;
    post(&a, 4096, 1);
    cr_assert_gt(w->ops.chunks, chunks + 20);
    rig_client_down(&a);
    cr_assert_leq(w->ops.chunks, SLAB_KEPT, "%u chunks for nothing", w->ops.chunks);
    post(&b, 4096, 1);
    cr_assert_eq(refused(&b, 0), 0);
    rig_client_down(&b);
    rig_down(&rig);
}

/* ---- tables of names, made by a ring's first CANCEL ---- */

Test(waits, tables_of_names_are_charged_and_given_back_with_the_last_op) {
    up(1, ONE_USER, 4096, 8192, 8192);
    const struct op_account *uid = a.session->op.account, *all = &rig.plane[HERE]->all;
    post(&a, 2000, 1);
    cr_expect_eq(uid->name_bytes, 0, "who never cancels pays nothing");
    cancel(&a, 7);
    uint64_t one = a.session->op.name_bytes;
    cr_expect_geq(one, 2000 * sizeof(struct list) / 2, "%lu bytes", (unsigned long)one);
    post(&b, 1000, 1);
    cancel(&b, 7);
    cr_expect_eq(uid->name_bytes, one + b.session->op.name_bytes);
    cr_expect_eq(all->name_bytes, uid->name_bytes);
    cancel(&a, 1);
    cr_expect_eq(a.session->op.name_bytes, 0, "nothing is in flight");
    cr_expect_eq(uid->name_bytes, b.session->op.name_bytes);
    down();
}

Test(waits, a_table_of_names_that_may_not_grow_finds_all_the_same) {
    up(1, TWO_UIDS, 4096, 8192, 8192);
    struct op_account *uid = a.session->op.account;
    uint64_t used_up = NAME_BYTES * (8192 + uid_ops);
    uid->name_bytes += used_up; /* by other sessions of his */
    post(&a, 300, 1);
    post(&a, 300, 2);
    cancel(&a, 2);
    cr_expect_eq(a.session->op.waits, 300);
    cr_expect_eq(uid->name_bytes, used_up, "a limit is passed");
    cancel(&a, 1);
    cr_expect_eq(a.session->op.waits, 0);
    post(&b, 300, 1);
    cancel(&b, 7);
    cr_expect_gt(b.session->op.name_bytes, 0, "another user has his own");
    uid->name_bytes -= used_up;
    down();
}

/* ---- many end ---- */

enum { MANY = 4000, ENDS_A_TURN = 256 };

/* left is a count of them, and may have as many as spare too many. Turn by turn until it is
 * answered; few end in each, a neighbour is served in all, and the answer does not come before the
 * last has ended. */
static void ends_in_turns(struct rig_answer *answer, const uint64_t *left, unsigned spare,
                          const char *what) {
    struct worker *w = b.session->op.worker;
    const struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP, .user_data = 5};
    struct rdmad_cqe cqe;
    unsigned turns = 0;
    for (uint64_t before = *left; !answer->done; before = *left) {
        rig_put(&b, &nop);
        unsigned work = worker_turn(w, sim_now());
        cr_assert(rig_take(&b, &cqe), "%s: a neighbour is not served", what);
        cr_assert_leq(before - *left, ENDS_A_TURN + spare, "%s: %lu ended in one turn", what,
                      (unsigned long)(before - *left));
        cr_assert(work || *left <= spare, "%s: the worker would sleep on %lu", what,
                  (unsigned long)*left);
        mailbox_drain(&rig.control);
        cr_assert(!answer->done || *left <= spare, "%s: answered with %lu left", what,
                  (unsigned long)*left);
        cr_assert_leq(++turns, 100, "%s: %lu are left after %u turns", what, (unsigned long)*left,
                      turns);
    }
    cr_assert_geq(turns, MANY / ENDS_A_TURN, "%s: in %u turns", what, turns);
}

Test(waits, a_sessions_end_ends_a_bounded_number_a_turn_and_then_is_told) {
    struct rig_answer answer = {0};
    up(1, TWO_UIDS, 65536, 65536, 65536);
    const uint64_t *left = &a.session->op.account->waits; /* the account outlives the session: */
    struct plane_session *kept =
        plane_session_add(rig.plane[HERE], 99, (struct user_id){.uid = 1000}, NULL);
    struct rig_answer gone = {0};
    post(&a, MANY, 1);
    plane_session_drop(a.session, rig_done, &answer);
    ends_in_turns(&answer, left, WAITS_AT_ONCE, "session");
    cr_expect_eq(*left, 0);
    plane_session_drop(kept, rig_done, &gone);
    rig_client_free(&a);
    rig_client_down(&b);
    rig_down(&rig);
}

Test(waits, a_rings_end_ends_a_bounded_number_a_turn_and_then_is_told) {
    struct rig_answer answer = {0};
    up(1, TWO_UIDS, 65536, 65536, 65536);
    const uint64_t *waits = &a.session->op.account->waits;
    post(&a, MANY, 1);
    plane_ring_drop(a.session, RIG_HANDLE(0), rig_done, &answer);
    ends_in_turns(&answer, waits, 2 * WAITS_AT_ONCE, "ring");
    down();
}

Test(waits, a_grants_end_ends_a_bounded_number_a_turn_and_then_is_told) {
    struct rig_answer answer = {0};
    up(1, TWO_UIDS, 65536, 65536, 65536);
    post(&a, MANY, 1);
    plane_grant_drop(a.session, 333, RDMAD_E_LEASE_RELEASED, rig_done, &answer);
    ends_in_turns(&answer, &a.session->op.account->waits, 2 * WAITS_AT_ONCE, "grant");
    post(&a, 1, 2);
    struct rdmad_cqe cqe;
    unsigned released = 0;
    while (rig_take(&a, &cqe))
        released += cqe.status == RDMAD_E_LEASE_RELEASED;
    cr_expect_eq(released, MANY);
    down();
}

/* The session ends while a lease of it does: each waits for the other's ops, and nothing is freed
 * twice. */
Test(waits, ends_that_meet_are_all_told) {
    struct rig_answer grant = {0}, ring = {0}, session = {0};
    up(1, TWO_UIDS, 65536, 65536, 65536);
    post(&a, MANY, 1);
    plane_grant_drop(a.session, 333, RDMAD_E_LEASE_RELEASED, rig_done, &grant);
    plane_ring_drop(a.session, RIG_HANDLE(0), rig_done, &ring);
    worker_turn(b.session->op.worker, sim_now());
    plane_session_drop(a.session, rig_done, &session);
    rig_settle(&rig);
    cr_expect(grant.done && ring.done && session.done);
    rig_client_free(&a);
    rig_client_down(&b);
    rig_down(&rig);
}

/* Its limit is none of transfers, and theirs is none of it. */
Test(waits, who_is_at_the_limit_may_do_everything_else) {
    static uint8_t near[64];
    static struct fabric_audit audit;
    up(1, ONE_USER, 64, 64, 64);
    rig_lease_local(&a, RIG_HANDLE(5), 901, near, 64, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &audit);
    post(&a, 70, 1);
    cr_assert_eq(refused(&a, RDMAD_LIMIT_SESSION), 6);
    struct rdmad_sqe sqe = {
        .opcode = RDMAD_OP_WRITE, .pool = RIG_HANDLE(0), .lease = RIG_HANDLE(5), .length = 8};
    cr_assert_eq(rig_do(&a, &sqe).status, 0);
    down();
}

/* ---- transfers --------------------------------------------------------------------------- */

static struct rig_remote remote;
static uint8_t far[4096];

/* Writes that wait for a link, on which none comes. */
static void hold(struct rig_client *c, unsigned count) {
    const struct rdmad_sqe sqe = {.opcode = RDMAD_OP_WRITE,
                                  .pool = RIG_HANDLE(0),
                                  .lease = RIG_HANDLE(3),
                                  .length = 8,
                                  .user_data = 1};
    while (count--)
        rig_put(c, &sqe);
    rig_settle(&rig);
}

static void remote_up(void) {
    rig_remote_up(&rig, &remote, far, sizeof(far), RDMAD_RIGHTS_ALL,
                  sim_now() + 1000 * NSEC_PER_SEC);
    rig_lease(&a, &remote, RIG_HANDLE(3), RIG_LEASE, RDMAD_RIGHTS_ALL);
    rig_lease(&b, &remote, RIG_HANDLE(3), RIG_LEASE, RDMAD_RIGHTS_ALL);
    rig_break(&rig);
}

Test(waits, a_users_transfers_are_counted_and_more_wait_in_their_rings) {
    uid_ops = 256;
    up(1, ONE_USER, 64, 64, 64);
    remote_up();
    hold(&a, 500);
    cr_assert_eq(a.session->op.charged, OPS_AT_ONCE + 256);
    hold(&b, 500);
    cr_assert_eq(b.session->op.charged, OPS_AT_ONCE, "a session always has its first");
    cancel(&a, 1); /* and the next go on */
    cr_assert_leq(a.session->op.charged, OPS_AT_ONCE + 256);
    cancel(&a, 1);
    rig_run_until(&rig, sim_now() + 200 * NSEC_PER_SEC); /* deadlines */
    cr_assert_eq(a.session->op.charged + b.session->op.charged, 0);
    cr_assert_eq(a.ring->sq_head, a.sq_tail, "what waited in the ring was taken in the end");
    cr_assert_eq(b.ring->sq_head, b.sq_tail);
    cr_assert_lt(rig.plane[HERE]->all.ops, 4 * OPS_AT_ONCE);
    rig_client_down(&a);
    rig_client_down(&b);
    cr_assert_eq(rig.plane[HERE]->all.ops, 0);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

Test(waits, all_users_transfers_have_a_limit_together) {
    uid_ops = 256;
    all_ops = 300;
    up(1, TWO_UIDS, 64, 64, 64);
    remote_up();
    hold(&a, 500);
    hold(&b, 500);
    cr_assert_eq(a.session->op.charged, OPS_AT_ONCE + 256);
    cr_assert_eq(b.session->op.charged, OPS_AT_ONCE + 300 - 256);
    rig_client_down(&a);
    rig_client_down(&b);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

/* Each turn of the worker, how many of b's NOPs are taken. */
static unsigned nops_in(unsigned turns) {
    const struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};
    struct rdmad_cqe cqe;
    unsigned taken = 0;
    for (unsigned n = 0; n < turns; n++) {
        while (b.sq_tail - b.cq_head < 512)
            rig_put(&b, &nop);
        worker_turn(b.session->op.worker, sim_now());
        sim_advance(1000);
        while (rig_take(&b, &cqe))
            taken++;
    }
    return taken;
}

/* a has as many transfers as it may. One of its NOTIFIEDs ends in each turn, so its ring is looked
 * at again, but nothing may be taken: it waits for its own ops and for nobody's turn. */
Test(waits, who_waits_for_ops_of_its_own_to_end_holds_up_no_neighbour) {
    enum { TURNS = 400 };
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFIED, .lease = 333};
    uid_ops = 256;
    up(1, TWO_UIDS, 8192, 8192, 8192);
    remote_up();
    unsigned alone = nops_in(TURNS);
    for (unsigned n = 1; n <= TURNS; n++) {
        sqe.timeout_ns = 10 * NSEC_PER_USEC + n * NSEC_PER_USEC;
        rig_put(&a, &sqe);
    }
    hold(&a, 500);
    cr_assert_eq(a.session->op.charged, OPS_AT_ONCE + 256);
    uint32_t waited = a.session->op.waits;
    unsigned beside = nops_in(TURNS);
    cr_assert_gt(waited - a.session->op.waits, TURNS / 2, "none of them has ended");
    cr_assert_gt(beside, 9 * alone / 10, "%u of %u", beside, alone);
    rig_client_down(&a);
    rig_client_down(&b);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}
