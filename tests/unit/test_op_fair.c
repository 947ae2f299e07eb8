/* SPDX-License-Identifier: MIT */
/* Nobody waits for somebody else: budgets, backpressure, and ops that take turns. */
#include "common/ringword.h"
#include "daemon/op/engine/user.h"
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define BYTES (8u << 20)
#define REMOTE RIG_HANDLE(3)
#define LOCAL RIG_HANDLE(5)

static struct rig rig;
static struct rig_client c, d;
static struct rig_remote remote;
static uint8_t far[BYTES], near[BYTES];
static struct fabric_audit audit;

static void leases(struct rig_client *who) {
    rig_lease(who, &remote, REMOTE, 900, RDMAD_RIGHTS_ALL);
    rig_lease_local(who, LOCAL, 901, near, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &audit);
}

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.max_session_ops = 16;
    rig_up(&rig, &settings, 21);
    rig_client_up(&rig, &c, 256, 256, BYTES);
    rig_client_up(&rig, &d, 64, 64, BYTES);
    rig_remote_up(&rig, &remote, far, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER);
    leases(&c);
    leases(&d);
}

TestSuite(fair, .init = setup, .timeout = 60);

static void down(void) {
    rig_client_down(&c);
    rig_client_down(&d);
    rig_remote_down(&rig, &remote);
    cr_assert_eq(rig.violated, 0);
    rig_down(&rig);
}

static struct rdmad_sqe write_of(uint64_t lease, uint64_t length) {
    return (struct rdmad_sqe){
        .opcode = RDMAD_OP_WRITE, .pool = RIG_HANDLE(0), .lease = lease, .length = length};
}

static void put_many(struct rig_client *who, struct rdmad_sqe sqe, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        sqe.user_data = i;
        rig_put(who, &sqe);
    }
}

static unsigned take_all(struct rig_client *who) {
    unsigned count = 0;
    for (struct rdmad_cqe cqe; rig_take(who, &cqe); count++)
        cr_assert_eq(cqe.status, 0);
    return count;
}

static void small_beside_huge(uint64_t lease, uint64_t within_ns) {
    struct rdmad_sqe huge = write_of(lease, BYTES), small = write_of(lease, 64);
    for (int i = 0; i < 4; i++)
        rig_put(&c, &huge);
    worker_turn(&rig.plane[HERE]->worker[0], sim_now());
    uint64_t start = sim_now();
    rig_put(&d, &small);
    struct rdmad_cqe cqe;
    while (!rig_take(&d, &cqe)) {
        unsigned turns = worker_turn(&rig.plane[HERE]->worker[0], sim_now());
        worker_turn(&rig.plane[THERE]->worker[0], sim_now());
        if (!turns)
            sim_advance(100);
        cr_assert_leq(sim_now() - start, within_ns);
        cr_assert_not(rig_take(&c, &cqe), "a huge one was first");
    }
    cr_assert_eq(cqe.status, 0);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(rig_wait(&c).status, 0);
}

Test(fair, a_small_op_completes_while_huge_ones_run_locally) {
    small_beside_huge(LOCAL, 0);
    down();
}

Test(fair, a_small_op_completes_while_huge_ones_run_over_a_link) {
    sim_script()->max_inflight = 64;
    small_beside_huge(REMOTE, 20000);
    sim_script()->max_inflight = 4; /* a link that is full serves ops in turn, too */
    small_beside_huge(REMOTE, 40000);
    down();
}

Test(fair, two_large_ops_share_a_full_link) {
    sim_script()->max_inflight = 4;
    struct rdmad_sqe sqe = write_of(REMOTE, BYTES / 2);
    memset(c.pool, 'c', BYTES);
    memset(far, 'f', BYTES);
    rig_put(&c, &sqe);
    sqe.lease_offset = BYTES / 2;
    rig_put(&c, &sqe);
    while (c.daemon->cq_tail == 0)
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_SEC));
    cr_assert_eq(far[BYTES / 4], 'c');
    cr_assert_eq(far[BYTES / 2 + BYTES / 4], 'c', "the other is at least half done as well");
    rig_wait(&c);
    rig_wait(&c);
    down();
}

Test(fair, a_session_with_one_large_op_has_as_much_of_a_link_as_one_with_many) {
    sim_script()->max_inflight = 4;
    rig_lease(&c, &remote, REMOTE + 1, 902, RDMAD_RIGHTS_ALL); /* nor do more leases help it */
    for (unsigned i = 0; i < 15; i++) {
        struct rdmad_sqe many = write_of(REMOTE + i % 2, 1 << 20);
        rig_put(&c, &many);
    }
    rig_settle(&rig);
    struct rdmad_sqe one = write_of(REMOTE, 1 << 20);
    rig_put(&d, &one);
    while (d.daemon->cq_tail == 0)
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_SEC));
    cr_assert_geq(remote.audit.bytes_written, 2u * (1 << 20) - 100000, "it got more than its half");
    cr_assert_leq(remote.audit.bytes_written, 2u * (1 << 20) + 100000, "it got less");
    cr_assert_eq(take_all(&d), 1);
    for (unsigned taken = 0; taken < 15; taken++)
        cr_assert_eq(rig_wait(&c).status, 0);
    down();
}

Test(fair, an_op_keeps_a_bounded_number_of_parts_in_flight) {
    sim_script()->max_inflight = 1000;
    struct rdmad_sqe huge = write_of(REMOTE, BYTES);
    rig_put(&c, &huge);
    rig_settle(&rig);
    cr_assert_eq(sim_inflight(), OP_MAX_PARTS);
    rig_put(&c, &huge);
    rig_settle(&rig);
    cr_assert_eq(sim_inflight(), 2 * OP_MAX_PARTS);
    down();
}

Test(fair, sqes_beyond_the_sessions_limit_wait_in_the_ring) {
    put_many(&c, write_of(REMOTE, 64), 40);
    rig_settle(&rig);
    cr_assert_eq(c.daemon->sq_head, 16);
    struct op_ring *waiting = c.ring->owner;
    cr_assert_not(list_empty(&waiting->session->throttled), "nobody polls it meanwhile");
    cr_assert_eq(plane_session_stats(c.session)->ops_inflight, 16);
    put_many(&d, write_of(LOCAL, 64), 1);
    rig_settle(&rig);
    cr_assert_eq(take_all(&d), 1, "it is the session's limit, not everybody's");
    unsigned taken = 0;
    while (taken < 40) {
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_SEC));
        cr_assert_leq(plane_session_stats(c.session)->ops_inflight, 16);
        taken += take_all(&c);
    }
    down();
}

Test(fair, a_client_that_does_not_reap_waits_alone) {
    put_many(&d, write_of(LOCAL, 64), 60);
    rig_run_until(&rig, sim_now() + 1000);
    cr_assert_eq(d.daemon->sq_head, 60);
    put_many(&d, write_of(LOCAL, 64), 60);
    rig_run_until(&rig, sim_now() + 1000);
    cr_assert_eq(d.daemon->sq_head, 64, "no more than the cq has places for");
    put_many(&c, write_of(LOCAL, 64), 3);
    rig_settle(&rig);
    cr_assert_eq(take_all(&c), 3);
    for (unsigned taken = 0; taken < 120; rig_settle(&rig)) {
        unsigned now = take_all(&d);
        cr_assert_gt(now, 0);
        taken += now;
    }
    down();
}

Test(fair, a_full_ring_is_not_served_whole_before_the_next) {
    put_many(&c, (struct rdmad_sqe){.opcode = RDMAD_OP_NOP}, 200);
    put_many(&d, (struct rdmad_sqe){.opcode = RDMAD_OP_NOP}, 1);
    worker_turn(&rig.plane[HERE]->worker[0], sim_now());
    cr_assert_eq(take_all(&d), 1, "in the same turn");
    unsigned first = take_all(&c);
    cr_assert(first > 0 && first <= 64);
    rig_settle(&rig);
    cr_assert_eq(take_all(&c), 200 - first);
    down();
}

Test(fair, a_full_link_is_tried_again_when_its_fabric_moves) {
    struct rig_remote second;
    sim_script()->max_inflight = 0;
    put_many(&c, write_of(REMOTE, 64), 1);
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    cr_assert_eq(take_all(&c), 0);
    sim_script()->max_inflight = 4;
    rig_remote_up(&rig, &second, far, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER);
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    cr_assert_eq(take_all(&c), 1);
    rig_remote_down(&rig, &second);
    down();
}

Test(fair, a_busy_worker_sees_parked_rings_by_itself) {
    struct worker *w = &rig.plane[HERE]->worker[0];
    cr_assert(rings_park(w, c.ring->owner));
    cr_assert(rings_park(w, d.ring->owner));
    cr_assert_eq(d.daemon->sq_wait, 1);
    put_many(&d, write_of(LOCAL, 64), 1);
    worker_turn(w, sim_now());
    cr_assert_eq(take_all(&d), 1);
    cr_assert_eq(d.daemon->sq_wait, 0);
    cr_assert_eq(c.daemon->sq_wait, 1, "the other one sleeps on");
    down();
}

/* Each look is at memory that the client writes, so a thousand of them take longer than what the
 * others have to do. */
Test(fair, a_turn_looks_at_few_quiet_rings_and_none_keeps_others_from_being_seen) {
    enum { IDLE = 64, LOOKS = 32, SESSIONS = 3 };
    struct worker *w = &rig.plane[HERE]->worker[0];
    struct rig_client idle[IDLE], more[IDLE], second, other, *last = idle;
    rig_client_up(&rig, &second, 8, 0, 4096);
    for (unsigned i = 0; i < IDLE; i++) {
        rig_ring_up(&c, &idle[i], 8, 0);
        rig_ring_up(&second, &more[i], 8, 0);
    }
    rig.uid++;
    rig_client_up(&rig, &other, 8, 0, 4096);
    worker_turn(w, sim_now());
    const struct op_ring *first = idle[0].ring->owner;
    const struct op_session *s = first->session;
    while (last->ring->owner != list_entry(s->quiet.prev, struct op_ring, node))
        cr_assert_lt(++last - idle, IDLE);

    const struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};
    unsigned after = 0;
    rig_put(last, &nop);
    for (unsigned turn = 1; turn <= 24; turn++) {
        bool puts = turn % 3 == 0; /* so that its ring is quiet again */
        rig_put(&other, &nop);
        if (puts)
            rig_put(&d, &nop);
        worker_turn(w, sim_now());
        cr_assert_eq(take_all(&other), 1, "another user's ring is seen each turn");
        cr_assert_eq(take_all(&d), puts, "and that of another session");
        if (take_all(last))
            after = turn;
    }
    cr_assert_gt(after, IDLE / LOOKS, "all were looked at at once");
    cr_assert_leq(after, SESSIONS * (IDLE + 1) / LOOKS + 1, "it comes after the others");
    rig_client_down(&other);
    rig_client_down(&second);
    down();
    for (unsigned i = 0; i < IDLE; i++) {
        rig_ring_free(&idle[i]);
        rig_ring_free(&more[i]);
    }
}

Test(fair, more_sessions_than_looks_are_seen_in_turns) {
    enum { SESSIONS = 40 };
    struct rig_client of[SESSIONS];
    for (unsigned i = 0; i < SESSIONS; i++)
        rig_client_up(&rig, &of[i], 8, 0, 4096);
    rig_settle(&rig);
    for (unsigned i = 0; i < SESSIONS; i++) {
        put_many(&of[i], (struct rdmad_sqe){.opcode = RDMAD_OP_NOP}, 1);
        worker_turn(&rig.plane[HERE]->worker[0], sim_now());
        worker_turn(&rig.plane[HERE]->worker[0], sim_now());
        cr_assert_eq(take_all(&of[i]), 1, "session %u", i);
    }
    for (unsigned i = 0; i < SESSIONS; i++)
        rig_client_down(&of[i]);
    down();
}

/* Its user is ahead of the others, who have gone: nobody moves the floor but who is seen to wait.
 */
Test(fair, a_ring_behind_quiet_ones_is_seen_though_its_user_has_no_turn) {
    enum { IDLE = 70 };
    struct worker *w = &rig.plane[HERE]->worker[0];
    struct rig_client idle[IDLE];
    for (unsigned i = 0; i < IDLE; i++)
        rig_ring_up(&c, &idle[i], 8, 0);
    rig_settle(&rig);
    const struct op_ring *r = idle[0].ring->owner;
    struct op_user *u = r->session->user;
    for (unsigned i = 0; i < IDLE; i++) {
        u->vtime = w->limit + (8ull * USER_TURN_COST << 16) / u->weight;
        put_many(&idle[i], (struct rdmad_sqe){.opcode = RDMAD_OP_NOP}, 1);
        unsigned turns = 0;
        for (; !take_all(&idle[i]); turns++) {
            cr_assert_leq(turns, 16);
            worker_turn(w, sim_now());
        }
    }
    down();
    for (unsigned i = 0; i < IDLE; i++)
        rig_ring_free(&idle[i]);
}

/* A ring gives 64 sqes a turn, and that must not be all that its user may have. */
Test(fair, one_deep_ring_gets_as_much_as_four) {
    struct worker *w = &rig.plane[HERE]->worker[0];
    struct rig_client other, ring[3];
    rig.uid++;
    rig_client_up(&rig, &other, 64, 0, 4096);
    for (unsigned i = 0; i < 3; i++)
        rig_ring_up(&other, &ring[i], 64, 0);
    unsigned of_one = 0, of_four = 0;
    for (unsigned turn = 0; turn < 400; turn++) {
        put_many(&c, (struct rdmad_sqe){.opcode = RDMAD_OP_NOP}, 256 - (c.sq_tail - c.cq_head));
        for (unsigned i = 0; i < 4; i++) {
            struct rig_client *r = i ? &ring[i - 1] : &other;
            put_many(r, (struct rdmad_sqe){.opcode = RDMAD_OP_NOP}, 64 - (r->sq_tail - r->cq_head));
        }
        worker_turn(w, sim_now());
        of_one += take_all(&c);
        of_four += take_all(&other);
        for (unsigned i = 0; i < 3; i++)
            of_four += take_all(&ring[i]);
    }
    cr_assert(of_one > 0.95 * of_four && of_one < 1.05 * of_four, "%u and %u", of_one, of_four);
    rig_settle(&rig);
    rig_client_down(&other);
    down();
    for (unsigned i = 0; i < 3; i++)
        rig_ring_free(&ring[i]);
}

Test(fair, clients_are_told_whether_it_is_crowded_with_what_they_wait_for) {
    struct worker *w = &rig.plane[HERE]->worker[0];
    struct rig_client third;
    rdmad_crowd_doubt(&w->spin.crowd);
    put_many(&c, write_of(LOCAL, 64), 1);
    worker_turn(w, sim_now());
    cr_assert_eq(take_all(&c), 1);
    cr_assert_eq(c.daemon->crowded, 1);
    cr_assert_eq(d.daemon->crowded, 0, "it is asleep, and told when there is something");
    rig_ring_up(&d, &third, 8, 0);
    cr_assert_eq(third.daemon->crowded, 1, "who is new is told at once");
    w->spin.crowd.crowded = false;
    put_many(&c, write_of(LOCAL, 64), 1);
    worker_turn(w, sim_now());
    cr_assert_eq(take_all(&c), 1);
    cr_assert_eq(c.daemon->crowded, 0);
    down();
    rig_ring_free(&third);
}

Test(fair, counters_add_up) {
    put_many(&c, write_of(LOCAL, 100), 5);
    put_many(&d, write_of(REMOTE, 10000), 2);
    struct rdmad_sqe bad = write_of(0, 1);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    cr_assert_eq(take_all(&c), 5);
    cr_assert_eq(take_all(&d), 2);
    cr_assert_eq(rig_do(&c, &bad).status, RDMAD_E_NO_LEASE);
    struct plane_counters counters;
    plane_count(rig.plane[HERE], &counters);
    cr_assert_eq(counters.ops, 8);
    cr_assert_eq(counters.ops_failed, 1);
    cr_assert_eq(counters.ops_inflight, 0);
    cr_assert_eq(counters.bytes_written, 20500);
    const struct plane_session_stats *stats = plane_session_stats(d.session);
    cr_assert(stats->ops == 2 && stats->bytes_written == 20000 && stats->bytes_read == 0);
    down();
}
