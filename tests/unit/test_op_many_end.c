/* SPDX-License-Identifier: MIT */
/* The end of a lease or pool that very many ops are on: told late, and never in one long turn. */
#define BYTES (1u << 20)
#include "tests/unit/op_routes.h"

enum { MANY = 2000, OF_A_SESSION = 256, OF_ALL = 1024, LAST = 32, OF_A_ROUTE = 256 };

static struct worker *w;

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.max_session_ops = 4096;
    settings.max_uid_ops = settings.max_ops = 1u << 20;
    routes_up(&settings, 31, 60 * NSEC_PER_SEC);
    w = c.session->op.worker;
}

TestSuite(many_end, .init = setup, .timeout = 60);

static void lessee_up(struct rig_client *x) {
    rig_client_up(&rig, x, 4096, 4096, BYTES);
    rig_lease_local(x, LOCAL, 901, near, BYTES, RDMAD_RIGHTS_ALL, remote.deadline_ns, &audit);
    rig_lease(x, &remote, REMOTE, RIG_LEASE, RDMAD_RIGHTS_ALL);
    memset(x->pool, 'p', BYTES);
}

static void put_many(struct rig_client *x, unsigned count, uint8_t opcode, uint64_t lease,
                     uint64_t length, uint8_t flags) {
    const struct rdmad_sqe sqe = {
        .opcode = opcode, .flags = flags, .pool = RIG_HANDLE(0), .lease = lease, .length = length};
    while (count--)
        rig_put(x, &sqe);
}

static const struct op_lease *lease_of(const struct rig_client *x, uint64_t handle) {
    return slots_get(&x->session->op.leases, handle);
}

/* As many completions came, all with that status. */
static void all_ended(struct rig_client *x, unsigned count, int status) {
    struct rdmad_cqe cqe;
    unsigned n = 0;
    for (; rig_take(x, &cqe); n++)
        cr_assert_eq(cqe.status, status, "number %u: %d", n, cqe.status);
    cr_assert_eq(n, count);
}

/* What waits on a link that takes none, with a lease that its owner ended, or that expired. */
Test(many_end, a_turn_ends_a_bounded_number_of_its_ops_and_a_neighbour_is_served) {
    const struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};
    static const int reasons[] = {RDMAD_E_LEASE_REVOKED, RDMAD_E_LEASE_EXPIRED};
    struct rig_client x;
    struct rdmad_cqe cqe;
    lessee_up(&x);
    sim_script()->max_inflight = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct rig_answer ended = {0};
        uint64_t handle = RIG_HANDLE(10 + i);
        rig_lease(&x, &remote, handle, RIG_LEASE, RDMAD_RIGHTS_ALL);
        put_many(&x, MANY, RDMAD_OP_WRITE, handle, 8, 0);
        rig_settle(&rig);
        const struct op_lease *lease = lease_of(&x, handle);
        cr_assert_eq(lease->inflight, MANY);
        plane_lease_end(x.session, handle, reasons[i], rig_done, &ended);
        for (uint32_t left = MANY, turns = 0; !ended.done; left = lease->inflight, turns++) {
            rig_put(&c, &nop);
            unsigned work = worker_turn(w, sim_now());
            cr_assert(rig_take(&c, &cqe), "a neighbour is not served");
            cr_assert_leq(left - lease->inflight, OF_A_SESSION + OF_A_ROUTE);
            cr_assert(work || !lease->inflight, "it would sleep on %u", lease->inflight);
            mailbox_drain(&rig.control);
            cr_assert(!ended.done || !lease->inflight, "%u are left", lease->inflight);
            cr_assert_leq(turns, MANY / OF_A_SESSION + 1);
        }
        all_ended(&x, MANY, reasons[i]);
    }
    rig_client_down(&x);
    routes_down();
}

/* One lease, of which each of these sessions has a handle. */
Test(many_end, lessees_that_all_end_share_a_turn_and_none_waits_for_the_others) {
    enum { LESSEES = 12, EACH = 500 };
    static struct rig_client of[LESSEES];
    struct rig_answer ended[LESSEES] = {{0}};
    unsigned before = LESSEES * EACH, left;
    sim_script()->max_inflight = 0;
    for (unsigned i = 0; i < LESSEES; i++) {
        lessee_up(&of[i]);
        put_many(&of[i], EACH, RDMAD_OP_WRITE, REMOTE, 8, 0);
    }
    rig_settle(&rig);
    for (unsigned i = 0; i < LESSEES; i++)
        plane_lease_end(of[i].session, REMOTE, RDMAD_E_LEASE_REVOKED, rig_done, &ended[i]);
    for (;; before = left) {
        worker_turn(w, sim_now());
        left = 0;
        for (unsigned i = 0; i < LESSEES; i++) {
            unsigned has = lease_of(&of[i], REMOTE)->inflight;
            cr_assert_lt(has, EACH, "session %u waits for those of the others", i);
            left += has;
        }
        cr_assert_leq(before - left, OF_ALL + LAST * LESSEES + OF_A_ROUTE);
        if (!left)
            break;
        cr_assert_lt(left, before);
    }
    rig_settle(&rig);
    for (unsigned i = 0; i < LESSEES; i++) {
        cr_assert(ended[i].done);
        all_ended(&of[i], EACH, RDMAD_E_LEASE_REVOKED);
        rig_client_down(&of[i]);
    }
    routes_down();
}

/* Those whose turn it is not to end yet must not take the places on the link of those that do. */
Test(many_end, nothing_more_is_posted_of_a_lease_that_has_ended) {
    enum { PLACES = 16, LENGTH = 64 };
    struct rig_client x;
    struct rig_answer ended = {0};
    lessee_up(&x);
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = NSEC_PER_MSEC;
    sim_script()->max_inflight = PLACES;
    put_many(&x, MANY, RDMAD_OP_WRITE, REMOTE, LENGTH, 0);
    rig_settle(&rig);
    cr_assert_eq(sim_inflight(), PLACES);
    plane_lease_end(x.session, REMOTE, RDMAD_E_LEASE_EXPIRED, rig_done, &ended);
    while (!ended.done) {
        worker_turn(w, sim_now());
        mailbox_drain(&rig.control);
        sim_advance(2 * NSEC_PER_MSEC);
    }
    cr_assert_eq(remote.audit.bytes_written, 0, "those that had places were taken back at once");
    rig_client_down(&x);
    routes_down();
}

/* Of two that end, the first keeps the turn busy. */
Test(many_end, memory_of_this_daemon_is_out_of_reach_from_the_first_moment) {
    struct rig_client x;
    struct rig_answer ended[2] = {{0}};
    struct rdmad_cqe cqe;
    lessee_up(&x);
    sim_script()->max_inflight = 0;
    put_many(&x, MANY, RDMAD_OP_WRITE, REMOTE, 8, 0);
    rig_settle(&rig);
    put_many(&x, 100, RDMAD_OP_WRITE, LOCAL, BYTES, 0);
    worker_turn(w, sim_now());
    worker_turn(w, sim_now());
    const struct op_lease *lease = lease_of(&x, LOCAL);
    cr_assert_eq(near[0], 'p');
    cr_assert_gt(lease->inflight, 50);
    memset(near, 'n', BYTES);
    plane_lease_end(x.session, REMOTE, RDMAD_E_LEASE_REVOKED, rig_done, &ended[0]);
    plane_lease_end(x.session, LOCAL, RDMAD_E_LEASE_REVOKED, rig_done, &ended[1]);
    worker_turn(w, sim_now());
    cr_assert_not(lease->window, "its second wall is open");
    while (!ended[0].done || !ended[1].done) {
        worker_turn(w, sim_now());
        mailbox_drain(&rig.control);
    }
    for (unsigned n = 0; n < MANY + 100; n++) {
        cr_assert(rig_take(&x, &cqe), "%u came", n);
        cr_assert(!cqe.status || cqe.status == RDMAD_E_LEASE_REVOKED, "%d", cqe.status);
    }
    cr_assert(near[0] == 'n' && !memcmp(near, near + 1, BYTES - 1), "written after the end");
    rig_client_down(&x);
    routes_down();
}

/* More than one turn has time for are posted, and no answer comes. */
Test(many_end, all_that_may_still_land_is_waited_for_a_moment_only) {
    enum { POSTED = 600 };
    struct rig_client x;
    struct rig_answer ended = {0};
    lessee_up(&x);
    sim_script()->max_inflight = POSTED;
    sim_script()->lose_answer_ppm = 1000000;
    put_many(&x, POSTED, RDMAD_OP_WRITE, REMOTE, 64, 0);
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    cr_assert_eq(sim_inflight(), POSTED);
    uint64_t start = sim_now();
    plane_lease_end(x.session, REMOTE, RDMAD_E_LEASE_REVOKED, rig_done, &ended);
    rig_settle(&rig);
    cr_assert_eq(sim_inflight(), POSTED, "they may land");
    cr_assert_eq(rig_await(&rig, &ended), 0);
    cr_assert_leq(sim_now() - start, NSEC_PER_SEC / 10 + NSEC_PER_MSEC);
    all_ended(&x, POSTED, RDMAD_E_LEASE_REVOKED);
    rig_client_down(&x);
    routes_down();
}

/* The fence opens while the lease ends: what comes from behind it does not begin any more, so none
 * is refused for a reason of its own. */
Test(many_end, what_a_fence_lets_go_meanwhile_ends_with_the_same_reason) {
    enum { BEHIND = 1000, OTHER = 12 };
    struct rig_client x, owner;
    struct rig_remote notified;
    struct rig_answer ended = {0};
    struct rdmad_cqe cqe;
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_FADD, .lease = REMOTE, .length = 8, .user_data = 1};
    lessee_up(&x);
    rig_client_on(&rig, THERE, &owner, 8, 8, BYTES);
    rig_grant(&owner, 950);
    const struct plane_window_notify notify = {.ref = 77, .owner = owner.session, .lease_id = 950};
    rig_remote_notifies(&rig, &notified, owner.pool, BYTES, RDMAD_RIGHTS_ALL, remote.deadline_ns,
                        &notify);
    rig_lease(&x, &notified, RIG_HANDLE(OTHER), 950, RDMAD_RIGHTS_ALL);
    rig_break(&rig);
    rig_put(&x, &sqe);
    put_many(&x, 1, RDMAD_OP_NOTIFY, RIG_HANDLE(OTHER), 8, RDMAD_SQE_FENCE);
    put_many(&x, BEHIND - 1, RDMAD_OP_NOTIFY, RIG_HANDLE(OTHER), 8, 0);
    rig_settle(&rig);
    cr_assert_eq(lease_of(&x, RIG_HANDLE(OTHER))->inflight, BEHIND);
    sqe = (struct rdmad_sqe){.opcode = RDMAD_OP_CANCEL, .lease = 1, .user_data = 2};
    rig_put(&x, &sqe);
    plane_lease_end(x.session, RIG_HANDLE(OTHER), RDMAD_E_LEASE_EXPIRED, rig_done, &ended);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    for (unsigned n = 0; n < BEHIND + 2; n++) {
        cr_assert(rig_take(&x, &cqe), "%u came", n);
        if (!cqe.user_data)
            cr_assert_eq(cqe.status, RDMAD_E_LEASE_EXPIRED, "number %u: %d", n, cqe.status);
    }
    rig_client_down(&x);
    rig_remote_down(&rig, &notified);
    rig_client_down(&owner);
    routes_down();
}

/* A pool's transfers are found among all others of their session, of any ring. */
Test(many_end, a_turn_looks_at_a_bounded_number_of_ops_for_pools_that_go) {
    struct rig_client x, second;
    struct rig_answer added = {0}, gone[2] = {{0}};
    struct rdmad_sqe sqe = {
        .opcode = RDMAD_OP_WRITE, .pool = RIG_HANDLE(1), .lease = REMOTE, .length = 8};
    const struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};
    struct rdmad_cqe cqe;
    lessee_up(&x);
    rig_ring_up(&x, &second, 4096, 4096);
    plane_pool_add(x.session, RIG_HANDLE(1), x.pool, BYTES, NULL, rig_done, &added);
    cr_assert_eq(rig_await(&rig, &added), 0);
    sim_script()->max_inflight = 0;
    for (unsigned i = 0; i < MANY / 2; i++) {
        sqe.pool = RIG_HANDLE(i % 2);
        rig_put(&x, &sqe);
        rig_put(&second, &sqe);
    }
    rig_settle(&rig);
    const struct op_session *s = &x.session->op;
    cr_assert_eq(s->inflight, MANY);
    plane_pool_drop(x.session, RIG_HANDLE(1), rig_done, &gone[0]);
    for (uint32_t left = MANY, turns = 0; !gone[0].done || !gone[1].done; left = s->inflight) {
        rig_put(&c, &nop);
        unsigned work = worker_turn(w, sim_now());
        cr_assert(rig_take(&c, &cqe), "a neighbour is not served");
        cr_assert_leq(left - s->inflight, OF_A_SESSION);
        cr_assert(work || !s->inflight, "it would sleep on %u", s->inflight);
        mailbox_drain(&rig.control);
        if (++turns == 2)
            plane_pool_drop(x.session, RIG_HANDLE(0), rig_done, &gone[1]);
        cr_assert_leq(turns, 4 * MANY / OF_A_SESSION);
    }
    all_ended(&x, MANY / 2, RDMAD_E_CANCELED);
    all_ended(&second, MANY / 2, RDMAD_E_CANCELED);
    rig_client_down(&x);
    rig_ring_free(&second);
    routes_down();
}

/* What comes from behind it does not begin any more. A SEND is made anew then, and would not be
 * looked at again. */
Test(many_end, a_pool_goes_though_a_fence_opens_meanwhile) {
    enum { BEHIND = 1000 };
    struct rig_client x;
    struct rig_answer gone = {0};
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_FADD, .lease = REMOTE, .length = 8, .user_data = 1};
    struct rdmad_cqe cqe;
    lessee_up(&x);
    sim_script()->hold_atomics = true;
    rig_put(&x, &sqe);
    put_many(&x, 1, RDMAD_OP_WRITE, LOCAL, 8, RDMAD_SQE_FENCE);
    put_many(&x, BEHIND - 1, RDMAD_OP_WRITE, LOCAL, 8, 0);
    rig_settle(&rig);
    sqe = (struct rdmad_sqe){.opcode = RDMAD_OP_CANCEL, .lease = 1, .user_data = 2};
    rig_put(&x, &sqe);
    plane_pool_drop(x.session, RIG_HANDLE(0), rig_done, &gone);
    cr_assert_eq(rig_await(&rig, &gone), 0);
    for (unsigned n = 0; n < BEHIND + 2; n++) {
        cr_assert(rig_take(&x, &cqe), "%u came", n);
        cr_assert(cqe.status == RDMAD_E_CANCELED || cqe.user_data, "number %u: %d", n, cqe.status);
    }
    cr_assert_eq(near[0], 0, "its bytes were read when it was gone");
    rig_client_down(&x);
    routes_down();
}
