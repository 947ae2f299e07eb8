/* SPDX-License-Identifier: MIT */
/* How things end: deadlines, leases, pools, rings, sessions; each in mid-transfer. */
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES (256u * 1024u)
#define REMOTE RIG_HANDLE(3)
#define LOCAL RIG_HANDLE(5)

static struct rig rig;
static struct rig_client c;
static struct rig_remote remote;
static uint8_t far[BYTES], near[BYTES], copy[BYTES];
static struct fabric_audit audit;
static uint64_t deadline_ns;

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 11);
    sim_script()->chunk = 512;
    deadline_ns = sim_now() + 60 * NSEC_PER_SEC;
    rig_client_up(&rig, &c, 64, 128, BYTES);
    rig_remote_up(&rig, &remote, far, BYTES, RDMAD_RIGHTS_ALL, deadline_ns);
    rig_lease(&c, &remote, REMOTE, 900, RDMAD_RIGHTS_ALL);
    rig_lease_local(&c, LOCAL, 901, near, BYTES, RDMAD_RIGHTS_ALL, deadline_ns, &audit);
    memset(c.pool, 'p', BYTES);
    memset(far, 'f', BYTES);
    memset(near, 'n', BYTES);
}

TestSuite(ends, .init = setup, .timeout = 60);

static void down(void) {
    rig_client_down(&c);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

static struct rdmad_sqe sqe_of(uint8_t opcode, uint64_t lease, uint64_t length) {
    return (struct rdmad_sqe){
        .opcode = opcode, .pool = RIG_HANDLE(0), .lease = lease, .length = length};
}

/* Begins a transfer and lets it get somewhere into its middle. */
static void begin(uint8_t opcode) {
    struct rdmad_sqe sqe = sqe_of(opcode, REMOTE, BYTES);
    struct rdmad_cqe cqe;
    memset(c.pool, 'p', BYTES);
    memset(far, 'f', BYTES);
    rig_put(&c, &sqe);
    rig_run_until(&rig, sim_now() + 20000);
    cr_assert_not(rig_take(&c, &cqe));
    cr_assert_gt(sim_inflight(), 0);
    cr_assert(opcode == RDMAD_OP_READ || far[0] == 'p');
}

static void nothing_moves(const uint8_t *memory) {
    memcpy(copy, memory, BYTES);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    cr_assert_eq(memcmp(copy, memory, BYTES), 0, "a byte changed afterwards");
}

static struct rdmad_cqe take(void) {
    struct rdmad_cqe cqe;
    cr_assert(rig_take(&c, &cqe), "the completion comes with the answer, not after");
    return cqe;
}

/* ---- deadlines --------------------------------------------------------------------------- */

Test(ends, an_op_ends_exactly_at_its_deadline_when_the_answer_is_lost) {
    sim_script()->lose_request_ppm = 1000000;
    static const uint64_t timeouts[] = {1, 1000, 131072, 1000000, 12345678, 9999999999u};
    for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
        struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, 64);
        sqe.timeout_ns = timeouts[i];
        uint64_t start = sim_now();
        struct rdmad_cqe cqe = rig_do(&c, &sqe);
        cr_assert_eq(cqe.status, RDMAD_E_TIMEOUT);
        cr_assert_eq(sim_now() - start, timeouts[i]);
        cr_assert_eq(sim_inflight(), 0);
    }
    down();
}

/* Hardware gives an op back later, or by force at a time that only polling keeps. */
Test(ends, a_deadline_takes_the_fabric_out_of_its_sleep) {
    sim_script()->lose_request_ppm = 1000000;
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, 64);
    struct worker *w = c.session->op.worker;
    sqe.timeout_ns = 1000000;
    uint64_t end_ns = sim_now() + sqe.timeout_ns;
    rig_put(&c, &sqe);
    rig_run_until(&rig, end_ns - 1);
    RIG_FABRIC(rig, w)->wake_ns = CLOCK_NEVER;
    RIG_FABRIC(rig, w)->parked = true;
    sim_advance(1);
    worker_turn(w, end_ns);
    cr_assert_eq(take().status, RDMAD_E_TIMEOUT);
    cr_assert_not(RIG_FABRIC(rig, w)->parked);
    down();
}

Test(ends, the_default_deadline_is_the_settings) {
    sim_script()->lose_answer_ppm = 1000000;
    uint64_t start = sim_now();
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, 64);
    struct rdmad_cqe cqe = rig_do(&c, &sqe);
    cr_assert_eq(sim_now() - start, rig.settings.default_timeout_ns);
    cr_assert(cqe.status == RDMAD_E_TIMEOUT && cqe.outcome == RDMAD_UNKNOWN);
    cr_assert_eq(far[63], 'p', "and it was done");
    down();
}

Test(ends, after_a_deadline_not_one_byte_moves) {
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, BYTES);
    sqe.timeout_ns = 30000;
    struct rdmad_cqe cqe = rig_do(&c, &sqe);
    cr_assert(cqe.status == RDMAD_E_TIMEOUT && cqe.outcome == RDMAD_FAILED_PARTIAL);
    cr_assert(cqe.bytes < BYTES && cqe.lease_id == 0);
    nothing_moves(far);
    sqe.opcode = RDMAD_OP_READ;
    cqe = rig_do(&c, &sqe);
    cr_assert(cqe.status == RDMAD_E_TIMEOUT && cqe.outcome == RDMAD_FAILED_PARTIAL);
    nothing_moves(c.pool);
    down();
}

Test(ends, an_op_that_never_got_a_place_on_the_link_is_untouched) {
    sim_script()->max_inflight = 0;
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, BYTES);
    sqe.timeout_ns = 5000;
    struct rdmad_cqe cqe = rig_do(&c, &sqe);
    cr_assert(cqe.status == RDMAD_E_TIMEOUT && cqe.outcome == RDMAD_FAILED_UNTOUCHED);
    nothing_moves(far);
    cr_assert_eq(far[0], 'f');
    down();
}

Test(ends, when_a_turn_comes_late_the_earlier_limit_gives_the_reason) {
    sim_script()->lose_request_ppm = 1000000;
    uint64_t margin = rig.settings.expiry_margin_ns;
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, 64);
    for (int sooner = 0; sooner < 2; sooner++) {
        struct rdmad_cqe cqe;
        plane_lease_extend(c.session, REMOTE, sim_now() + margin + 1000000);
        sqe.timeout_ns = sooner ? 500000 : 2000000;
        rig_put(&c, &sqe);
        rig_settle(&rig);
        sim_advance(5000000);
        rig_settle(&rig);
        cr_assert(rig_take(&c, &cqe));
        cr_assert_eq(cqe.status, sooner ? RDMAD_E_TIMEOUT : RDMAD_E_LEASE_EXPIRED);
    }
    down();
}

/* ---- leases ------------------------------------------------------------------------------ */

Test(ends, a_lease_ended_in_mid_transfer_ends_its_ops_with_the_reason) {
    for (int opcode = RDMAD_OP_READ; opcode <= RDMAD_OP_WRITE; opcode++) {
        struct rig_answer ended = {0};
        begin((uint8_t)opcode);
        plane_lease_end(c.session, REMOTE, RDMAD_E_LEASE_REVOKED, rig_done, &ended);
        cr_assert_eq(rig_await(&rig, &ended), 0);
        struct rdmad_cqe cqe = take();
        cr_assert(cqe.status == RDMAD_E_LEASE_REVOKED && cqe.outcome == RDMAD_FAILED_PARTIAL);
        cr_assert_eq(cqe.lease_id, 900);
        cr_assert_eq(sim_inflight(), 0);
        nothing_moves(opcode == RDMAD_OP_READ ? c.pool : far);

        struct rdmad_sqe sqe = sqe_of((uint8_t)opcode, REMOTE, 8);
        cqe = rig_do(&c, &sqe);
        cr_assert(cqe.status == RDMAD_E_LEASE_REVOKED && cqe.outcome == RDMAD_FAILED_UNTOUCHED);
        plane_lease_forget(c.session, REMOTE);
        cqe = rig_do(&c, &sqe);
        cr_assert(cqe.status == RDMAD_E_NO_LEASE && cqe.lease_id == 0);
        rig_lease(&c, &remote, REMOTE, 900, RDMAD_RIGHTS_ALL);
    }
    down();
}

/* The end of the lease overtook the answer, for it comes by another way. */
Test(ends, an_owner_that_ends_its_lease_takes_no_success_from_what_was_done) {
    struct rig_answer ended = {0};
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, 64);
    struct rdmad_cqe cqe;
    rig_put(&c, &sqe);
    while (far[63] != 'p')
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_SEC));
    cr_assert_not(rig_take(&c, &cqe));
    plane_lease_end(c.session, REMOTE, RDMAD_E_LEASE_REVOKED, rig_done, &ended);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    cqe = take();
    cr_assert(cqe.status == 0 && cqe.outcome == RDMAD_DONE && cqe.bytes == 64);
    cr_assert_eq(rig_do(&c, &sqe).status, RDMAD_E_LEASE_REVOKED);
    down();
}

Test(ends, an_answer_that_does_not_come_holds_up_the_end_of_a_lease_for_a_moment_only) {
    struct rig_answer ended = {0};
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, 64);
    sim_script()->lose_answer_ppm = 1000000;
    rig_put(&c, &sqe);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC / 1000);
    uint64_t start = sim_now();
    plane_lease_end(c.session, REMOTE, RDMAD_E_LEASE_ORPHANED, rig_done, &ended);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    cr_assert_leq(sim_now() - start, NSEC_PER_SEC / 10);
    struct rdmad_cqe cqe = take();
    cr_assert(cqe.status == RDMAD_E_LEASE_ORPHANED && cqe.outcome == RDMAD_UNKNOWN);
    down();
}

Test(ends, a_local_lease_ended_is_out_of_reach_when_done_runs) {
    struct rig_answer ended = {0};
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, LOCAL, 64);
    cr_assert_eq(rig_do(&c, &sqe).status, 0);
    cr_assert(audit.ops == 1 && audit.bytes_written == 64 && audit.last_use_ns == sim_now());
    rig_put(&c, &sqe); /* not taken yet when the end arrives: the mail comes first in a turn */
    plane_lease_end(c.session, LOCAL, RDMAD_E_LEASE_ORPHANED, rig_done, &ended);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    struct rdmad_cqe cqe = take();
    cr_assert(cqe.status == RDMAD_E_LEASE_ORPHANED && cqe.lease_id == 901);
    cr_assert_eq(far[0], 'f', "other leases live");
    sqe.lease = REMOTE;
    cr_assert_eq(rig_do(&c, &sqe).status, 0);
    down();
}

Test(ends, ending_a_lease_leaves_the_ops_of_others_alone) {
    struct rig_answer ended = {0};
    rig_lease(&c, &remote, RIG_HANDLE(4), 902, RDMAD_RIGHTS_ALL);
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_READ, RIG_HANDLE(4), BYTES);
    sqe.user_data = 4;
    rig_put(&c, &sqe);
    begin(RDMAD_OP_READ);
    plane_lease_end(c.session, REMOTE, RDMAD_E_LEASE_REVOKED, rig_done, &ended);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    cr_assert_eq(take().status, RDMAD_E_LEASE_REVOKED);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert(cqe.user_data == 4 && cqe.status == 0 && cqe.bytes == BYTES);
    down();
}

Test(ends, expiry_stops_ops_at_the_margin_though_nobody_said_so) {
    uint64_t expiry = sim_now() + rig.settings.expiry_margin_ns + 50000;
    plane_lease_extend(c.session, REMOTE, expiry);
    begin(RDMAD_OP_WRITE);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert(cqe.status == RDMAD_E_LEASE_EXPIRED && cqe.outcome == RDMAD_FAILED_PARTIAL);
    cr_assert_eq(sim_now(), expiry - rig.settings.expiry_margin_ns);
    cr_assert_eq(cqe.lease_id, 900);
    nothing_moves(far);
    down();
}

Test(ends, an_extension_in_mid_transfer_counts_and_so_does_a_shortening) {
    uint64_t margin = rig.settings.expiry_margin_ns;
    plane_lease_extend(c.session, REMOTE, sim_now() + margin + 50000);
    begin(RDMAD_OP_READ);
    plane_lease_extend(c.session, REMOTE, sim_now() + 10 * margin);
    cr_assert_eq(rig_wait(&c).status, 0);
    begin(RDMAD_OP_READ);
    uint64_t sooner = sim_now() + margin + 10000;
    plane_lease_extend(c.session, REMOTE, sooner);
    cr_assert_eq(rig_wait(&c).status, RDMAD_E_LEASE_EXPIRED);
    cr_assert_eq(sim_now(), sooner - margin);
    down();
}

Test(ends, a_window_closed_by_the_owner_stops_a_lessee_that_was_not_told) {
    struct rig_answer closed = {0};
    begin(RDMAD_OP_WRITE);
    plane_window_close(remote.window, RDMAD_E_LEASE_REVOKED, rig_done, &closed);
    remote.window = NULL;
    cr_assert_eq(rig_await(&rig, &closed), 0);
    memcpy(copy, far, BYTES);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert(cqe.status == RDMAD_E_LEASE_REVOKED || cqe.status == RDMAD_E_NO_LEASE);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_PARTIAL);
    cr_assert_eq(memcmp(copy, far, BYTES), 0);
    cr_assert_gt(remote.audit.bytes_written, 0);
    down();
}

/* Makes again what a round of the test below took away. */
static void restore(int what) {
    struct rig_answer added = {0};
    if (what == 0)
        rig_lease(&c, &remote, REMOTE, 900, RDMAD_RIGHTS_ALL);
    else if (what == 1)
        plane_pool_add(c.session, RIG_HANDLE(0), c.pool, BYTES, NULL, rig_done, &added);
    else
        plane_ring_add(c.session, RIG_HANDLE(0), c.ring, rig_done, &added);
    cr_assert_eq(what ? rig_await(&rig, &added) : 0, 0);
}

Test(ends, who_ends_something_is_answered_only_when_the_fabric_let_go) {
    sim_script()->lazy_cancel = true;
    sim_script()->delay_min_ns = 30000;
    sim_script()->delay_max_ns = 60000;
    for (int what = 0; what < 4; what++) {
        struct rig_answer ended = {0}, twice = {0};
        struct rdmad_sqe sqe = sqe_of(RDMAD_OP_READ, REMOTE, BYTES);
        memset(far, 'a' + what, BYTES);
        rig_put(&c, &sqe);
        rig_run_until(&rig, sim_now() + 50000);
        if (what == 0) {
            plane_lease_end(c.session, REMOTE, RDMAD_E_LEASE_REVOKED, rig_done, &ended);
            plane_lease_end(c.session, REMOTE, RDMAD_E_LEASE_EXPIRED, rig_done, &twice);
            plane_lease_forget(c.session, REMOTE);
        } else if (what == 1) {
            plane_pool_drop(c.session, RIG_HANDLE(0), rig_done, &ended);
        } else if (what == 2) {
            plane_ring_drop(c.session, RIG_HANDLE(0), rig_done, &ended);
        } else {
            plane_session_drop(c.session, rig_done, &ended);
        }
        rig_settle(&rig);
        cr_assert_not(ended.done, "parts are still in flight");
        cr_assert_eq(rig_await(&rig, &ended), 0);
        cr_assert_eq(sim_inflight(), 0);
        cr_assert_eq(take().status, what ? RDMAD_E_CANCELED : RDMAD_E_LEASE_REVOKED);
        nothing_moves(c.pool);
        if (what < 3)
            restore(what);
        cr_assert_eq(twice.done, what == 0);
    }
    rig_client_free(&c);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

/* A link that closes ends in one go what others still waited for. */
Test(ends, calls_are_answered_in_order_though_the_last_one_frees_what_the_first_waits_for) {
    sim_script()->lazy_cancel = true;
    sim_script()->delay_min_ns = 30000;
    sim_script()->delay_max_ns = 60000;
    struct rig_answer ended = {0}, dropped = {0}, closed = {0}, gone = {0};
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_READ, REMOTE, BYTES);
    rig_put(&c, &sqe);
    rig_run_until(&rig, sim_now() + 50000);
    plane_lease_end(c.session, REMOTE, RDMAD_E_LEASE_REVOKED, rig_done, &ended);
    rig_settle(&rig);
    cr_assert_not(ended.done, "parts are still in flight");
    plane_lane_drop(remote.lane, rig_done, &dropped);
    plane_lease_forget(c.session, REMOTE);
    plane_session_drop(c.session, rig_done, &gone);
    cr_assert_eq(rig_await(&rig, &gone), 0);
    cr_assert(ended.done && dropped.done);
    rig_client_free(&c);
    plane_window_close(remote.window, RDMAD_E_LEASE_REVOKED, rig_done, &closed);
    cr_assert_eq(rig_await(&rig, &closed), 0);
    rig_down(&rig);
}

static struct rig_answer lease_ended;
static bool ended_before;

static void on_session_gone(void *arg, const struct error *result) {
    ended_before = lease_ended.done;
    rig_done(arg, result);
}

/* The end of a lease lets an op land that the drop then cancels. Only this ends what the first call
 * waits for, after that call was asked. */
Test(ends, a_dropped_session_waits_for_the_calls_that_its_own_end_settles) {
    struct rig_answer gone = {0};
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, 64);
    sim_script()->lose_answer_ppm = 1000000;
    rig_put(&c, &sqe);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC / 1000);
    plane_lease_end(c.session, REMOTE, RDMAD_E_LEASE_REVOKED, rig_done, &lease_ended);
    rig_settle(&rig);
    cr_assert_not(lease_ended.done, "the op may still land");
    plane_session_drop(c.session, on_session_gone, &gone);
    cr_assert_eq(rig_await(&rig, &gone), 0);
    cr_assert(ended_before, "an earlier call still looks at the session that was freed");
    rig_client_free(&c);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

/* ---- pools, rings, sessions -------------------------------------------------------------- */

Test(ends, a_dropped_pool_cancels_its_ops_first) {
    struct rig_answer dropped = {0};
    begin(RDMAD_OP_READ);
    plane_pool_drop(c.session, RIG_HANDLE(0), rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    cr_assert_eq(take().status, RDMAD_E_CANCELED);
    cr_assert_eq(mprotect(c.pool, BYTES, PROT_NONE), 0);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC); /* a late byte would be SIGSEGV */
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_READ, REMOTE, 8);
    cr_assert_eq(rig_do(&c, &sqe).status, RDMAD_E_HANDLE);
    down();
}

Test(ends, a_dropped_ring_is_the_callers_again) {
    struct rig_answer dropped = {0}, missing = {0};
    begin(RDMAD_OP_WRITE);
    plane_ring_drop(c.session, RIG_HANDLE(0), rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    cr_assert_eq(take().status, RDMAD_E_CANCELED);
    cr_assert_eq(mprotect(c.ring->daemon, c.ring->daemon_bytes, PROT_NONE), 0);
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, 8);
    c.sqe[c.sq_tail & (c.ring->sq_entries - 1)] = sqe;
    c.client->sq_tail = ++c.sq_tail;
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    plane_ring_drop(c.session, RIG_HANDLE(0), rig_done, &missing);
    cr_assert_eq(rig_await(&rig, &missing), RDMAD_E_HANDLE);
    down();
}

Test(ends, a_session_dropped_in_mid_transfer_lets_go_of_all_its_memory) {
    struct rig_answer dropped = {0};
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, LOCAL, BYTES);
    begin(RDMAD_OP_READ);
    rig_put(&c, &sqe);
    worker_turn(&rig.plane[HERE]->worker[0], sim_now());
    plane_session_drop(c.session, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    cr_assert_eq(sim_inflight(), 0);
    cr_assert_eq(mprotect(c.pool, BYTES, PROT_NONE), 0);
    cr_assert_eq(mprotect(c.ring->daemon, c.ring->daemon_bytes, PROT_NONE), 0);
    memcpy(copy, near, BYTES);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    cr_assert_eq(memcmp(copy, near, BYTES), 0);
    struct plane_counters counters;
    plane_count(rig.plane[HERE], &counters);
    cr_assert_eq(counters.ops_inflight, 0);
    rig_client_free(&c);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

Test(ends, a_client_that_breaks_its_ring_is_shut_out_and_reported_once) {
    struct rig_client other;
    rig_client_up(&rig, &other, 8, 8, 4096);
    begin(RDMAD_OP_READ);
    c.client->sq_tail = c.sq_tail + 1000;
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    cr_assert_eq(rig.violated, 1);
    cr_assert_eq(rig.cookie, &c);
    cr_assert(rig.why.code == RDMAD_E_RING && strstr(rig.why.text, "42"));
    c.client->sq_tail = c.sq_tail; /* too late */
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOP};
    rig_put(&c, &sqe);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    struct rdmad_cqe cqe;
    cr_assert(rig_take(&c, &cqe) && cqe.opcode == RDMAD_OP_READ, "what was under way is finished");
    cr_assert_not(rig_take(&c, &cqe));
    cr_assert_eq(rig_do(&other, &sqe).status, 0, "nobody else notices");
    rig_client_down(&other);
    cr_assert_eq(rig.violated, 1);
    down();
}

Test(ends, the_plane_tells_whether_its_workers_turn) {
    cr_assert(plane_worker_turns(rig.plane[HERE], 0), "nothing was asked before");
    cr_assert_not(plane_worker_turns(rig.plane[HERE], 0), "no turn since");
    rig_settle(&rig);
    cr_assert(plane_worker_turns(rig.plane[HERE], 0));
    rig_settle(&rig);
    down();
}
