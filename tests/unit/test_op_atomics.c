/* SPDX-License-Identifier: MIT */
/* CAS and FADD: the value that was there, once, whatever becomes of the link. */
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define WORDS 512u
#define REMOTE RIG_HANDLE(3)
#define LOCAL RIG_HANDLE(5)

static struct rig rig;
static struct rig_client c;
static struct rig_remote remote;
static uint64_t far[WORDS], near[WORDS];
static struct fabric_audit audit;

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 17);
    uint64_t deadline_ns = sim_now() + 60 * NSEC_PER_SEC;
    rig_client_up(&rig, &c, 64, 128, 4096);
    rig_remote_up(&rig, &remote, far, sizeof(far), RDMAD_RIGHTS_ALL, deadline_ns);
    rig_lease(&c, &remote, REMOTE, RIG_LEASE, RDMAD_RIGHTS_ALL);
    rig_lease_local(&c, LOCAL, 901, near, sizeof(near), RDMAD_RIGHTS_ALL, deadline_ns, &audit);
}

TestSuite(atomics, .init = setup, .timeout = 60);

static void down(void) {
    rig_client_down(&c);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

static struct rdmad_sqe cas_of(uint64_t lease, uint64_t word, uint64_t compare, uint64_t swap) {
    return (struct rdmad_sqe){.opcode = RDMAD_OP_CAS,
                              .lease = lease,
                              .lease_offset = 8 * word,
                              .length = 8,
                              .compare = compare,
                              .swap = swap};
}

static struct rdmad_sqe fadd_of(uint64_t lease, uint64_t word, uint64_t add) {
    struct rdmad_sqe sqe = cas_of(lease, word, 0, add);
    sqe.opcode = RDMAD_OP_FADD;
    return sqe;
}

static uint64_t value(const struct rdmad_sqe *sqe) {
    struct rdmad_cqe cqe = rig_do(&c, sqe);
    cr_assert_eq(cqe.status, 0, "%d", cqe.status);
    cr_assert_eq(cqe.outcome, RDMAD_DONE);
    cr_assert_eq(cqe.opcode, sqe->opcode);
    return cqe.value;
}

static const uint64_t routes[] = {REMOTE, LOCAL};

static uint64_t *memory_of(uint64_t route) {
    return route == REMOTE ? far : near;
}

Test(atomics, each_tells_what_was_there_and_changes_its_word_alone) {
    for (size_t i = 0; i < 2; i++) {
        uint64_t *m = memory_of(routes[i]);
        static const uint64_t words[] = {0, 7, WORDS - 1};
        for (size_t k = 0; k < 3; k++) {
            uint64_t at = words[k];
            memset(m, 0xee, sizeof(far));
            m[at] = UINT64_MAX - 1;
            struct rdmad_sqe sqe = fadd_of(routes[i], at, 3);
            cr_assert_eq(value(&sqe), UINT64_MAX - 1);
            cr_assert_eq(m[at], 1, "it wraps");
            sqe = cas_of(routes[i], at, 2, 77);
            cr_assert_eq(value(&sqe), 1);
            cr_assert_eq(m[at], 1, "it compares");
            sqe = cas_of(routes[i], at, 1, UINT64_C(0x123456789abcdef0));
            cr_assert_eq(value(&sqe), 1);
            cr_assert_eq(m[at], UINT64_C(0x123456789abcdef0));
            for (uint64_t n = 0; n < WORDS; n++)
                cr_assert(n == at || m[n] == UINT64_C(0xeeeeeeeeeeeeeeee));
        }
    }
    down();
}

Test(atomics, many_in_flight_add_up_and_no_value_comes_twice) {
    for (size_t i = 0; i < 2; i++) {
        bool seen[64] = {false};
        for (unsigned n = 0; n < 64; n++) {
            struct rdmad_sqe sqe = fadd_of(routes[i], 5, 1);
            rig_put(&c, &sqe);
        }
        for (unsigned n = 0; n < 64; n++) {
            struct rdmad_cqe cqe = rig_wait(&c);
            cr_assert_eq(cqe.status, 0);
            cr_assert(cqe.value < 64 && !seen[cqe.value]);
            seen[cqe.value] = true;
        }
        cr_assert_eq(memory_of(routes[i])[5], 64);
    }
    down();
}

Test(atomics, they_are_ops_and_no_bytes) {
    struct rdmad_sqe sqe = fadd_of(LOCAL, 5, UINT64_C(1) << 40);
    value(&sqe);
    value(&sqe);
    const struct plane_session_stats *stats = plane_session_stats(c.session);
    cr_assert_eq(stats->ops, 2);
    cr_assert_eq(stats->bytes_read + stats->bytes_written, 0);
    down();
}

Test(atomics, the_owners_window_has_the_last_word) {
    struct rig_remote plain;
    rig_remote_up(&rig, &plain, far, sizeof(far), RDMAD_RIGHTS_DEFAULT, remote.deadline_ns);
    rig_lease(&c, &plain, RIG_HANDLE(7), 902, RDMAD_RIGHTS_ALL); /* more than was granted */
    struct rdmad_sqe sqe = fadd_of(RIG_HANDLE(7), 5, 1);
    struct rdmad_cqe cqe = rig_do(&c, &sqe);
    cr_assert_eq(cqe.status, RDMAD_E_RIGHTS);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(far[5], 0);
    plane_lease_forget(c.session, RIG_HANDLE(7));
    rig_remote_down(&rig, &plain);
    down();
}

Test(atomics, what_waits_for_a_link_goes_on_and_adds_once) {
    rig_break(&rig);
    for (unsigned n = 0; n < 10; n++) {
        struct rdmad_sqe sqe = fadd_of(REMOTE, 5, 1);
        rig_put(&c, &sqe);
    }
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    rig_rebuild(&rig, &remote);
    rig_key(&c, &remote, REMOTE);
    for (unsigned n = 0; n < 10; n++)
        cr_assert_eq(rig_wait(&c).status, 0);
    cr_assert_eq(far[5], 10);
    down();
}

/* Links break at random moments; each op is done once, or nobody knows, but never twice. */
Test(atomics, none_is_repeated_that_may_have_been_done) {
    unsigned unknown_in_all = 0;
    for (unsigned round = 0; round < 200; round++) {
        unsigned done = 0, unknown = 0;
        far[5] = 0;
        for (unsigned n = 0; n < 20; n++) {
            struct rdmad_sqe sqe = fadd_of(REMOTE, 5, 1);
            rig_put(&c, &sqe);
        }
        rig_settle(&rig);
        rig_run_until(&rig, sim_now() + sim_random(4000));
        rig_break(&rig);
        rig_rebuild(&rig, &remote);
        rig_key(&c, &remote, REMOTE);
        for (unsigned n = 0; n < 20; n++) {
            struct rdmad_cqe cqe = rig_wait(&c);
            if (cqe.outcome == RDMAD_DONE) {
                done++;
            } else {
                cr_assert_eq(cqe.outcome, RDMAD_UNKNOWN);
                cr_assert_eq(cqe.status, RDMAD_E_PEER_LOST);
                unknown++;
            }
        }
        cr_assert(far[5] >= done && far[5] <= done + unknown, "%lu with %u done, %u unknown",
                  (unsigned long)far[5], done, unknown);
        unknown_in_all += unknown;
    }
    cr_assert_gt(unknown_in_all, 0, "the rounds hit some in flight");
    down();
}
