/* SPDX-License-Identifier: MIT */
/* A lane whose peer goes, and comes back: it rests, it has no link, its leases are given again, and
 * what its device refused meanwhile. */
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define BYTES (256u * 1024u)
#define REMOTE RIG_HANDLE(3)

static struct rig rig;
static struct rig_client c;
static struct rig_remote remote;
static uint8_t far[BYTES], copy[BYTES];

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 12);
    sim_script()->chunk = 512;
    rig_client_up(&rig, &c, 64, 128, BYTES);
    rig_remote_up(&rig, &remote, far, BYTES, RDMAD_RIGHTS_ALL, sim_now() + 60 * NSEC_PER_SEC);
    rig_lease(&c, &remote, REMOTE, 900, RDMAD_RIGHTS_ALL);
    memset(c.pool, 'c', BYTES);
    memset(far, 'f', BYTES);
}

TestSuite(lane_return, .init = setup, .timeout = 60);

static void down(void) {
    rig_client_down(&c);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

static void put(uint8_t opcode, uint64_t at, uint64_t length) {
    struct rdmad_sqe sqe = {.opcode = opcode,
                            .pool = RIG_HANDLE(0),
                            .pool_offset = at,
                            .lease = REMOTE,
                            .lease_offset = at,
                            .length = length};
    rig_put(&c, &sqe);
}

/* A long one that has come as far as its midst. */
static void begin(uint8_t opcode) {
    put(opcode, 0, BYTES);
    rig_run_until(&rig, sim_now() + 20000);
    cr_assert_gt(sim_inflight(), 0);
}

static void nothing_moves(void) {
    memcpy(copy, far, BYTES);
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    cr_assert_eq(memcmp(copy, far, BYTES), 0, "a byte changed afterwards");
}

static void rebuild(void) {
    rig_rebuild(&rig, &remote);
    rig_key(&c, &remote, REMOTE);
}

static int rest(void) {
    struct rig_answer rested = {0};
    plane_lane_rest(remote.lane, rig_done, &rested);
    return rig_await(&rig, &rested);
}

Test(lane_return, a_lane_at_rest_ends_what_is_posted_and_posts_nothing_more) {
    begin(RDMAD_OP_WRITE);
    put(RDMAD_OP_READ, BYTES - 64, 64);
    cr_assert_eq(rest(), RDMAD_E_BUSY, "parts are under way");
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    cr_assert_eq(rest(), 0);
    cr_assert_eq(sim_inflight(), 0);
    put(RDMAD_OP_READ, 0, 64);
    nothing_moves();
    cr_assert_eq(sim_inflight(), 0, "nothing is posted at rest");
    rig_break(&rig);
    rebuild();
    for (int i = 0; i < 3; i++)
        cr_assert_eq(rig_wait(&c).status, 0, "each goes on by the next link");
    cr_assert_eq(memcmp(c.pool, far, BYTES), 0, "all of it is there");
    down();
}

Test(lane_return, an_unlinked_lane_keeps_what_can_be_done_again) {
    begin(RDMAD_OP_READ);
    struct rig_answer unlinked = {0};
    plane_lane_unlink(remote.lane, rig_done, &unlinked);
    cr_assert_eq(rig_await(&rig, &unlinked), 0);
    cr_assert_eq(sim_inflight(), 0);
    cr_assert_eq(rig.lanes_lost, 0, "who unlinks it knows");
    put(RDMAD_OP_WRITE, 0, 64);
    nothing_moves();
    rebuild();
    cr_assert_eq(rig_wait(&c).status, 0);
    cr_assert_eq(rig_wait(&c).status, 0);
    down();
}

Test(lane_return, a_lease_that_returns_lasts_as_long_as_its_owner_says) {
    struct rig_answer unlinked = {0};
    plane_lane_unlink(remote.lane, rig_done, &unlinked);
    cr_assert_eq(rig_await(&rig, &unlinked), 0);
    put(RDMAD_OP_READ, 0, 64);
    plane_lease_return(c.session, REMOTE, sim_now() + 5 * NSEC_PER_MSEC, 42);
    rig_run_until(&rig, sim_now() + 6 * NSEC_PER_MSEC);
    cr_assert_eq(rig_wait(&c).status, RDMAD_E_LEASE_EXPIRED, "earlier than before");
    down();
}

/* ---- what a device refuses ----------------------------------------------------------------- */

/* All at once, so that many are refused before the link is seen to be lost. */
static void refuse_from_now(void) {
    sim_script()->delay_max_ns = sim_script()->delay_min_ns;
    sim_script()->refusal_breaks = true;
    sim_script()->refuse_status = RDMAD_E_NO_LEASE;
    sim_script()->refuse_ppm = 1000000;
}

static void refusal_costs_link(void) {
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    struct rdmad_cqe cqe;
    cr_assert_not(rig_take(&c, &cqe), "told before its cause is known: %d", cqe.status);
    cr_assert_eq(rig.lanes_lost, 1);
    sim_script()->refuse_ppm = 0;
}

Test(lane_return, what_a_dying_daemons_device_refuses_goes_on_with_the_next_key) {
    refuse_from_now();
    put(RDMAD_OP_WRITE, 0, 64);
    put(RDMAD_OP_READ, 64, BYTES - 64); /* in many parts, each of which may be refused */
    refusal_costs_link();
    rebuild();
    cr_assert_eq(rig_wait(&c).status, 0);
    cr_assert_eq(rig_wait(&c).status, 0);
    cr_assert_eq(memcmp(c.pool, far, BYTES), 0, "all of it is there");
    down();
}

Test(lane_return, what_a_device_refuses_as_its_lease_ends_says_why_it_ended) {
    refuse_from_now();
    put(RDMAD_OP_WRITE, 0, 64);
    refusal_costs_link();
    struct rig_answer ended = {0};
    plane_lease_end(c.session, REMOTE, RDMAD_E_LEASE_REVOKED, rig_done, &ended);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.status, RDMAD_E_LEASE_REVOKED, "%d", cqe.status);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
    down();
}

Test(lane_return, what_a_device_refuses_after_the_end_was_told_says_so_at_once) {
    refuse_from_now();
    put(RDMAD_OP_WRITE, 0, 64);
    rig_run_until(&rig, sim_now() + 1); /* it is posted, so the end lets it land */
    cr_assert_eq(sim_inflight(), 1);
    struct rig_answer ended = {0};
    plane_lease_end(c.session, REMOTE, RDMAD_E_LEASE_REVOKED, rig_done, &ended);
    uint64_t at = sim_now();
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_lt(sim_now(), at + NSEC_PER_MSEC);
    cr_assert_eq(cqe.status, RDMAD_E_LEASE_REVOKED, "%d", cqe.status);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    down();
}

Test(lane_return, what_a_device_refuses_with_the_next_key_too_is_refused_for_good) {
    refuse_from_now();
    put(RDMAD_OP_WRITE, 0, 64);
    refusal_costs_link();
    sim_script()->refuse_ppm = 1000000;
    rebuild();
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert(cqe.status == RDMAD_E_NO_LEASE && cqe.outcome == RDMAD_FAILED_UNTOUCHED, "%d",
              cqe.status);
    down();
}

Test(lane_return, a_write_that_a_device_refuses_in_its_midst_is_not_done_again) {
    begin(RDMAD_OP_WRITE);
    refuse_from_now();
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert(cqe.status == RDMAD_E_PEER_LOST && cqe.outcome == RDMAD_FAILED_PARTIAL, "%d %u",
              cqe.status, cqe.outcome);
    sim_script()->refuse_ppm = 0;
    rebuild();
    nothing_moves();
    down();
}
