/* SPDX-License-Identifier: MIT */
/* How long ops took is known to the nanosecond of the scripted clock, and each failure's status. */
#define BYTES 65536u
#include "tests/unit/op_routes.h"

static struct rdmad_sqe sqe_of(uint8_t opcode, uint64_t lease, uint64_t length) {
    return (struct rdmad_sqe){
        .opcode = opcode, .pool = RIG_HANDLE(0), .lease = lease, .length = length};
}

static uint64_t count_of(uint8_t opcode, enum plane_route route, uint64_t *sum_ns) {
    struct histogram h;
    plane_latency(rig.plane[HERE], opcode, route, &h);
    *sum_ns = h.sum_ns;
    return histogram_count(&h);
}

/* What ended in the last turn counts when the next begins. */
static void one_more_turn(void) {
    rig_run_until(&rig, sim_now() + 1);
    rig_settle(&rig);
}

Test(tally, an_op_by_a_link_took_as_long_as_its_way) {
    routes_up(NULL, 1, CLOCK_NEVER);
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = 70000;
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, 64);
    uint64_t before = sim_now(), sum_ns;
    cr_assert_eq(rig_do(&c, &sqe).status, 0);
    uint64_t took = sim_now() - before;
    one_more_turn();
    cr_assert_eq(count_of(RDMAD_OP_WRITE, PLANE_LINK, &sum_ns), 1);
    cr_expect_geq(took, 70000);
    cr_expect(sum_ns >= took && sum_ns <= took + 1, "%lu, not %lu", sum_ns, took);
    cr_expect_eq(count_of(RDMAD_OP_WRITE, PLANE_LOCAL, &sum_ns), 0);
    cr_expect_eq(count_of(RDMAD_OP_READ, PLANE_LINK, &sum_ns), 0);

    struct plane_tally tally;
    struct plane_lane_stats stats;
    plane_session_tally(c.session, &tally);
    cr_expect(histogram_count(&tally.latency) == 1 && tally.latency.sum_ns >= took);
    plane_lane_stats(remote.lane, &stats);
    cr_expect(stats.ops == 1 && stats.bytes_written == 64 && stats.ops_failed == 0);
    cr_expect(histogram_count(&stats.latency) == 1 && stats.latency.sum_ns >= took);
    routes_down();
}

Test(tally, what_begins_and_ends_in_one_turn_counts_until_the_next) {
    routes_up(NULL, 1, CLOCK_NEVER);
    uint64_t sum_ns;
    for (unsigned i = 0; i < 5; i++) {
        struct rdmad_sqe sqe = sqe_of(i < 3 ? RDMAD_OP_READ : RDMAD_OP_WRITE, LOCAL, 64);
        rig_put(&c, &sqe);
    }
    struct worker *w = &rig.plane[HERE]->worker[0];
    worker_turn(w, sim_now());
    cr_expect_eq(w->latency.count, 2, "reads are one note, writes another");
    worker_turn(w, sim_now() + 250);
    cr_assert_eq(count_of(RDMAD_OP_READ, PLANE_LOCAL, &sum_ns), 3);
    cr_expect_eq(sum_ns, 3 * 250);
    cr_assert_eq(count_of(RDMAD_OP_WRITE, PLANE_LOCAL, &sum_ns), 2);
    cr_expect_eq(sum_ns, 2 * 250);
    routes_down();
}

Test(tally, more_kinds_in_a_turn_than_there_are_notes_are_all_counted) {
    enum { SESSIONS = LATENCY_NOTES / 4, OPS = 8 };
    static struct rig_client many[SESSIONS];
    uint64_t sum_ns;
    routes_up(NULL, 1, CLOCK_NEVER);
    for (unsigned i = 0; i < SESSIONS; i++) {
        rig_client_up(&rig, &many[i], OPS, OPS, 4096);
        rig_lease_local(&many[i], LOCAL, 901, near, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &audit);
    }
    rig_settle(&rig);
    /* Each is of another kind than the one before. */
    for (unsigned i = 0; i < SESSIONS * OPS; i++) {
        struct rdmad_sqe sqe = sqe_of(i % 2 ? RDMAD_OP_WRITE : RDMAD_OP_READ, LOCAL, 8);
        rig_put(&many[i / OPS], &sqe);
    }
    worker_turn(&rig.plane[HERE]->worker[0], sim_now());
    cr_assert_gt(count_of(RDMAD_OP_WRITE, PLANE_LOCAL, &sum_ns), 0, "there was room for all");
    rig_settle(&rig);
    one_more_turn();
    cr_expect_eq(count_of(RDMAD_OP_WRITE, PLANE_LOCAL, &sum_ns), SESSIONS * OPS / 2);
    cr_expect_eq(count_of(RDMAD_OP_READ, PLANE_LOCAL, &sum_ns), SESSIONS * OPS / 2);
    for (unsigned i = 0; i < SESSIONS; i++)
        rig_client_down(&many[i]);
    routes_down();
}

Test(tally, a_failure_counts_by_its_status_and_not_as_time) {
    routes_up(NULL, 1, CLOCK_NEVER);
    struct rdmad_sqe late = sqe_of(RDMAD_OP_WRITE, REMOTE, 8);
    late.timeout_ns = 1000;
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = 1000000;
    cr_assert_eq(rig_do(&c, &late).status, RDMAD_E_TIMEOUT);
    struct rdmad_sqe beyond = sqe_of(RDMAD_OP_READ, LOCAL, 2 * BYTES);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(rig_do(&c, &beyond).status, RDMAD_E_RANGE);
    one_more_turn();

    uint64_t failed[PLANE_CODES], sum_ns;
    struct plane_tally tally;
    plane_failures(rig.plane[HERE], failed);
    plane_session_tally(c.session, &tally);
    cr_expect(failed[-RDMAD_E_TIMEOUT] == 1 && failed[-RDMAD_E_RANGE] == 3 && failed[0] == 0);
    cr_expect_eq(memcmp(failed, tally.failed, sizeof(failed)), 0);
    struct plane_lane_stats lane;
    plane_lane_stats(remote.lane, &lane);
    cr_expect(lane.ops_failed == 1 && lane.failed[-RDMAD_E_TIMEOUT] == 1);
    cr_expect_eq(lane.failed[-RDMAD_E_RANGE], 0, "it never went by the link");
    cr_expect_eq(histogram_count(&tally.latency), 0);
    cr_expect_eq(count_of(RDMAD_OP_WRITE, PLANE_LINK, &sum_ns), 0);
    routes_down();
}

static uint64_t lane_queue(void) {
    struct plane_lane_stats stats;
    plane_lane_stats(remote.lane, &stats);
    return stats.ops_inflight;
}

/* Under way, behind a fence, with or without a part posted: until its completion. */
Test(tally, a_links_queue_is_what_was_taken_and_has_not_ended) {
    routes_up(NULL, 1, CLOCK_NEVER);
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = 70000;
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, 64),
                     local = sqe_of(RDMAD_OP_READ, LOCAL, 64);
    rig_put(&c, &sqe);
    sqe.flags = RDMAD_SQE_FENCE;
    rig_put(&c, &sqe);
    sqe.timeout_ns = 1000; /* it ends behind the fence */
    rig_put(&c, &sqe);
    rig_put(&c, &local);
    rig_settle(&rig);
    cr_expect_eq(lane_queue(), 3, "%lu", lane_queue());
    for (unsigned i = 0; i < 4; i++)
        rig_wait(&c);
    cr_expect_eq(lane_queue(), 0, "%lu", lane_queue());
    routes_down();
}

/* The notes of a session that ends in the turn of its last op point to it, who is freed when that
 * is answered. */
static unsigned answered, noted;
static uint64_t last_ops, last_times; /* of that session, as it is answered */

static void answer(void *arg, const struct error *result) {
    const struct worker *w = &rig.plane[HERE]->worker[0];
    struct histogram times = {0};
    (void)result;
    answered++;
    plane_session_latency(arg, &times);
    last_times = histogram_count(&times);
    last_ops = plane_session_stats_now(arg).ops;
    for (unsigned i = 0; i < w->latency.count; i++)
        noted += w->latency.notes[i].session->id == RIG_SESSION + 1;
}

/* A turn of each worker, after which the control thread is at once. */
static void turn_and_hear(void) {
    for (int i = 0; i < 2; i++) {
        struct worker *w = &rig.plane[i]->worker[0];
        op_fabric_wake(RIG_FABRIC(rig, w), sim_now());
        worker_turn(w, sim_now());
        mailbox_drain(&rig.control);
    }
    sim_advance(10000);
}

Test(tally, a_session_that_ends_leaves_no_note_of_itself) {
    unsigned done = 0;
    for (uint64_t wait_ns = 100000; wait_ns <= 3000000; wait_ns += 100000) {
        uint64_t sum_ns, failed[PLANE_CODES];
        struct rig_client ends;
        answered = noted = 0;
        routes_up(NULL, wait_ns, CLOCK_NEVER);
        rig_client_up(&rig, &ends, 2, 2, 4096);
        rig_lease(&ends, &remote, REMOTE, RIG_LEASE, RDMAD_RIGHTS_ALL);
        sim_script()->lazy_cancel = true; /* so it may be done all the same */
        sim_script()->delay_min_ns = sim_script()->delay_max_ns = 1000000;
        struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, 64);
        rig_put(&ends, &sqe);
        rig_settle(&rig);
        rig_run_until(&rig, sim_now() + wait_ns);
        plane_session_drop(ends.session, answer, ends.session);
        for (unsigned i = 0; !answered && i < 100000; i++)
            turn_and_hear();
        cr_assert(answered);
        cr_expect_eq(noted, 0, "after %lu ns a note points to a session that is gone", wait_ns);
        cr_expect_eq(last_ops, 1, "its last op counts when the drop is answered");
        rig_client_free(&ends);
        one_more_turn();
        uint64_t count = count_of(RDMAD_OP_WRITE, PLANE_LINK, &sum_ns);
        plane_failures(rig.plane[HERE], failed);
        cr_expect_eq(count + failed[-RDMAD_E_CANCELED], 1);
        cr_expect_eq(last_times, count, "after %lu ns the time of its last op is %s", wait_ns,
                     count ? "missing" : "one too many");
        done += (unsigned)count;
        routes_down();
    }
    cr_expect(done > 10 && done < 30, "%u of 30 were done", done);
}

Test(tally, the_last_failures_are_told_in_their_order) {
    struct plane_failure failed[PLANE_FAILURES];
    routes_up(NULL, 1, CLOCK_NEVER);
    cr_expect_eq(plane_session_failures(c.session, failed), 0);
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_READ, LOCAL, 2 * BYTES);
    for (unsigned i = 0; i < 20; i++) {
        sqe.user_data = i;
        sqe.lease_offset = 8 * i;
        cr_assert_eq(rig_do(&c, &sqe).status, RDMAD_E_RANGE);
    }
    struct rdmad_sqe late = sqe_of(RDMAD_OP_WRITE, REMOTE, 8);
    late.timeout_ns = 1000;
    late.user_data = 20;
    late.lease_offset = 16;
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = 1000000;
    cr_assert_eq(rig_do(&c, &late).status, RDMAD_E_TIMEOUT);
    unsigned count = plane_session_failures(c.session, failed);
    cr_assert_eq(count, PLANE_FAILURES - 1, "the oldest might be written over, and is left out");
    for (unsigned i = 0; i < count; i++)
        cr_expect_eq(failed[i].user_data, 21 - count + i);
    const struct plane_failure *last = &failed[count - 1], *refused = &failed[0];
    cr_expect(last->status == RDMAD_E_TIMEOUT && last->opcode == RDMAD_OP_WRITE);
    cr_expect(last->route == PLANE_LINK && last->lease == RIG_LEASE && last->length == 8);
    cr_expect(last->outcome != RDMAD_DONE && last->at_ns);
    cr_expect(last->offset == 16 && refused->offset == 8 * refused->user_data, "%lu and %lu",
              last->offset, refused->offset);
    cr_expect(refused->status == RDMAD_E_RANGE && refused->lease == 901);
    cr_expect(refused->outcome == RDMAD_FAILED_UNTOUCHED && refused->length == 2 * BYTES);
    cr_expect(last->peer == RIG_OWNER && !strcmp(last->node, "there"), "%lu %s", last->peer,
              last->node);
    cr_expect(refused->peer == 0 && !refused->node[0], "it went nowhere");
    struct rdmad_sqe beyond = sqe_of(RDMAD_OP_READ, REMOTE, 2 * BYTES);
    cr_assert_eq(rig_do(&c, &beyond).status, RDMAD_E_RANGE);
    count = plane_session_failures(c.session, failed);
    cr_expect_eq(failed[count - 1].peer, RIG_OWNER, "to whom it would have gone");
    routes_down();
}

Test(tally, who_listens_hears_of_a_failure_once_until_it_has_looked) {
    uint64_t failed[PLANE_CODES];
    struct plane_failure recent[PLANE_FAILURES];
    routes_up(NULL, 1, CLOCK_NEVER);
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_READ, LOCAL, 2 * BYTES);
    struct rdmad_sqe in_vain = {.opcode = RDMAD_OP_CANCEL, .user_data = 4711};
    cr_assert_neq(rig_do(&c, &in_vain).status, 0);
    rig_settle(&rig);
    cr_expect_eq(rig.failed, 0, "a CANCEL in vain is nothing to tell");
    for (unsigned i = 0; i < 12; i++)
        cr_assert_eq(rig_do(&c, &sqe).status, RDMAD_E_RANGE);
    rig_settle(&rig);
    cr_expect_eq(rig.failed, 1, "told %u times before anybody looked", rig.failed);
    plane_session_hear_failures(c.session);
    plane_session_failed(c.session, failed);
    cr_expect_eq(failed[-RDMAD_E_RANGE], 12);
    unsigned count = plane_session_failures(c.session, recent);
    for (unsigned i = 0; i < count; i++)
        cr_expect_eq(recent[i].nth, 13 - count + i, "the %luth", recent[i].nth);
    rig_settle(&rig);
    cr_expect_eq(rig.failed, 1, "there is nothing new");
    cr_assert_eq(rig_do(&c, &sqe).status, RDMAD_E_RANGE);
    rig_settle(&rig);
    cr_expect_eq(rig.failed, 2);
    routes_down();
}

/* It is one mail, and may not be in the mailbox twice. */
Test(tally, a_look_while_the_mail_is_under_way_has_no_second_one_posted) {
    unsigned mails = 0;
    struct rdmad_cqe cqe;
    routes_up(NULL, 1, CLOCK_NEVER);
    struct op_session *s = &c.session->op;
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_READ, LOCAL, 2 * BYTES);
    rig_settle(&rig);
    for (unsigned i = 0; i < 3; i++) {
        rig_put(&c, &sqe);
        for (unsigned turn = 0; turn < 100 && !rig_take(&c, &cqe); turn++)
            worker_turn(s->worker, sim_now()); /* and nobody reads the control thread's mail */
        cr_assert_eq(cqe.status, RDMAD_E_RANGE);
        plane_session_hear_failures(c.session);
    }
    for (struct mail *mail = rig.control.head; mail && mails < 10; mail = mail->next)
        mails += mail == &s->failed_mail;
    cr_assert_eq(mails, 1, "%u mails", mails);
    rig_settle(&rig);
    cr_expect_eq(rig.failed, 1, "told %u times", rig.failed);
    cr_assert_eq(rig_do(&c, &sqe).status, RDMAD_E_RANGE);
    rig_settle(&rig);
    cr_expect_eq(rig.failed, 2, "what comes after is told, too");
    routes_down();
}
