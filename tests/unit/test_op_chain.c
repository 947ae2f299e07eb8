/* SPDX-License-Identifier: MIT */
/* A chain of linked ops stops at its first failure, wherever that is found, and nowhere else. */
#define BYTES 4096u
#include "tests/unit/op_routes.h"
#define LINK RDMAD_SQE_LINK
#define MORE RDMAD_SQE_MORE

static void setup(void) {
    routes_up(NULL, 31, 60 * NSEC_PER_SEC);
    for (unsigned i = 0; i < BYTES; i++)
        c.pool[i] = (uint8_t)(i + 1);
}

TestSuite(chain, .init = setup, .fini = routes_down, .timeout = 60);

/* The n-th writes byte n of the lease; offset BYTES is out of range. */
static void put_at(uint64_t lease, uint64_t n, uint64_t offset, uint8_t flags) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_WRITE,
                            .flags = flags,
                            .pool = RIG_HANDLE(0),
                            .pool_offset = n,
                            .lease = lease,
                            .lease_offset = offset,
                            .length = 1,
                            .user_data = n};
    rig_put(&c, &sqe);
}

static void put(uint64_t lease, uint64_t n, uint8_t flags) {
    put_at(lease, n, n, flags);
}

static void put_bad(uint64_t lease, uint64_t n, uint8_t flags) {
    put_at(lease, n, BYTES, flags);
}

/* What entries 0 to count - 1 ended with, in whatever order. */
static void expect(unsigned count, const int *status) {
    bool seen[64] = {false};
    for (unsigned i = 0; i < count; i++) {
        struct rdmad_cqe cqe = rig_wait(&c);
        cr_assert(cqe.user_data < count && !seen[cqe.user_data]);
        seen[cqe.user_data] = true;
        cr_assert_eq(cqe.status, status[cqe.user_data], "entry %u: %d", (unsigned)cqe.user_data,
                     cqe.status);
        cr_assert_eq(cqe.outcome, cqe.status ? RDMAD_FAILED_UNTOUCHED : RDMAD_DONE);
    }
}

#define X RDMAD_E_CANCELED
#define R RDMAD_E_RANGE

static const uint64_t leases[] = {REMOTE, LOCAL};

Test(chain, each_starts_when_the_one_before_it_is_done) {
    sim_script()->delay_max_ns = 100000;
    for (unsigned n = 0; n < 8; n++)
        put(REMOTE, n, n < 7 ? LINK : 0);
    for (unsigned n = 0; n < 8; n++) {
        struct rdmad_cqe cqe = rig_wait(&c);
        cr_assert_eq(cqe.user_data, n);
        cr_assert_eq(cqe.status, 0);
        cr_assert_eq(far[n], n + 1);
        for (unsigned i = n + 2; i < 8; i++)
            cr_assert_eq(far[i], 0, "%u was written before %u was done", i, i - 1);
    }
}

Test(chain, what_comes_after_a_refused_one_is_canceled_to_the_chains_end) {
    for (unsigned i = 0; i < 2; i++) {
        uint8_t *at = leases[i] == REMOTE ? far : near;
        put(leases[i], 0, LINK);
        put_bad(leases[i], 1, LINK);
        put(leases[i], 2, LINK);
        put(leases[i], 3, 0); /* the last of the chain */
        put(leases[i], 4, LINK);
        put(leases[i], 5, 0);
        expect(6, (int[]){0, R, X, X, 0, 0});
        cr_assert(at[0] && !at[1] && !at[2] && !at[3] && at[4] && at[5]);
    }
}

Test(chain, what_comes_after_one_that_failed_under_way_is_canceled) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_WRITE,
                            .flags = LINK,
                            .pool = RIG_HANDLE(0),
                            .lease = REMOTE,
                            .length = 1,
                            .timeout_ns = NSEC_PER_MSEC};
    rig_break(&rig);
    rig_put(&c, &sqe);
    put(LOCAL, 1, LINK);
    put(LOCAL, 2, 0);
    put(LOCAL, 3, 0);
    expect(4, (int[]){RDMAD_E_TIMEOUT, X, X, 0});
    cr_assert(!near[1] && !near[2] && near[3]);
}

/* The second link breaks before the first does, and is forgotten for that by nobody. */
Test(chain, two_links_that_break_one_after_the_other_stop_all_that_follows) {
    struct rdmad_sqe first = {.opcode = RDMAD_OP_WRITE,
                              .flags = LINK,
                              .pool = RIG_HANDLE(0),
                              .lease = REMOTE,
                              .length = 1,
                              .timeout_ns = NSEC_PER_MSEC};
    const struct rdmad_sqe cancel = {.opcode = RDMAD_OP_CANCEL, .lease = 1, .user_data = 4};
    rig_break(&rig);
    rig_put(&c, &first);
    put(LOCAL, 1, LINK);
    put(LOCAL, 2, LINK);
    put(LOCAL, 3, 0);
    rig_put(&c, &cancel);
    expect(5, (int[]){RDMAD_E_TIMEOUT, X, X, X, 0});
    cr_assert(!near[1] && !near[2] && !near[3]);
}

Test(chain, one_that_is_submitted_after_the_failure_is_canceled_all_the_same) {
    put_bad(LOCAL, 0, LINK);
    expect(1, (int[]){R});
    put(LOCAL, 0, 0);
    expect(1, (int[]){X});
    put(LOCAL, 0, 0);
    expect(1, (int[]){0});
    rig_break(&rig);
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_WRITE,
                            .flags = LINK,
                            .pool = RIG_HANDLE(0),
                            .lease = REMOTE,
                            .length = 1,
                            .timeout_ns = NSEC_PER_MSEC};
    rig_put(&c, &sqe);
    expect(1, (int[]){RDMAD_E_TIMEOUT});
    put(LOCAL, 0, LINK);
    expect(1, (int[]){X});
    put(LOCAL, 0, 0);
    expect(1, (int[]){X});
    put(LOCAL, 0, 0);
    expect(1, (int[]){0});
}

/* A refusal is known when the entry is taken, the end of what waits before it only later. */
Test(chain, a_refusal_is_not_forgotten_while_earlier_ones_wait) {
    put(REMOTE, 0, 0);
    put(REMOTE, 1, RDMAD_SQE_FENCE);
    put(REMOTE, 2, RDMAD_SQE_FENCE | LINK);
    put_bad(REMOTE, 3, LINK);
    put(REMOTE, 4, 0);
    put(REMOTE, 5, RDMAD_SQE_FENCE);
    expect(6, (int[]){0, 0, 0, R, X, 0});
    put(REMOTE, 0, RDMAD_SQE_FENCE | LINK);
    put_bad(REMOTE, 1, LINK);
    put_bad(REMOTE, 2, LINK); /* wrong itself, and told so */
    put(REMOTE, 3, 0);
    expect(4, (int[]){0, R, R, X});
}

Test(chain, entries_of_other_kinds_pass_through_it_and_a_nop_ends_it) {
    struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP, .user_data = 4};
    struct rdmad_sqe cancel = {.opcode = RDMAD_OP_CANCEL, .lease = 99, .user_data = 2};
    put(REMOTE, 0, 0);
    put_bad(LOCAL, 1, LINK);
    rig_put(&c, &cancel);
    put(LOCAL, 3, LINK);
    rig_put(&c, &nop);
    put(LOCAL, 5, 0);
    expect(6, (int[]){0, R, RDMAD_E_HANDLE, X, 0, 0});
    nop.user_data = 1;
    rig_break(&rig);
    put(REMOTE, 0, LINK);
    rig_put(&c, &nop);
    put(LOCAL, 2, 0);
    cancel.lease = 0;
    cancel.user_data = 3;
    rig_put(&c, &cancel);
    expect(4, (int[]){X, 0, 0, 0});
    nop.flags = LINK;
    nop.user_data = 0;
    rig_put(&c, &nop);
    expect(1, (int[]){RDMAD_E_RESERVED});
    put(LOCAL, 0, LINK | MORE);
    put(LOCAL, 0, 0);
    expect(1, (int[]){RDMAD_E_RESERVED}); /* the batch's one */
}

Test(chain, an_entry_that_was_never_prepared_breaks_it) {
    struct rdmad_sqe none = {.opcode = RDMAD_OP_COUNT, .flags = LINK, .user_data = 0};
    rig_put(&c, &none);
    put(LOCAL, 1, 0);
    expect(2, (int[]){RDMAD_E_OPCODE, X});
    cr_assert_eq(near[1], 0);
}

Test(chain, a_batch_is_one_link) {
    for (unsigned i = 0; i < 2; i++) {
        memset(near, 0, BYTES);
        put(leases[i], 10, MORE);
        put(LOCAL, 0, LINK);
        put(LOCAL, 11, MORE); /* 1: after one that is done */
        put(LOCAL, 1, LINK);
        put_bad(leases[i], 12, MORE); /* 2: fails by its first member */
        put(LOCAL, 2, LINK);
        put(LOCAL, 13, MORE); /* 3: canceled whole */
        put(LOCAL, 14, MORE);
        put(LOCAL, 3, LINK);
        put(LOCAL, 4, 0);
        put(LOCAL, 5, 0);
        struct rdmad_cqe cqe;
        const int status[] = {0, 0, R, X, X, 0};
        for (unsigned n = 0; n < 6; n++) {
            cqe = rig_wait(&c);
            cr_assert_lt(cqe.user_data, 6);
            cr_assert_eq(cqe.status, status[cqe.user_data], "%u: %d", (unsigned)cqe.user_data,
                         cqe.status);
        }
        cr_assert(near[11] && near[1] && near[2] && near[5]);
        cr_assert(!near[13] && !near[14] && !near[3] && !near[4]);
        nothing_comes_for(NSEC_PER_MSEC);
    }
}

Test(chain, a_canceled_link_breaks_it_and_silent_ones_are_heard_of_then) {
    struct rdmad_sqe cancel = {.opcode = RDMAD_OP_CANCEL, .lease = 0, .user_data = 3};
    rig_break(&rig);
    put(REMOTE, 0, LINK);
    put(LOCAL, 1, LINK | RDMAD_SQE_SILENT);
    put(LOCAL, 2, 0);
    rig_put(&c, &cancel);
    expect(4, (int[]){X, X, X, 0});
    put(LOCAL, 1, LINK | RDMAD_SQE_SILENT);
    put(LOCAL, 0, 0);
    expect(1, (int[]){0});
    nothing_comes_for(NSEC_PER_MSEC);
}

/* Of the entries that have this user_data; its own is n. */
static void cancel(uint64_t n, uint64_t user_data) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_CANCEL, .lease = user_data, .user_data = n};
    rig_put(&c, &sqe);
    rig_settle(&rig);
}

/* Entry 0 is under way until it is canceled, and entry 1 waits for it behind a fence. */
static void hold_back(void) {
    rig_break(&rig);
    put(REMOTE, 0, 0);
    put(LOCAL, 1, RDMAD_SQE_FENCE);
}

/* What follows such a batch knows, and nothing that waits is looked at for it. */
Test(chain, batches_of_refused_entries_break_it_and_leave_what_waits_alone) {
    hold_back();
    put(LOCAL, 2, LINK);
    put(LOCAL, 3, 0);
    put_bad(LOCAL, 20, MORE);
    put_bad(LOCAL, 4, LINK);
    put_bad(LOCAL, 20, MORE);
    put_bad(LOCAL, 5, LINK);
    put(LOCAL, 20, MORE); /* good, and canceled for what it follows */
    put(LOCAL, 6, LINK);
    put(LOCAL, 7, 0);
    put(LOCAL, 8, LINK); /* another chain */
    put(LOCAL, 9, 0);
    cancel(10, 0);
    expect(11, (int[]){X, 0, 0, 0, R, R, X, X, 0, 0, 0});
    cr_assert(near[3] && near[9] && !near[20] && !near[7]);
}

/* What follows them is told as they are taken, or was never there. Their end, from the last to the
 * first, is nobody's who waits. */
Test(chain, batches_with_a_refused_end_are_canceled_from_the_last) {
    struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP, .user_data = 4};
    hold_back();
    put(LOCAL, 20, MORE);
    put_bad(LOCAL, 2, LINK);
    put(LOCAL, 3, 0);
    rig_put(&c, &nop);
    put(LOCAL, 21, MORE);
    put_bad(LOCAL, 5, LINK);
    nop.user_data = 6;
    rig_put(&c, &nop);
    put(LOCAL, 7, LINK);
    put(LOCAL, 8, 0);
    put(LOCAL, 22, MORE);
    put_bad(LOCAL, 9, LINK);
    cancel(10, 22);
    put(LOCAL, 11, LINK); /* follows the last */
    put(LOCAL, 12, 0);
    put(LOCAL, 13, 0);
    cancel(14, 21);
    cancel(15, 20);
    cancel(16, 0);
    expect(17, (int[]){X, 0, X, X, 0, X, 0, 0, 0, X, 0, X, X, 0, 0, 0, 0});
    cr_assert(near[7] && near[8] && near[13]);
    cr_assert(!near[20] && !near[21] && !near[22] && !near[3] && !near[11] && !near[12]);
}

/* Its end comes later, refused or good, and starts in the second case: it was not done. */
Test(chain, a_batch_of_which_one_timed_out_before_its_end_came_breaks_it) {
    const struct rdmad_sqe late = {.opcode = RDMAD_OP_WRITE,
                                   .flags = MORE,
                                   .pool = RIG_HANDLE(0),
                                   .lease = LOCAL,
                                   .lease_offset = 20,
                                   .length = 1,
                                   .timeout_ns = NSEC_PER_MSEC};
    for (unsigned good = 0; good < 2; good++) {
        memset(near, 0, BYTES);
        hold_back();
        rig_put(&c, &late);
        nothing_comes_for(10 * NSEC_PER_MSEC);
        put_at(LOCAL, 2, good ? 2 : BYTES, LINK);
        put(LOCAL, 3, 0);
        put(LOCAL, 4, 0);
        cancel(5, 0);
        const int status[] = {X, 0, RDMAD_E_TIMEOUT, X, 0, 0};
        for (unsigned i = 0; i < 6; i++) {
            struct rdmad_cqe cqe = rig_wait(&c);
            cr_assert_eq(cqe.status, status[cqe.user_data], "entry %u: %d", (unsigned)cqe.user_data,
                         cqe.status);
        }
        cr_assert(near[2] == (good ? 3 : 0) && !near[3] && near[4]);
    }
}

/* A link breaks before what follows it is taken, and that waits behind the fence when a second
 * link does. */
Test(chain, two_links_break_whose_followers_come_later) {
    hold_back();
    put(LOCAL, 2, LINK);
    cancel(3, 2);
    put(LOCAL, 4, 0); /* follows 2 */
    put(LOCAL, 5, LINK);
    cancel(6, 5);
    put(LOCAL, 7, LINK); /* follows 5 */
    put(LOCAL, 8, 0);
    put(LOCAL, 9, 0);
    cancel(10, 0);
    expect(11, (int[]){X, 0, X, 0, X, X, 0, X, X, 0, 0});
    cr_assert(near[1] && near[9] && !near[4] && !near[7] && !near[8]);
}

/* What of a batch ends, or never is, before the link that it follows. */
enum before { NOTHING, FIRST, SECOND, CANCELED_FIRST, CANCELED_SECOND, NO_LINK, TOO_LATE, WAYS };

static void put_batch_behind_link(enum before way) {
    const struct rdmad_sqe recv = {
        .opcode = RDMAD_OP_RECV, .flags = MORE, .pool = RIG_HANDLE(0), .user_data = 20};
    const struct rdmad_sqe link = {.opcode = RDMAD_OP_WRITE,
                                   .flags = LINK,
                                   .pool = RIG_HANDLE(0),
                                   .lease = REMOTE,
                                   .length = 1,
                                   .timeout_ns = 5 * NSEC_PER_MSEC};
    rig_put(&c, &link);
    if (way == NO_LINK)
        rig_put(&c, &recv);
    else
        put_at(LOCAL, 20, way == FIRST ? BYTES : 20, MORE);
    if (way == TOO_LATE) /* the link is over before the batch is there */
        rig_run_until(&rig, sim_now() + 10 * NSEC_PER_MSEC);
    put_at(LOCAL, 21, way == SECOND ? BYTES : 21, MORE);
    put(LOCAL, 1, LINK);
    if (way == CANCELED_FIRST)
        cancel(4, 20);
    if (way == CANCELED_SECOND)
        cancel(4, 21);
    put(LOCAL, 2, 0);
    put(LOCAL, 3, 0);
}

/* It waits for the link all the same, and if that breaks nothing of it starts. */
Test(chain, a_batch_of_which_some_is_over_follows_its_link) {
    for (enum before way = NOTHING; way < WAYS; way++) {
        unsigned count = 0;
        memset(near, 0, BYTES);
        rig_break(&rig);
        put_batch_behind_link(way);
        rig_settle(&rig);
        cr_assert(!near[20] && !near[21] && !near[1], "%u: it ran too early", way);
        rig_run_until(&rig, sim_now() + 10 * NSEC_PER_MSEC);
        cr_assert(!near[20] && !near[21] && !near[1] && !near[2], "%u: it ran", way);
        cr_assert(near[3], "%u", way);
        for (struct rdmad_cqe cqe; rig_take(&c, &cqe); count++)
            cr_assert_eq(cqe.outcome, cqe.user_data < 3 ? RDMAD_FAILED_UNTOUCHED : RDMAD_DONE, "%u",
                         way);
        cr_assert_eq(count, way == CANCELED_FIRST || way == CANCELED_SECOND ? 5 : 4);
    }
}

/* And if it is done, the others of the batch run, together. */
Test(chain, a_batch_of_which_some_is_over_runs_when_its_link_is_done) {
    put(REMOTE, 0, LINK);
    put_bad(LOCAL, 20, MORE);
    put(LOCAL, 21, MORE);
    put(REMOTE, 22, MORE); /* takes longer than all */
    put(LOCAL, 1, 0);
    cr_assert(!near[21] && !near[1]);
    while (!near[1])
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_SEC));
    cr_assert(far[0] && near[21] && !far[22], "it waits for more than its link");
    for (unsigned i = 0; i < 2; i++) {
        struct rdmad_cqe cqe = rig_wait(&c);
        cr_assert_eq(cqe.status, cqe.user_data ? R : 0);
        cr_assert_eq(cqe.bytes, cqe.user_data ? 3 : 1);
    }
}

/* Whatever a client makes of chains: each entry ends once, and what follows one that was not done
 * is not done either. */
Test(chain, at_random_none_starts_behind_a_broken_link) {
    enum { COUNT = 20000 };
    static bool linked[COUNT], done[COUNT], ended[COUNT];
    uint32_t put_ = 0, out = 0, failed = 0;
    sim_script()->delay_max_ns = 20000;
    while (put_ < COUNT || out) {
        for (uint64_t n = 1 + sim_random(20); n && put_ < COUNT && out < 60; n--, out++) {
            uint64_t lease = sim_random(2) ? REMOTE : LOCAL, dice = sim_random(16);
            linked[put_] = put_ < COUNT - 1 && sim_random(4);
            uint8_t flags =
                (uint8_t)((linked[put_] ? LINK : 0) | (sim_random(8) ? 0 : RDMAD_SQE_FENCE));
            struct rdmad_sqe sqe = {.opcode = dice == 1 ? RDMAD_OP_READ : RDMAD_OP_WRITE,
                                    .flags = flags,
                                    .pool = RIG_HANDLE(0),
                                    .lease = lease,
                                    .lease_offset = dice ? 0 : BYTES,
                                    .length = 1 + sim_random(500) * (dice != 0),
                                    .user_data = put_++};
            rig_put(&c, &sqe);
        }
        struct rdmad_cqe cqe = rig_wait(&c);
        cr_assert_not(ended[cqe.user_data]);
        ended[cqe.user_data] = true;
        done[cqe.user_data] = !cqe.status;
        failed += cqe.status == RDMAD_E_CANCELED;
        out--;
    }
    for (uint32_t n = 1; n < COUNT; n++)
        cr_assert(!linked[n - 1] || done[n - 1] || !done[n], "%u ran behind a broken link", n);
    cr_expect_gt(failed, COUNT / 50);
}

struct unit {
    bool linked, done, canceled, untouched, ended, after_nop;
};

/* One entry, or up to four as a batch, of which some are refused and some are not done in time. */
static void put_unit(uint32_t n, bool linked, uint32_t entries) {
    for (uint32_t i = 1; i <= entries; i++) {
        struct rdmad_sqe sqe = {.opcode = RDMAD_OP_WRITE,
                                .flags = i < entries ? MORE
                                         : linked    ? LINK
                                                     : 0,
                                .pool = RIG_HANDLE(0),
                                .lease = sim_random(2) ? REMOTE : LOCAL,
                                .lease_offset = sim_random(8) ? 0 : BYTES,
                                .length = 1,
                                .user_data = n};
        sqe.flags |= (uint8_t)(sim_random(4) ? 0 : RDMAD_SQE_FENCE);
        if (!sim_random(3))
            sqe.timeout_ns = 1 + sim_random(10 * NSEC_PER_MSEC);
        rig_put(&c, &sqe);
    }
}

/* And with batches, and what ends while it waits, in any order: none is canceled but for the link
 * before it. */
Test(chain, at_random_a_broken_link_stops_what_follows_it_and_nothing_else) {
    enum { COUNT = 20000, NOP = 1 << 20 };
    static struct unit units[COUNT];
    const struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP, .user_data = NOP};
    uint32_t count = 0, out = 0, stopped = 0;
    sim_script()->delay_max_ns = 5 * NSEC_PER_MSEC;
    while (count < RIG_COUNT(COUNT) || out) {
        for (uint64_t n = 1 + sim_random(8); n && count < RIG_COUNT(COUNT) && out < 12; n--) {
            struct unit *u = &units[count];
            u->linked = sim_random(4);
            u->after_nop = !sim_random(8);
            if (u->after_nop)
                rig_put(&c, &nop);
            put_unit(count++, u->linked, 1 + (uint32_t)sim_random(4));
            out++;
        }
        struct rdmad_cqe cqe = rig_wait(&c);
        if (cqe.user_data == NOP)
            continue;
        struct unit *u = &units[cqe.user_data];
        cr_assert_not(u->ended);
        u->ended = true;
        u->done = !cqe.status;
        out--;
        u->canceled = cqe.status == RDMAD_E_CANCELED;
        u->untouched = cqe.outcome == RDMAD_FAILED_UNTOUCHED;
        stopped += u->canceled;
    }
    for (uint32_t n = 1; n < RIG_COUNT(COUNT); n++) {
        bool broken = units[n - 1].linked && !units[n - 1].done && !units[n].after_nop;
        cr_assert(!broken || units[n].untouched, "%u ran behind a broken link", n);
        cr_assert(broken || !units[n].canceled, "%u was canceled behind none", n);
    }
    cr_expect_gt(stopped, RIG_COUNT(COUNT) / 20);
}
