/* SPDX-License-Identifier: MIT */
/* Many entries, one completion; or none at all, for the silent. */
#define BYTES 65536u
#include "tests/unit/op_routes.h"
#define READ_ONLY RIG_HANDLE(4)

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.max_session_ops = 4096;
    routes_up(&settings, 23, 60 * NSEC_PER_SEC);
    rig_lease(&c, &remote, READ_ONLY, 902, RDMAD_RIGHT_READ);
}

TestSuite(batch, .init = setup, .timeout = 60);

static struct rdmad_sqe write_of(uint64_t lease, uint64_t at, uint64_t length, uint8_t flags) {
    return (struct rdmad_sqe){.opcode = RDMAD_OP_WRITE,
                              .flags = flags,
                              .pool = RIG_HANDLE(0),
                              .pool_offset = at,
                              .lease = lease,
                              .lease_offset = at,
                              .length = length,
                              .user_data = at + 1};
}

static void put(uint64_t lease, uint64_t at, uint64_t length, uint8_t flags) {
    struct rdmad_sqe sqe = write_of(lease, at, length, flags);
    rig_put(&c, &sqe);
    rig_settle(&rig);
}

/* No cqe stays promised to anybody, and everybody gets the next. */
static void all_is_given_back(void) {
    cr_assert_eq(c.ring->cq_reserved, 0);
    cr_assert_eq(c.session->op.inflight, 0);
    struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP, .user_data = 4242};
    cr_assert_eq(rig_do(&c, &nop).user_data, 4242);
}

static const uint64_t routes[] = {REMOTE, LOCAL};

Test(batch, has_one_completion_which_comes_when_the_last_has_ended) {
    sim_script()->delay_max_ns = 100000; /* they end in any order */
    for (size_t i = 0; i < 2; i++) {
        uint8_t *target = routes[i] == REMOTE ? far : near;
        for (unsigned n = 0; n < 40; n++)
            put(routes[i], 100 * n, 100, n < 39 ? RDMAD_SQE_MORE : 0);
        struct rdmad_cqe cqe = rig_wait(&c);
        cr_assert_eq(cqe.status, 0);
        cr_assert_eq(cqe.outcome, RDMAD_DONE);
        cr_assert_eq(cqe.user_data, 3901);
        cr_assert_eq(cqe.opcode, RDMAD_OP_WRITE);
        cr_assert_eq(cqe.bytes, 4000);
        cr_assert_eq(memcmp(target, c.pool, 4000), 0, "it came before the bytes");
        nothing_comes_for(NSEC_PER_SEC);
        all_is_given_back();
    }
    routes_down();
}

Test(batch, that_is_not_complete_waits_without_harm) {
    for (unsigned n = 0; n < 500; n++) { /* more than there are cqes */
        put(LOCAL, n, 1, RDMAD_SQE_MORE);
        cr_assert_eq(c.ring->cq_reserved, 0, "it promises nobody anything");
    }
    nothing_comes_for(NSEC_PER_SEC);
    put(LOCAL, 500, 1, 0);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.status, 0);
    cr_assert_eq(cqe.bytes, 501);
    all_is_given_back();
    routes_down();
}

Test(batch, status_is_of_the_first_that_failed_and_the_others_run) {
    put(LOCAL, 0, 10, RDMAD_SQE_MORE);
    put(READ_ONLY, 100, 10, RDMAD_SQE_MORE);      /* refused at once */
    put(RIG_HANDLE(99), 200, 10, RDMAD_SQE_MORE); /* likewise, but later */
    put(REMOTE, 300, 10, RDMAD_SQE_MORE);
    put(LOCAL, 400, 10, 0);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.status, RDMAD_E_RIGHTS);
    cr_assert_eq(cqe.lease_id, 902);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_PARTIAL);
    cr_assert_eq(cqe.bytes, 30);
    cr_assert(near[0] == 'p' && far[300] == 'p' && near[400] == 'p' && far[100] == 0);
    nothing_comes_for(NSEC_PER_SEC);
    all_is_given_back();
    routes_down();
}

Test(batch, first_is_by_the_rings_order_not_by_time) {
    sim_script()->refuse_ppm = 1000000;
    sim_script()->refuse_status = RDMAD_E_LEASE_REVOKED;
    put(REMOTE, 0, 10, RDMAD_SQE_MORE);         /* fails later */
    put(RIG_HANDLE(99), 0, 10, RDMAD_SQE_MORE); /* fails at once */
    put(RIG_HANDLE(99), 0, 10, 0);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.status, RDMAD_E_LEASE_REVOKED);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(cqe.bytes, 0);
    routes_down();
}

Test(batch, of_which_nobody_knows_is_unknown) {
    sim_script()->lose_answer_ppm = 1000000;
    put(REMOTE, 0, 10, RDMAD_SQE_MORE);
    put(LOCAL, 100, 10, 0);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.status, RDMAD_E_TIMEOUT);
    cr_assert_eq(cqe.outcome, RDMAD_UNKNOWN);
    routes_down();
}

Test(batch, ends_where_the_client_put_its_end_whatever_is_wrong_with_it) {
    static const uint8_t opcodes[] = {RDMAD_OP_NOP,  RDMAD_OP_CAS,      RDMAD_OP_FADD,
                                      RDMAD_OP_RECV, RDMAD_OP_NOTIFIED, RDMAD_OP_CANCEL,
                                      0xff};
    for (size_t i = 0; i < sizeof(opcodes); i++) {
        struct rdmad_sqe last = {.opcode = opcodes[i], .user_data = 77};
        bool atomic = opcodes[i] == RDMAD_OP_CAS || opcodes[i] == RDMAD_OP_FADD;
        if (atomic)
            last.lease = LOCAL, last.length = 8;
        if (opcodes[i] == RDMAD_OP_RECV)
            last.pool = RIG_HANDLE(0);
        put(LOCAL, 0, 10, RDMAD_SQE_MORE);
        rig_put(&c, &last);
        struct rdmad_cqe cqe = rig_wait(&c);
        cr_assert_eq(cqe.user_data, 77);
        cr_assert_eq(cqe.opcode, opcodes[i]);
        cr_assert_eq(cqe.status, opcodes[i] == 0xff ? RDMAD_E_OPCODE : RDMAD_E_INVAL, "%u: %d",
                     opcodes[i], cqe.status);
        cr_assert_eq(cqe.bytes, 10);
        last.flags = RDMAD_SQE_MORE; /* nor may it be in the middle */
        rig_put(&c, &last);
        put(LOCAL, 0, 10, 0);
        cqe = rig_wait(&c);
        cr_assert_eq(cqe.user_data, 1);
        cr_assert_eq(cqe.status, opcodes[i] == 0xff ? RDMAD_E_OPCODE : RDMAD_E_RESERVED);
        all_is_given_back();
    }
    routes_down();
}

Test(batch, of_more_than_the_limit_runs_up_to_it) {
    for (unsigned n = 0; n < RDMAD_BATCH_MAX + 10; n++)
        put(LOCAL, n, 1, n == RDMAD_BATCH_MAX + 9 ? 0 : RDMAD_SQE_MORE);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.status, RDMAD_E_LIMIT);
    cr_assert_eq(cqe.bytes, RDMAD_BATCH_MAX);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_PARTIAL);
    cr_assert_eq(near[RDMAD_BATCH_MAX - 1], 'p');
    cr_assert_eq(near[RDMAD_BATCH_MAX], 0);
    all_is_given_back();
    routes_down();
}

Test(batch, silent_ones_tell_nothing_but_failures) {
    put(LOCAL, 0, 10, RDMAD_SQE_MORE);
    put(LOCAL, 10, 10, RDMAD_SQE_SILENT);
    nothing_comes_for(NSEC_PER_SEC);
    all_is_given_back();
    put(READ_ONLY, 0, 10, RDMAD_SQE_MORE);
    put(LOCAL, 10, 10, RDMAD_SQE_SILENT);
    cr_assert_eq(rig_wait(&c).status, RDMAD_E_RIGHTS);
    all_is_given_back();
    routes_down();
}

Test(batch, a_silent_op_tells_only_that_it_failed) {
    for (size_t i = 0; i < 2; i++) {
        put(routes[i], 0, 10, RDMAD_SQE_SILENT);
        nothing_comes_for(NSEC_PER_SEC);
        cr_assert_eq(routes[i] == REMOTE ? far[0] : near[0], 'p');
        all_is_given_back();
    }
    put(READ_ONLY, 0, 10, RDMAD_SQE_SILENT);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.status, RDMAD_E_RIGHTS);
    sim_script()->lose_answer_ppm = 1000000;
    put(REMOTE, 0, 10, RDMAD_SQE_SILENT);
    cqe = rig_wait(&c);
    cr_assert_eq(cqe.status, RDMAD_E_TIMEOUT);
    cr_assert_eq(cqe.outcome, RDMAD_UNKNOWN);
    all_is_given_back();
    routes_down();
}

/* The client has nothing to take and makes no room, so nobody but the daemon can go on. */
Test(batch, silent_ops_without_end_need_no_room_for_completions) {
    uint32_t done = 0;
    for (unsigned n = 0; n < 2000; n++) {
        struct rdmad_sqe sqe = write_of(REMOTE, n, 1, RDMAD_SQE_SILENT);
        rig_put(&c, &sqe);
        if (n % 64 == 63) {
            uint64_t limit = sim_now() + NSEC_PER_SEC;
            while (c.daemon->sq_head != c.sq_tail && rig_step(&rig, limit))
                ;
            cr_assert_eq(c.daemon->sq_head, c.sq_tail, "sqes are left though room is there");
            done++;
        }
    }
    cr_assert_gt(done, 10);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    cr_assert_eq(memcmp(far, c.pool, 1984), 0);
    routes_down();
}

/* Its cq has no room to promise: the next sqe waits in the sq of a ring that sleeps. A worker looks
 * at a few sleeping rings each turn by itself, so there are many. */
Test(batch, a_ring_that_sleeps_wakes_when_silence_makes_room) {
    enum { OTHERS = 40 };
    static struct rig_client other[OTHERS];
    struct worker *w = c.session->op.worker;
    struct op_ring *r = c.ring->owner;
    for (unsigned i = 0; i < OTHERS; i++)
        rig_client_up(&rig, &other[i], 2, 2, 4096);
    while (c.ring->cq_reserved < c.ring->cq_entries) {
        struct rdmad_sqe sqe = write_of(REMOTE, 0, 1, RDMAD_SQE_SILENT);
        rig_put(&c, &sqe);
        worker_turn(w, sim_now());
    }
    struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP, .user_data = 5};
    rig_put(&c, &nop);
    for (unsigned i = 0; i < OTHERS; i++)
        cr_assert(rings_park(w, other[i].ring->owner));
    cr_assert(rings_park(w, r), "no cqe can be promised");
    for (unsigned turn = 0; turn < 6; turn++) {
        sim_advance(NSEC_PER_MSEC);
        worker_turn(&rig.plane[THERE]->worker[0], sim_now());
        worker_turn(w, sim_now());
    }
    cr_assert_not(r->parked, "it sleeps though there is room, and its client did its part");
    rig_settle(&rig);
    struct rdmad_cqe cqe;
    cr_assert(rig_take(&c, &cqe));
    cr_assert_eq(cqe.user_data, 5);
    for (unsigned i = 0; i < OTHERS; i++)
        rig_client_down(&other[i]);
    routes_down();
}

Test(batch, goes_with_its_ring_in_mid_batch) {
    struct rig_answer dropped = {0};
    put(REMOTE, 0, BYTES, RDMAD_SQE_MORE); /* in flight */
    put(LOCAL, 0, 1, RDMAD_SQE_MORE);
    cr_assert_eq(c.session->op.inflight, 1);
    plane_ring_drop(c.session, RIG_HANDLE(0), rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    cr_assert_eq(c.session->op.inflight, 0);
    routes_down();
}

Test(batch, complete_but_under_way_ends_with_its_ring) {
    struct rig_answer dropped = {0};
    put(REMOTE, 0, BYTES, RDMAD_SQE_MORE);
    put(REMOTE, 0, BYTES, 0);
    plane_ring_drop(c.session, RIG_HANDLE(0), rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    struct rdmad_cqe cqe;
    cr_assert(rig_take(&c, &cqe));
    cr_assert_eq(cqe.status, RDMAD_E_CANCELED);
    cr_assert_not(rig_take(&c, &cqe));
    routes_down();
}
