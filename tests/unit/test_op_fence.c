/* SPDX-License-Identifier: MIT */
/* What is fenced starts after what came before it, and what waits can end in every way. */
#define BYTES 65536u
#include "tests/unit/op_routes.h"

static void setup(void) {
    routes_up(NULL, 29, 60 * NSEC_PER_SEC);
    rig_grant(&c, 333);
}

TestSuite(fence, .init = setup, .timeout = 60);

static void put(uint8_t opcode, uint64_t lease, uint64_t length, uint8_t flags, uint64_t tag) {
    struct rdmad_sqe sqe = {.opcode = opcode,
                            .flags = flags,
                            .pool = RIG_HANDLE(0),
                            .lease = lease,
                            .length = length,
                            .user_data = tag};
    if (opcode == RDMAD_OP_FADD)
        sqe.pool = 0, sqe.swap = 1, sqe.length = 8, sqe.lease_offset = BYTES - 8;
    rig_put(&c, &sqe);
}

static void put_simple(uint8_t opcode, uint64_t lease, uint64_t tag) {
    struct rdmad_sqe sqe = {.opcode = opcode, .lease = lease, .user_data = tag};
    rig_put(&c, &sqe);
}

static void expect(uint64_t tag, int status) {
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.user_data, tag, "%lu instead of %lu", (unsigned long)cqe.user_data,
                 (unsigned long)tag);
    cr_assert_eq(cqe.status, status, "%lu: %d", (unsigned long)tag, cqe.status);
}

Test(fence, what_is_fenced_sees_all_that_came_before_it) {
    sim_script()->chunk = 512;
    sim_script()->delay_max_ns = 100000;
    for (unsigned round = 0; round < 30; round++) {
        memset(c.pool, (int)round, BYTES);
        put(RDMAD_OP_WRITE, REMOTE, 32768, 0, 1);
        struct rdmad_sqe back = {.opcode = RDMAD_OP_READ,
                                 .flags = RDMAD_SQE_FENCE,
                                 .pool = RIG_HANDLE(0),
                                 .pool_offset = 32768,
                                 .lease = REMOTE,
                                 .length = 32768,
                                 .user_data = 2};
        memset(c.pool + 32768, 0xff, 32768);
        rig_put(&c, &back);
        expect(1, 0);
        expect(2, 0);
        cr_assert_eq(memcmp(c.pool, c.pool + 32768, 32768), 0);
    }
    routes_down();
}

Test(fence, later_ones_start_behind_it_in_their_order) {
    sim_script()->delay_max_ns = 50000;
    put(RDMAD_OP_WRITE, REMOTE, BYTES, 0, 1);
    put(RDMAD_OP_WRITE, LOCAL, 8, RDMAD_SQE_FENCE, 2);
    put(RDMAD_OP_WRITE, LOCAL, 8, RDMAD_SQE_FENCE, 3);
    put(RDMAD_OP_FADD, LOCAL, 8, RDMAD_SQE_FENCE, 4);
    put(RDMAD_OP_READ, LOCAL, 8, RDMAD_SQE_FENCE, 5);
    for (uint64_t n = 1; n <= 5; n++)
        expect(n, 0);
    cr_assert_eq(c.session->op.inflight, 0);
    routes_down();
}

Test(fence, a_fast_one_behind_a_fence_does_not_overtake_it) {
    put(RDMAD_OP_WRITE, REMOTE, BYTES, 0, 1);
    put(RDMAD_OP_WRITE, REMOTE, 8, RDMAD_SQE_FENCE, 2);
    put(RDMAD_OP_WRITE, LOCAL, 8, 0, 3);
    rig_settle(&rig);
    cr_assert_eq(near[0], 0, "it waits behind the fence, too");
    expect(1, 0);
    /* Both may go now; the local one is the faster. */
    expect(3, 0);
    expect(2, 0);
    routes_down();
}

Test(fence, with_nothing_before_it_is_no_fence) {
    put(RDMAD_OP_WRITE, LOCAL, 8, RDMAD_SQE_FENCE, 1);
    expect(1, 0);
    put(RDMAD_OP_WRITE, REMOTE, 8, RDMAD_SQE_FENCE, 2);
    expect(2, 0);
    routes_down();
}

Test(fence, what_waits_for_somebody_else_neither_holds_it_up_nor_waits_for_it) {
    put_simple(RDMAD_OP_NOTIFIED, 333, 1);
    put(RDMAD_OP_WRITE, LOCAL, 8, RDMAD_SQE_FENCE, 2);
    expect(2, 0);
    put(RDMAD_OP_WRITE, REMOTE, BYTES, 0, 3);
    put(RDMAD_OP_WRITE, LOCAL, 8, RDMAD_SQE_FENCE, 4);
    put_simple(RDMAD_OP_NOP, 0, 5);
    rig_settle(&rig);
    expect(5, 0);
    expect(3, 0);
    expect(4, 0);
    nothing_comes_for(NSEC_PER_MSEC);
    routes_down();
}

Test(fence, is_for_its_own_ring) {
    struct rig_client other;
    rig_client_up(&rig, &other, 8, 8, 4096);
    rig_lease_local(&other, LOCAL, 901, near, BYTES, RDMAD_RIGHTS_ALL, remote.deadline_ns, &audit);
    put(RDMAD_OP_WRITE, REMOTE, BYTES, 0, 1);
    rig_settle(&rig);
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_WRITE,
                            .flags = RDMAD_SQE_FENCE,
                            .pool = RIG_HANDLE(0),
                            .lease = LOCAL,
                            .length = 8};
    rig_put(&other, &sqe);
    rig_settle(&rig);
    struct rdmad_cqe cqe;
    cr_assert(rig_take(&other, &cqe));
    struct rig_client second;
    rig_ring_up(&c, &second, 8, 8);
    rig_put(&second, &sqe);
    rig_settle(&rig);
    cr_assert(rig_take(&second, &cqe), "another ring of the same session is another ring");
    expect(1, 0);
    rig_client_down(&other);
    routes_down();
    rig_ring_free(&second);
}

Test(fence, in_a_batch_it_waits_for_the_members_before_it) {
    sim_script()->chunk = 512;
    memset(c.pool, 'x', 100);
    put(RDMAD_OP_WRITE, REMOTE, 100, RDMAD_SQE_MORE, 1);
    memset(c.pool + 100, 0, 100);
    struct rdmad_sqe back = {.opcode = RDMAD_OP_READ,
                             .flags = RDMAD_SQE_FENCE,
                             .pool = RIG_HANDLE(0),
                             .pool_offset = 100,
                             .lease = REMOTE,
                             .length = 100,
                             .user_data = 2};
    rig_put(&c, &back);
    expect(2, 0);
    cr_assert_eq(memcmp(c.pool, c.pool + 100, 100), 0);
    routes_down();
}

/* ---- ends of what waits ------------------------------------------------------------------ */

/* A write that never ends by itself, a fenced op, and one behind it. */
static void three(uint64_t timeout_ns) {
    rig_break(&rig);
    put(RDMAD_OP_WRITE, REMOTE, 8, 0, 1);
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_WRITE,
                            .flags = RDMAD_SQE_FENCE,
                            .pool = RIG_HANDLE(0),
                            .lease = LOCAL,
                            .length = 8,
                            .timeout_ns = timeout_ns,
                            .user_data = 2};
    rig_put(&c, &sqe);
    put(RDMAD_OP_WRITE, LOCAL, 8, 0, 3);
    nothing_comes_for(NSEC_PER_MSEC);
}

Test(fence, the_deadline_of_what_waits_is_kept_and_opens_the_way) {
    uint64_t start = sim_now();
    three(NSEC_PER_SEC);
    expect(2, RDMAD_E_TIMEOUT);
    cr_assert_eq(sim_now(), start + NSEC_PER_SEC);
    expect(3, 0);
    nothing_comes_for(NSEC_PER_MSEC);
    routes_down();
}

Test(fence, what_waits_can_be_canceled) {
    three(0);
    put_simple(RDMAD_OP_CANCEL, 3, 30);
    rig_settle(&rig);
    expect(3, RDMAD_E_CANCELED);
    expect(30, 0);
    put_simple(RDMAD_OP_CANCEL, 1, 10);
    rig_settle(&rig);
    expect(1, RDMAD_E_CANCELED);
    expect(10, 0);
    expect(2, 0);
    cr_assert_eq(near[0], 'p');
    routes_down();
}

Test(fence, a_lease_that_ends_takes_what_waits_with_it) {
    three(0);
    struct rig_answer ended = {0};
    plane_lease_end(c.session, LOCAL, RDMAD_E_LEASE_REVOKED, rig_done, &ended);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    expect(2, RDMAD_E_LEASE_REVOKED);
    expect(3, RDMAD_E_LEASE_REVOKED);
    cr_assert_eq(near[0], 0);
    routes_down();
}

Test(fence, a_lane_dropped_under_what_waits_is_a_lost_peer) {
    put(RDMAD_OP_WRITE, REMOTE, BYTES, 0, 1);
    put(RDMAD_OP_WRITE, REMOTE, 8, RDMAD_SQE_FENCE, 2);
    rig_settle(&rig);
    struct rig_answer dropped = {0};
    plane_lane_drop(remote.lane, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    expect(1, RDMAD_E_PEER_LOST);
    expect(2, RDMAD_E_PEER_LOST);
    rig_client_down(&c);
    struct rig_answer closed = {0};
    plane_window_close(remote.window, RDMAD_E_LEASE_REVOKED, rig_done, &closed);
    cr_assert_eq(rig_await(&rig, &closed), 0);
    rig_down(&rig);
}

Test(fence, pools_rings_and_sessions_take_what_waits_with_them) {
    three(0);
    struct rig_answer pool = {0}, ring = {0};
    plane_pool_drop(c.session, RIG_HANDLE(0), rig_done, &pool);
    cr_assert_eq(rig_await(&rig, &pool), 0);
    for (uint64_t n = 1; n <= 3; n++)
        expect(n, RDMAD_E_CANCELED);
    put_simple(RDMAD_OP_NOTIFIED, 333, 4);
    rig_settle(&rig);
    plane_ring_drop(c.session, RIG_HANDLE(0), rig_done, &ring);
    cr_assert_eq(rig_await(&rig, &ring), 0);
    expect(4, RDMAD_E_CANCELED);
    routes_down();
}

Test(fence, a_session_goes_with_fences_waiting) {
    three(0);
    routes_down();
}

/* ---- many ------------------------------------------------------------------------------------ */

enum { WAITING = 300, CROWD = 8, OF_A_SESSION = 64, OF_ALL = 256, LAST = 8 };

static void setup_many(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.max_session_ops = 512;
    settings.max_uid_ops = settings.max_ops = 1u << 20;
    routes_up(&settings, 29, 60 * NSEC_PER_SEC);
}

TestSuite(many, .init = setup_many, .timeout = 60);

static void deep_client_up(struct rig_client *x) {
    rig_client_up(&rig, x, 512, 512, 4096);
    rig_lease_local(x, LOCAL, 901, near, BYTES, RDMAD_RIGHTS_ALL, remote.deadline_ns, &audit);
    rig_lease(x, &remote, REMOTE, RIG_LEASE, RDMAD_RIGHTS_ALL);
}

static void put_many(struct rig_client *x) {
    struct rdmad_sqe sqe = {
        .opcode = RDMAD_OP_WRITE, .pool = RIG_HANDLE(0), .lease = REMOTE, .length = 4096};
    rig_put(x, &sqe);
    sqe.lease = LOCAL;
    sqe.flags = RDMAD_SQE_FENCE;
    sqe.length = 8;
    for (unsigned i = 0; i < WAITING; i++, sqe.flags = 0)
        rig_put(x, &sqe);
}

static unsigned waiting(const struct rig_client *x) {
    const struct op_ring *r = x->ring->owner;
    unsigned n = 0;
    list_for_each (pos, &r->behind)
        n++;
    return n;
}

static unsigned taken(struct rig_client *x) {
    struct rdmad_cqe cqe;
    unsigned n = 0;
    for (; rig_take(x, &cqe); n++)
        cr_assert_eq(cqe.status, 0);
    return n;
}

/* Fences that open together would else be one turn as long as all that waited. */
Test(many, a_turn_starts_a_bounded_number_and_some_of_each_session) {
    struct rig_client of[CROWD];
    unsigned left[CROWD], done[CROWD] = {0}, all = 0;
    bool closed[CROWD];
    for (unsigned i = 0; i < CROWD; i++) {
        deep_client_up(&of[i]);
        put_many(&of[i]);
    }
    rig_settle(&rig);
    for (unsigned i = 0; i < CROWD; i++)
        cr_assert(closed[i] = (left[i] = waiting(&of[i])) == WAITING);
    for (unsigned turns = 0; all < CROWD * (WAITING + 1); turns++) {
        unsigned started = 0, some = 0;
        cr_assert_lt(turns, 10000);
        sim_advance(1000);
        worker_turn(&rig.plane[THERE]->worker[0], sim_now());
        worker_turn(&rig.plane[HERE]->worker[0], sim_now());
        for (unsigned i = 0; i < CROWD; i++) {
            unsigned now = waiting(&of[i]), got = taken(&of[i]);
            cr_assert_leq(left[i] - now, OF_A_SESSION);
            started += left[i] - now;
            some += closed[i] || left[i] - now >= (left[i] < LAST ? left[i] : LAST);
            closed[i] = now == WAITING && ((struct op_ring *)of[i].ring->owner)->moving;
            left[i] = now;
            done[i] += got;
            all += got;
        }
        cr_assert_leq(started, OF_ALL + CROWD * LAST);
        cr_assert_eq(some, CROWD, "one waits for those of the others");
    }
    for (unsigned i = 0; i < CROWD; i++) {
        cr_assert_eq(done[i], WAITING + 1);
        rig_client_down(&of[i]);
    }
    routes_down();
}

/* They end without being posted, so nothing else keeps the worker awake. */
Test(many, a_broken_chain_is_work_until_its_last_op_has_ended) {
    struct worker *w = &rig.plane[HERE]->worker[0];
    struct rig_client x;
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_WRITE,
                            .flags = RDMAD_SQE_LINK,
                            .pool = RIG_HANDLE(0),
                            .lease = REMOTE,
                            .length = 4096,
                            .user_data = 1};
    deep_client_up(&x);
    rig_put(&x, &sqe);
    sqe.lease = LOCAL;
    for (sqe.user_data = 2; sqe.user_data < WAITING + 2; sqe.user_data++)
        rig_put(&x, &sqe);
    rig_settle(&rig);
    cr_assert_eq(waiting(&x), WAITING);
    rig_put(&x, &(struct rdmad_sqe){.opcode = RDMAD_OP_CANCEL, .lease = 1, .user_data = 1});
    while (waiting(&x) == WAITING) {
        sim_advance(1000);
        worker_turn(&rig.plane[THERE]->worker[0], sim_now());
        worker_turn(w, sim_now());
    }
    for (unsigned left; (left = waiting(&x));) {
        bool works = worker_turn(w, sim_now());
        cr_assert_lt(waiting(&x), left);
        cr_assert(works || !waiting(&x), "it would sleep, with %u to end", waiting(&x));
    }
    rig_client_down(&x);
    routes_down();
}

/* ---- a lease that ends sooner ------------------------------------------------------------------
 */

static unsigned due_until(const struct rig_client *x, uint64_t ns) {
    const struct op_lease *lease = slots_get(&x->session->op.leases, LOCAL);
    unsigned n = 0;
    list_for_each (pos, &lease->ops)
        n += list_entry(pos, struct op, holds_node)->due.at_ns <= ns;
    return n;
}

/* Who renews all the time, to later and to sooner, else makes a turn as long as there are ops. */
Test(many, ops_of_a_lease_that_ends_sooner_hear_of_it_a_few_a_turn) {
    enum { LOOKS = 512, SECONDS = 1, SESSIONS = 6 };
    struct worker *w = &rig.plane[HERE]->worker[0];
    struct rig_client of[SESSIONS];
    uint64_t sooner_ns = sim_now() + SECONDS * NSEC_PER_SEC;
    sim_script()->hold_atomics = true; /* what the others wait for */
    for (unsigned i = 0; i < SESSIONS; i++) {
        deep_client_up(&of[i]);
        struct rdmad_sqe sqe = {.opcode = RDMAD_OP_FADD, .lease = REMOTE, .length = 8, .swap = 1};
        rig_put(&of[i], &sqe);
        sqe = (struct rdmad_sqe){.opcode = RDMAD_OP_WRITE,
                                 .flags = RDMAD_SQE_FENCE,
                                 .pool = RIG_HANDLE(0),
                                 .lease = LOCAL,
                                 .length = 8};
        for (unsigned n = 0; n < WAITING; n++)
            rig_put(&of[i], &sqe);
    }
    rig_settle(&rig);
    for (unsigned i = 0; i < SESSIONS; i++) {
        cr_assert_eq(waiting(&of[i]), WAITING);
        plane_lease_extend(of[i].session, LOCAL, sooner_ns);
    }
    for (unsigned before = 0, all = 0; all < SESSIONS * WAITING; before = all) {
        bool works = worker_turn(w, sim_now());
        all = 0;
        for (unsigned i = 0; i < SESSIONS; i++) {
            unsigned heard = due_until(&of[i], sooner_ns);
            cr_assert(heard, "session %u waits for those of the others", i);
            all += heard;
        }
        cr_assert_leq(all - before, LOOKS);
        cr_assert(works || all == SESSIONS * WAITING, "it would sleep, %u know of it", all);
    }
    rig_run_until(&rig, sooner_ns + NSEC_PER_MSEC);
    for (unsigned i = 0; i < SESSIONS; i++) {
        struct rdmad_cqe cqe;
        unsigned ended = 0;
        for (; rig_take(&of[i], &cqe); ended++)
            cr_assert_eq(cqe.status, RDMAD_E_LEASE_EXPIRED);
        cr_assert_eq(ended, WAITING);
    }
    sim_script()->hold_atomics = false;
    for (unsigned i = 0; i < SESSIONS; i++)
        rig_client_down(&of[i]);
    routes_down();
}
