/* SPDX-License-Identifier: MIT */
/* A lane outlives its links: what waits, what goes on, what ends, and nothing twice. */
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define BYTES (256u * 1024u)
#define REMOTE RIG_HANDLE(3)
#define OTHER RIG_HANDLE(4)

static struct rig rig;
static struct rig_client c;
static struct rig_remote remote;
static uint8_t far[BYTES], copy[BYTES];
static uint64_t deadline_ns;
static uint8_t times[BYTES]; /* how often each byte of far was written */

static void count_placed(void *base, uint64_t offset, uint64_t bytes) {
    cr_assert_eq(base, far);
    for (uint64_t i = offset; i < offset + bytes; i++)
        times[i]++;
}

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 11);
    sim_script()->chunk = 512;
    sim_script()->placed = count_placed;
    deadline_ns = sim_now() + 60 * NSEC_PER_SEC;
    rig_client_up(&rig, &c, 64, 128, BYTES);
    rig_remote_up(&rig, &remote, far, BYTES, RDMAD_RIGHTS_ALL, deadline_ns);
    rig_lease(&c, &remote, REMOTE, 900, RDMAD_RIGHTS_ALL);
    for (size_t i = 0; i < BYTES; i++)
        c.pool[i] = (uint8_t)(i * 7 + i / 251);
    memset(far, 'f', BYTES);
}

TestSuite(lanes, .init = setup, .timeout = 60);

static void down(void) {
    rig_client_down(&c);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

static struct rdmad_sqe sqe_of(uint8_t opcode, uint64_t at, uint64_t length) {
    return (struct rdmad_sqe){.opcode = opcode,
                              .pool = RIG_HANDLE(0),
                              .pool_offset = at,
                              .lease = REMOTE,
                              .lease_offset = at,
                              .length = length,
                              .user_data = at};
}

static void put(uint8_t opcode, uint64_t at, uint64_t length) {
    struct rdmad_sqe sqe = sqe_of(opcode, at, length);
    rig_put(&c, &sqe);
}

static void put_until(uint8_t opcode, uint64_t at, uint64_t length, uint64_t timeout_ns) {
    struct rdmad_sqe sqe = sqe_of(opcode, at, length);
    sqe.timeout_ns = timeout_ns;
    rig_put(&c, &sqe);
}

static struct rdmad_cqe take(void) {
    struct rdmad_cqe cqe;
    cr_assert(rig_take(&c, &cqe), "no completion");
    return cqe;
}

static void nothing_comes_for(uint64_t ns) {
    struct rdmad_cqe cqe;
    rig_run_until(&rig, sim_now() + ns);
    cr_assert_not(rig_take(&c, &cqe), "it did not wait: status %d", cqe.status);
}

static void nothing_moves(const uint8_t *memory) {
    memcpy(copy, memory, BYTES);
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    cr_assert_eq(memcmp(copy, memory, BYTES), 0, "a byte changed afterwards");
}

/* Begins a large transfer and lets it get somewhere into its middle. */
static void begin(uint8_t opcode) {
    put(opcode, 0, BYTES);
    nothing_comes_for(20000);
    cr_assert_gt(sim_inflight(), 0);
}

static void written_at_most_once(void) {
    for (size_t i = 0; i < BYTES; i++)
        cr_assert_leq(times[i], 1, "byte %zu was written %u times", i, times[i]);
}

static void rebuild(void) {
    rig_rebuild(&rig, &remote);
    rig_key(&c, &remote, REMOTE);
}

/* ---- what ends with the link ------------------------------------------------------------- */

Test(lanes, a_lost_link_is_reported_once_and_ends_a_write_that_perhaps_was_executed) {
    begin(RDMAD_OP_WRITE);
    uint64_t at = sim_now();
    rig_break(&rig);
    struct rdmad_cqe cqe = take();
    cr_assert_eq(sim_now(), at, "at once");
    cr_assert(cqe.status == RDMAD_E_PEER_LOST && cqe.outcome == RDMAD_FAILED_PARTIAL);
    cr_assert_eq(cqe.lease_id, 900);
    cr_assert(rig.lanes_lost == 1 && rig.cookie == &remote);
    cr_assert_eq(rig.why.code, RDMAD_E_PEER_LOST);
    nothing_moves(far);
    cr_assert_eq(rig.lanes_lost, 1);
    down();
}

Test(lanes, a_small_write_whose_answer_dies_with_the_link_is_unknown) {
    sim_script()->lose_answer_ppm = 1000000;
    put(RDMAD_OP_WRITE, 0, 64);
    rig_run_until(&rig, sim_now() + 20000);
    rig_break(&rig);
    struct rdmad_cqe cqe = take();
    cr_assert(cqe.status == RDMAD_E_PEER_LOST && cqe.outcome == RDMAD_UNKNOWN);
    sim_script()->lose_answer_ppm = 0;
    rebuild();
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    written_at_most_once();
    down();
}

Test(lanes, a_lane_dropped_under_live_leases_answers_peer_lost) {
    begin(RDMAD_OP_WRITE);
    put(RDMAD_OP_READ, 0, 64);
    struct rig_answer dropped = {0}, ended = {0}, closed = {0};
    plane_lane_drop(remote.lane, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    cr_assert_eq(take().status, RDMAD_E_PEER_LOST);
    cr_assert_eq(take().status, RDMAD_E_PEER_LOST, "a READ, too: there will be no other link");
    nothing_moves(far);
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, 0, 8);
    cr_assert_eq(rig_do(&c, &sqe).status, RDMAD_E_PEER_LOST);
    cr_assert_eq(rig.lanes_lost, 0, "who drops it knows");
    plane_lease_end(c.session, REMOTE, RDMAD_E_LEASE_RELEASED, rig_done, &ended);
    plane_lease_forget(c.session, REMOTE);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    plane_window_close(remote.window, RDMAD_E_LEASE_RELEASED, rig_done, &closed);
    cr_assert_eq(rig_await(&rig, &closed), 0);
    rig_client_down(&c);
    rig_down(&rig);
}

Test(lanes, what_waits_for_a_lane_that_is_then_dropped_ends_untouched) {
    struct rig_answer dropped = {0}, closed = {0};
    sim_script()->max_inflight = 0;
    put(RDMAD_OP_WRITE, 0, BYTES);
    rig_settle(&rig);
    rig_break(&rig);
    put(RDMAD_OP_READ, 1, 8);
    nothing_comes_for(NSEC_PER_MSEC);
    plane_lane_drop(remote.lane, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    for (int i = 0; i < 2; i++) {
        struct rdmad_cqe cqe = take();
        cr_assert_eq(cqe.status, RDMAD_E_PEER_LOST);
        cr_assert(cqe.outcome == RDMAD_FAILED_UNTOUCHED && cqe.bytes == 0);
    }
    rig_client_down(&c);
    plane_window_close(remote.window, RDMAD_E_LEASE_RELEASED, rig_done, &closed);
    cr_assert_eq(rig_await(&rig, &closed), 0);
    rig_down(&rig);
}

Test(lanes, an_expelled_peer_loses_its_lanes) {
    struct rig_answer expelled = {0};
    begin(RDMAD_OP_WRITE);
    plane_expel(rig.plane[THERE], rig.fabric, RIG_PEER, rig_done, &expelled);
    cr_assert_eq(rig_await(&rig, &expelled), 0);
    memcpy(copy, far, BYTES);
    cr_assert_eq(rig_wait(&c).status, RDMAD_E_PEER_LOST);
    cr_assert_eq(memcmp(copy, far, BYTES), 0);
    rig_settle(&rig);
    cr_assert_eq(rig.lanes_lost, 1);
    down();
}

/* ---- what goes on ------------------------------------------------------------------------ */

Test(lanes, ops_wait_for_the_next_link_and_for_their_leases_key) {
    rig_break(&rig);
    put(RDMAD_OP_WRITE, 0, BYTES);
    nothing_comes_for(NSEC_PER_SEC);
    rig_rebuild(&rig, &remote);
    put(RDMAD_OP_READ, 0, 0);
    nothing_comes_for(NSEC_PER_SEC);
    cr_assert_eq(sim_inflight(), 0, "something was posted with the former key");
    rig_key(&c, &remote, REMOTE);
    cr_assert_eq(rig_wait(&c).status, 0);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert(cqe.status == 0 && cqe.outcome == RDMAD_DONE && cqe.bytes == BYTES);
    cr_assert_eq(memcmp(far, c.pool, BYTES), 0);
    cr_assert_eq(rig.lanes_lost, 1);
    down();
}

Test(lanes, a_lease_may_come_before_its_lane_is_ever_up) {
    struct rig_answer added = {0};
    struct plane_lane *lane = plane_lane_new(rig.plane[HERE], rig.fabric, 0, false, NULL);
    struct plane_lease_spec spec = {.lease_id = 901,
                                    .length = BYTES,
                                    .rights = RDMAD_RIGHTS_ALL,
                                    .deadline_ns = deadline_ns,
                                    .lane = lane};
    plane_lease_add(c.session, OTHER, &spec, rig_done, &added);
    cr_assert_eq(rig_await(&rig, &added), 0);
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, 0, 5000);
    sqe.lease = OTHER;
    rig_put(&c, &sqe);
    nothing_comes_for(NSEC_PER_SEC);
    cr_assert_eq(plane_lane_number(lane), 0);
    cr_assert_eq(rig_connect(&rig, lane), 0);
    cr_assert_neq(plane_lane_number(lane), plane_lane_number(remote.lane));
    struct rig_answer window = {0}, dropped = {0};
    plane_window_reopen(remote.window, plane_lane_number(lane), rig_blob, &window);
    cr_assert_eq(rig_await(&rig, &window), 0);
    plane_lease_key(c.session, OTHER, &window.blob);
    cr_assert_eq(rig_wait(&c).status, 0);
    cr_assert_eq(memcmp(far, c.pool, 5000), 0);
    plane_lease_forget(c.session, OTHER);
    plane_lane_drop(lane, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    down();
}

Test(lanes, a_read_goes_on_over_any_number_of_links) {
    for (size_t i = 0; i < BYTES; i++)
        far[i] = (uint8_t)(i * 11 + i / 300);
    put(RDMAD_OP_READ, 0, BYTES);
    for (unsigned i = 0; i < 5; i++) {
        nothing_comes_for(20000 + i * 7000);
        rig_break(&rig);
        nothing_comes_for(10000);
        rebuild();
    }
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert(cqe.status == 0 && cqe.outcome == RDMAD_DONE && cqe.bytes == BYTES);
    cr_assert_eq(memcmp(far, c.pool, BYTES), 0);
    cr_assert_eq(rig.lanes_lost, 5);
    down();
}

Test(lanes, ops_of_no_bytes_go_on_as_well) {
    sim_script()->max_inflight = 0;
    put(RDMAD_OP_READ, 0, 0);
    put(RDMAD_OP_WRITE, 1, 0);
    rig_settle(&rig);
    rig_break(&rig);
    sim_script()->max_inflight = 16;
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = 1000;
    rebuild();
    rig_break(&rig); /* posted, and perhaps sent: the READ goes again, the WRITE nobody knows of */
    struct rdmad_cqe cqe = take();
    cr_assert(cqe.user_data == 1 && cqe.outcome == RDMAD_UNKNOWN);
    nothing_comes_for(10000);
    rebuild();
    cqe = rig_wait(&c);
    cr_assert(cqe.user_data == 0 && cqe.status == 0 && cqe.outcome == RDMAD_DONE);
    down();
}

Test(lanes, writes_known_not_executed_go_on_and_no_byte_is_written_twice) {
    struct sim_script *script = sim_script();
    script->knows_unexecuted = true;
    script->delay_min_ns = script->delay_max_ns = 10000;
    for (uint64_t at = 0; at < BYTES; at += BYTES / 8)
        put(RDMAD_OP_WRITE, at, 2 * SIM_MAX_MESSAGE);
    rig_run_until(&rig, sim_now() + 5000); /* sent, not executed */
    cr_assert_gt(sim_inflight(), 8);
    rig_break(&rig);
    nothing_comes_for(NSEC_PER_SEC);
    cr_assert_eq(times[0], 0);
    rebuild();
    for (int i = 0; i < 8; i++) {
        struct rdmad_cqe cqe = rig_wait(&c);
        cr_assert(cqe.status == 0 && cqe.outcome == RDMAD_DONE);
        cr_assert_eq(memcmp(far + cqe.user_data, c.pool + cqe.user_data, cqe.bytes), 0);
    }
    written_at_most_once();
    down();
}

/* Some of its parts come back untouched before one comes back of which nobody knows. */
Test(lanes, a_write_of_which_a_part_is_unknown_is_not_gone_on_with) {
    sim_script()->knows_unexecuted = true;
    begin(RDMAD_OP_WRITE);
    rig_break(&rig);
    struct rdmad_cqe cqe = take();
    cr_assert(cqe.status == RDMAD_E_PEER_LOST && cqe.outcome == RDMAD_FAILED_PARTIAL);
    rebuild();
    nothing_moves(far);
    written_at_most_once();
    down();
}

Test(lanes, the_next_link_may_take_less_or_more_at_once) {
    static const uint64_t most[] = {700, 64, 2 * SIM_MAX_MESSAGE - 1, 1000};
    struct sim_script *script = sim_script();
    script->delay_min_ns = script->delay_max_ns = 1000;
    script->chunk = 0;
    for (size_t i = 0; i < BYTES; i++)
        far[i] = (uint8_t)(i * 3 + i / 777);
    put(RDMAD_OP_READ, 3, BYTES - 5);
    for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
        nothing_comes_for(3500);
        script->max_message = most[i];
        rig_break(&rig);
        rebuild();
    }
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert(cqe.status == 0 && cqe.outcome == RDMAD_DONE && cqe.bytes == BYTES - 5);
    cr_assert_eq(memcmp(far + 3, c.pool + 3, BYTES - 5), 0);
    down();
}

Test(lanes, a_write_that_came_back_whole_is_cut_for_a_link_that_takes_less) {
    struct sim_script *script = sim_script();
    put(RDMAD_OP_WRITE, 0, 0); /* lets the rest queue behind it */
    cr_assert_eq(rig_wait(&c).status, 0);
    script->knows_unexecuted = true;
    script->delay_min_ns = script->delay_max_ns = 100000;
    put(RDMAD_OP_WRITE, 0, BYTES);
    rig_run_until(&rig, sim_now() + 1000);
    cr_assert_eq(sim_inflight(), OP_MAX_PARTS);
    script->max_message = 100;
    rig_break(&rig);
    script->delay_min_ns = script->delay_max_ns = 1000;
    rebuild();
    rig_run_until(&rig, sim_now() + 500); /* eight small pieces of the first part are posted */
    script->delay_min_ns = script->delay_max_ns = 1000;
    rig_break(&rig);
    script->max_message = 0;
    rebuild();
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert(cqe.status == 0 && cqe.outcome == RDMAD_DONE && cqe.bytes == BYTES);
    cr_assert_eq(memcmp(far, c.pool, BYTES), 0);
    for (size_t i = 0; i < BYTES; i++)
        cr_assert_eq(times[i], 1);
    down();
}

/* ---- what ends while it waits ------------------------------------------------------------ */

Test(lanes, an_op_that_waits_ends_at_its_deadline) {
    begin(RDMAD_OP_READ);
    uint64_t start = sim_now();
    rig_break(&rig);
    put_until(RDMAD_OP_WRITE, 0, BYTES, 5 * NSEC_PER_MSEC);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(sim_now() - start, 5 * NSEC_PER_MSEC);
    cr_assert(cqe.status == RDMAD_E_TIMEOUT && cqe.outcome == RDMAD_FAILED_UNTOUCHED);
    cqe = rig_wait(&c);
    cr_assert(cqe.status == RDMAD_E_TIMEOUT && cqe.outcome == RDMAD_FAILED_PARTIAL);
    cr_assert(cqe.bytes > 0 && cqe.bytes < BYTES);
    rebuild();
    cr_assert_eq(sim_inflight(), 0, "nothing is posted for who has gone");
    down();
}

Test(lanes, an_op_of_no_bytes_that_came_back_is_not_done_when_its_time_is_up) {
    sim_script()->lose_request_ppm = 1000000;
    put_until(RDMAD_OP_READ, 0, 0, NSEC_PER_MSEC);
    rig_settle(&rig);
    rig_break(&rig);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert(cqe.status == RDMAD_E_TIMEOUT && cqe.outcome == RDMAD_FAILED_PARTIAL);
    down();
}

Test(lanes, what_came_back_of_ops_that_ended_is_used_again) {
    const struct worker *w = &rig.plane[HERE]->worker[0];
    for (unsigned i = 0; i < 100; i++) {
        put_until(RDMAD_OP_READ, 0, BYTES, 50000);
        rig_run_until(&rig, sim_now() + 5000);
        rig_break(&rig);
        cr_assert_eq(rig_wait(&c).status, RDMAD_E_TIMEOUT);
        rebuild();
    }
    cr_assert_eq(w->parts.chunks, 1);
    down();
}

Test(lanes, an_op_that_waits_ends_with_its_leases_time) {
    rig_break(&rig);
    plane_lease_extend(c.session, REMOTE, sim_now() + NSEC_PER_SEC);
    uint64_t limit = sim_now() + NSEC_PER_SEC - rig.settings.expiry_margin_ns;
    put(RDMAD_OP_WRITE, 0, 64);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(sim_now(), limit);
    cr_assert(cqe.status == RDMAD_E_LEASE_EXPIRED && cqe.outcome == RDMAD_FAILED_UNTOUCHED);
    down();
}

Test(lanes, a_lease_ends_at_once_while_its_ops_wait) {
    begin(RDMAD_OP_READ);
    rig_break(&rig);
    put(RDMAD_OP_WRITE, 0, 64);
    rig_settle(&rig);
    uint64_t at = sim_now();
    struct rig_answer ended = {0};
    plane_lease_end(c.session, REMOTE, RDMAD_E_LEASE_REVOKED, rig_done, &ended);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    cr_assert_eq(sim_now(), at);
    struct rdmad_cqe cqe = take();
    cr_assert(cqe.status == RDMAD_E_LEASE_REVOKED && cqe.outcome == RDMAD_FAILED_PARTIAL);
    cqe = take();
    cr_assert(cqe.status == RDMAD_E_LEASE_REVOKED && cqe.outcome == RDMAD_FAILED_UNTOUCHED);
    rebuild(); /* the key comes too late, and means nothing */
    cr_assert_eq(sim_inflight(), 0);
    down();
}

Test(lanes, pools_rings_and_sessions_go_while_ops_wait) {
    enum { POOL, RING, SESSION, KINDS };
    for (int kind = 0; kind < KINDS; kind++) {
        struct rig_answer gone = {0};
        struct rig_client other;
        rig_client_up(&rig, &other, 16, 16, BYTES);
        rig_lease(&other, &remote, REMOTE, 900, RDMAD_RIGHTS_ALL);
        struct rdmad_sqe sqe = sqe_of(RDMAD_OP_READ, 0, BYTES);
        rig_put(&other, &sqe);
        rig_run_until(&rig, sim_now() + 20000);
        rig_break(&rig);
        cr_assert_eq(plane_session_stats(other.session)->ops_inflight, 1);
        if (kind == POOL)
            plane_pool_drop(other.session, RIG_HANDLE(0), rig_done, &gone);
        else if (kind == RING)
            plane_ring_drop(other.session, RIG_HANDLE(0), rig_done, &gone);
        if (kind != SESSION) {
            cr_assert_eq(rig_await(&rig, &gone), 0);
            cr_assert_eq(plane_session_stats(other.session)->ops_inflight, 0);
        }
        rig_client_down(&other);
        rebuild();
    }
    down();
}

/* ---- keys and links that come at the wrong moment ---------------------------------------- */

Test(lanes, a_key_for_a_link_that_is_lost_meanwhile_is_not_used) {
    rig_break(&rig);
    rig_key(&c, &remote, REMOTE);
    put(RDMAD_OP_WRITE, 0, 64);
    nothing_comes_for(NSEC_PER_MSEC);
    rig_rebuild(&rig, &remote);
    put(RDMAD_OP_WRITE, 64, 64);
    nothing_comes_for(NSEC_PER_MSEC);
    rig_key(&c, &remote, REMOTE);
    cr_assert_eq(rig_wait(&c).status, 0);
    cr_assert_eq(rig_wait(&c).status, 0);
    down();
}

Test(lanes, a_lease_added_while_its_lane_is_down_waits_for_a_key_of_the_next_link) {
    rig_break(&rig);
    rig_lease(&c, &remote, OTHER, 901, RDMAD_RIGHTS_ALL);
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, 0, 64);
    sqe.lease = OTHER;
    rig_put(&c, &sqe);
    rig_rebuild(&rig, &remote);
    nothing_comes_for(NSEC_PER_MSEC);
    rig_key(&c, &remote, OTHER);
    cr_assert_eq(rig_wait(&c).status, 0);
    down();
}

Test(lanes, a_peer_that_answers_lost_on_a_living_link_gets_no_second_try) {
    sim_script()->refuse_ppm = 1000000;
    sim_script()->refuse_status = RDMAD_E_PEER_LOST;
    put_until(RDMAD_OP_WRITE, 0, 64, NSEC_PER_SEC);
    rig_run_until(&rig, sim_now() + 20000);
    cr_assert_eq(sim_inflight(), 0);
    sim_script()->refuse_ppm = 0;
    put(RDMAD_OP_WRITE, 64, 64);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert(cqe.user_data == 64 && cqe.status == 0, "others go on");
    cqe = rig_wait(&c);
    cr_assert(cqe.user_data == 0 && cqe.status == RDMAD_E_TIMEOUT);
    cr_assert_eq(times[0], 0);
    down();
}

Test(lanes, a_hello_gives_up_the_link_that_is_there_and_nobody_hears_of_its_loss) {
    begin(RDMAD_OP_READ);
    uint64_t before = plane_lane_number(remote.lane);
    sim_break_links(RIG_FABRIC(rig, &rig.plane[HERE]->worker[0])->instance); /* not noticed yet */
    struct rig_answer hello = {0};
    plane_lane_hello(remote.lane, rig_blob, &hello);
    cr_assert_eq(rig_await(&rig, &hello), 0);
    cr_assert_eq(plane_lane_number(remote.lane), 0);
    rebuild(); /* with another hello: the last one counts */
    cr_assert_neq(plane_lane_number(remote.lane), before);
    cr_assert_eq(rig_wait(&c).outcome, RDMAD_DONE);
    cr_assert_eq(rig.lanes_lost, 0);
    down();
}

Test(lanes, news_of_a_loss_that_a_hello_overtakes_are_not_told) {
    struct worker *w = &rig.plane[HERE]->worker[0];
    struct rig_answer hello = {0};
    sim_break_links(RIG_FABRIC(rig, w)->instance);
    worker_turn(w, sim_now()); /* the news are under way */
    plane_lane_hello(remote.lane, rig_blob, &hello);
    cr_assert_eq(rig_await(&rig, &hello), 0);
    cr_assert_eq(rig.lanes_lost, 0);
    rebuild();
    rig_break(&rig);
    cr_assert_eq(rig.lanes_lost, 1, "those of the next one are");
    down();
}

Test(lanes, a_lane_that_cannot_be_opened_says_why_and_may_be_tried_again) {
    struct rig_answer dropped = {0};
    struct plane_lane *lane = plane_lane_new(rig.plane[HERE], rig.fabric, 0, false, NULL);
    sim_script()->refuse_connections = true;
    cr_assert_eq(rig_connect(&rig, lane), RDMAD_E_UNREACHABLE);
    cr_assert_eq(rig_connect(&rig, lane), RDMAD_E_UNREACHABLE);
    sim_script()->refuse_connections = false;
    cr_assert_eq(rig_connect(&rig, lane), 0);
    plane_lane_drop(lane, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    cr_assert_eq(rig.lanes_lost, 0);
    down();
}

Test(lanes, a_link_lost_before_it_is_opened_makes_opening_fail) {
    struct rig_answer hello = {0}, offer = {0}, up = {0}, dropped = {0};
    struct plane_lane *lane = plane_lane_new(rig.plane[HERE], rig.fabric, 0, false, NULL);
    plane_lane_hello(lane, rig_blob, &hello);
    cr_assert_eq(rig_await(&rig, &hello), 0);
    plane_offer(rig.plane[THERE], rig.fabric, RIG_PEER, false, &hello.blob, rig_blob, &offer);
    cr_assert_eq(rig_await(&rig, &offer), 0);
    rig_break(&rig);
    rig.lanes_lost = 0; /* the other lane's */
    plane_lane_open(lane, "there", &offer.blob, rig_done, &up);
    cr_assert_eq(rig_await(&rig, &up), RDMAD_E_UNREACHABLE);
    cr_assert_eq(rig_connect(&rig, lane), 0);
    cr_assert_eq(rig.lanes_lost, 0);
    plane_lane_drop(lane, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    down();
}

Test(lanes, an_offer_for_another_hello_connects_nobody) {
    struct rig_answer old = {0}, hello = {0}, offer = {0}, up = {0};
    plane_lane_hello(remote.lane, rig_blob, &old);
    cr_assert_eq(rig_await(&rig, &old), 0);
    plane_offer(rig.plane[THERE], rig.fabric, RIG_PEER, false, &old.blob, rig_blob, &offer);
    plane_lane_hello(remote.lane, rig_blob, &hello);
    cr_assert_eq(rig_await(&rig, &hello), 0);
    cr_assert(offer.done);
    plane_lane_open(remote.lane, "there", &offer.blob, rig_done, &up);
    cr_assert_eq(rig_await(&rig, &up), RDMAD_E_UNREACHABLE);
    down();
}

Test(lanes, a_lane_dropped_or_greeted_again_while_connecting_answers_both_calls) {
    struct plane_lane *lane = plane_lane_new(rig.plane[HERE], rig.fabric, 0, false, NULL);
    for (int drop = 0; drop < 2; drop++) {
        struct rig_answer hello = {0}, offer = {0}, up = {0}, second = {0};
        plane_lane_hello(lane, rig_blob, &hello);
        cr_assert_eq(rig_await(&rig, &hello), 0);
        plane_offer(rig.plane[THERE], rig.fabric, RIG_PEER, false, &hello.blob, rig_blob, &offer);
        cr_assert_eq(rig_await(&rig, &offer), 0);
        plane_lane_open(lane, "there", &offer.blob, rig_done, &up);
        if (drop)
            plane_lane_drop(lane, rig_done, &second);
        else
            plane_lane_hello(lane, rig_blob, &second);
        cr_assert_eq(rig_await(&rig, &second), 0);
        cr_assert(up.done && up.result.code == RDMAD_E_CANCELED);
    }
    down();
}
