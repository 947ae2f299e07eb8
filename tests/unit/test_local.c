/* SPDX-License-Identifier: MIT */
/* The local fabric as fabric.h promises it. */
#include "daemon/base/clock.h"
#include "daemon/base/guard.h"
#include "daemon/fabric/local/instance.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (4u << 20)

static struct fabric *fabric;
static struct fabric_link *link_;
static struct fabric_env env;
static uint64_t now_ns;
static unsigned ups, completed;
static struct fabric_op *last;
static const void *fault;
static bool inside_poll;

static uint64_t env_now(void *user) {
    (void)user;
    return now_ns;
}
static void env_complete(void *user, struct fabric_op *op) {
    (void)user;
    completed++;
    last = op;
}
static void env_up(void *user, void *cookie) {
    (void)user;
    (void)cookie;
    cr_assert(inside_poll);
    ups++;
}
static void env_lost(void *user, void *cookie, const struct error *why) {
    (void)user;
    (void)cookie;
    (void)why;
    cr_assert_fail("a local link is never lost");
}
static void env_fault(void *user, const void *address) {
    (void)user;
    fault = address;
}

static unsigned poll_once(void) {
    inside_poll = true;
    unsigned work = fabric_local.poll(fabric);
    inside_poll = false;
    return work;
}

static struct fabric_link *dial(void) {
    struct fabric_link *link;
    struct fabric_blob hello, offer;
    struct error err;
    cr_assert_eq(fabric_local.link_new(fabric, NULL, false, &link, &hello, &err), 0);
    cr_assert_eq(fabric_local.offer(fabric, 1, false, &hello, &offer, &err), 0);
    cr_assert_eq(fabric_local.link_open(link, "", &offer, &err), 0);
    return link;
}

static uint8_t *here, *there;
static struct fabric_audit audit;

static void setup(void) {
    struct error err;
    env = (struct fabric_env){.now_ns = env_now,
                              .complete = env_complete,
                              .link_up = env_up,
                              .link_lost = env_lost,
                              .memory_fault = env_fault};
    now_ns = 1000;
    cr_assert_eq(guard_install(), 0);
    cr_assert_eq(fabric_local.open(&env, &fabric, &err), 0);
    link_ = dial();
    cr_assert_eq(ups, 0);
    poll_once();
    cr_assert_eq(ups, 1);
    here = malloc(BYTES);
    there = malloc(BYTES);
    memset(here, 'h', BYTES);
    memset(there, 't', BYTES);
}

static void teardown(void) {
    fabric_local.link_close(link_);
    fabric_local.close(fabric);
    free(here);
    free(there);
}

TestSuite(local, .init = setup, .fini = teardown);

static struct fabric_window *window(void *base, uint64_t length, uint32_t rights,
                                    uint64_t deadline_ns, struct fabric_blob *key) {
    struct fabric_window_spec spec = {.base = base,
                                      .length = length,
                                      .rights = rights,
                                      .deadline_ns = deadline_ns,
                                      .audit = &audit};
    struct fabric_window *w;
    struct error err;
    cr_assert_eq(fabric_local.window_open(fabric, &spec, &w, key, &err), 0);
    return w;
}

static struct fabric_op op_of(uint8_t opcode, void *local, uint64_t length,
                              const struct fabric_blob *key, uint64_t offset) {
    return (struct fabric_op){
        .opcode = opcode, .local = local, .length = length, .key = key, .offset = offset};
}

static void run(struct fabric_op *op) {
    unsigned before = completed;
    cr_assert_eq(fabric_local.post(link_, op), 0);
    cr_assert_eq(completed, before, "never inside post");
    for (int i = 0; completed == before; i++) {
        cr_assert_lt(i, 1000);
        cr_assert(poll_once());
    }
    cr_assert_eq(completed, before + 1);
    cr_assert_eq(last, op);
}

static bool quiet(void) {
    uint64_t wake;
    return fabric_local.arm(fabric, &wake) && wake == CLOCK_NEVER;
}

Test(local, moves_exactly_the_bytes_asked_for_in_both_directions) {
    static const uint64_t sizes[] = {
        0, 1, 64, LOCAL_SHORT, LOCAL_SHORT + 1, LOCAL_SLICE, LOCAL_SLICE + 1, 3000000};
    struct fabric_blob key;
    struct fabric_window *w = window(there + 1, BYTES - 2, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &key);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t n = sizes[i];
        memset(there, 't', BYTES);
        memset(here, 'h', BYTES);
        struct fabric_op op = op_of(RDMAD_OP_WRITE, here + 7, n, &key, 5);
        run(&op);
        cr_assert(op.status == 0 && op.outcome == RDMAD_DONE);
        for (uint64_t j = 0; j < BYTES; j++)
            cr_assert_eq(there[j], j >= 6 && j < 6 + n ? 'h' : 't');
        memset(there, 'T', BYTES);
        op = op_of(RDMAD_OP_READ, here + 9, n, &key, 5);
        run(&op);
        cr_assert(op.status == 0 && op.outcome == RDMAD_DONE);
        for (uint64_t j = 0; j < BYTES; j++)
            cr_assert_eq(here[j], j >= 9 && j < 9 + n ? 'T' : 'h');
    }
    cr_assert_eq(audit.bytes_read, audit.bytes_written);
    cr_assert_eq(audit.ops, 2 * sizeof(sizes) / sizeof(sizes[0]));
    fabric_local.window_close(w, RDMAD_E_LEASE_REVOKED);
    cr_assert(quiet());
}

Test(local, a_range_may_overlap_itself) {
    struct fabric_blob key;
    struct fabric_window *w = window(here, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &key);
    struct fabric_op op = op_of(RDMAD_OP_WRITE, here + 100, 1000, &key, 0);
    run(&op);
    cr_assert_eq(op.status, 0);
    fabric_local.window_close(w, RDMAD_E_LEASE_REVOKED);
}

Test(local, the_window_is_a_wall_of_its_own) {
    struct fabric_blob key, other;
    struct fabric_window *w = window(there, 4096, RDMAD_RIGHT_READ, 5000, &key);
    struct fabric_op op = op_of(RDMAD_OP_WRITE, here, 64, &key, 0);
    run(&op);
    cr_assert(op.status == RDMAD_E_RIGHTS && op.outcome == RDMAD_FAILED_UNTOUCHED);
    static const uint64_t ranges[][2] = {{4096, 1},       {4033, 64},       {0, 4097},
                                         {UINT64_MAX, 1}, {UINT64_MAX, 64}, {1, 4096}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        op = op_of(RDMAD_OP_READ, here, ranges[i][1], &key, ranges[i][0]);
        run(&op);
        cr_assert(op.status == RDMAD_E_RANGE && op.outcome == RDMAD_FAILED_UNTOUCHED);
    }
    other = key;
    other.bytes[4] ^= 1;
    op = op_of(RDMAD_OP_READ, here, 64, &other, 0);
    run(&op);
    cr_assert_eq(op.status, RDMAD_E_NO_LEASE);
    other.size = 0;
    run(&op);
    cr_assert_eq(op.status, RDMAD_E_NO_LEASE);
    now_ns = 4999;
    op = op_of(RDMAD_OP_READ, here, 64, &key, 0);
    run(&op);
    cr_assert_eq(op.status, 0);
    now_ns = 5000;
    run(&op);
    cr_assert(op.status == RDMAD_E_LEASE_EXPIRED && op.outcome == RDMAD_FAILED_UNTOUCHED);
    fabric_local.window_extend(w, 6000);
    run(&op);
    cr_assert_eq(op.status, 0);
    fabric_local.window_close(w, RDMAD_E_LEASE_REVOKED);
    run(&op);
    cr_assert_eq(op.status, RDMAD_E_NO_LEASE);
    for (uint64_t j = 0; j < BYTES; j++)
        cr_assert_eq(there[j], 't');
}

Test(local, a_short_op_waits_for_one_slice_of_a_long_one_at_most) {
    struct fabric_blob key;
    struct fabric_window *w = window(there, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &key);
    struct fabric_op huge = op_of(RDMAD_OP_WRITE, here, BYTES, &key, 0);
    struct fabric_op tiny = op_of(RDMAD_OP_READ, here, 8, &key, 0);
    fabric_local.post(link_, &huge);
    poll_once();
    fabric_local.post(link_, &tiny);
    poll_once();
    cr_assert_eq(completed, 1);
    cr_assert_eq(last, &tiny);
    cr_assert_not(quiet(), "the long one wants polling");
    fabric_local.cancel(&huge, RDMAD_E_CANCELED);
    cr_assert_eq(completed, 2);
    cr_assert_eq(huge.outcome, RDMAD_FAILED_PARTIAL);
    fabric_local.window_close(w, RDMAD_E_LEASE_REVOKED);
}

Test(local, a_short_op_is_told_before_long_ones_move) {
    struct fabric_blob key;
    struct fabric_window *w = window(there, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &key);
    struct fabric_op large = op_of(RDMAD_OP_WRITE, here, LOCAL_SLICE, &key, 0);
    struct fabric_op tiny[2] = {op_of(RDMAD_OP_READ, here, 8, &key, 0),
                                op_of(RDMAD_OP_READ, here, 8, &key, 0)};
    fabric_local.post(link_, &large);
    fabric_local.post(link_, &tiny[0]);
    poll_once();
    cr_assert_eq(completed, 1);
    cr_assert_eq(last, &tiny[0]);
    fabric_local.post(link_, &tiny[1]); /* short ones without end do not keep it waiting */
    poll_once();
    cr_assert_eq(completed, 3);
    cr_assert_eq(last, &large);
    fabric_local.window_close(w, RDMAD_E_LEASE_REVOKED);
    cr_assert(quiet());
}

Test(local, long_ops_take_turns) {
    struct fabric_blob key;
    struct fabric_window *w = window(there, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &key);
    struct fabric_op huge = op_of(RDMAD_OP_WRITE, here, BYTES, &key, 0);
    struct fabric_op large = op_of(RDMAD_OP_WRITE, here, 2 * LOCAL_SLICE, &key, 0);
    fabric_local.post(link_, &huge);
    fabric_local.post(link_, &large);
    for (int i = 0; i < 4; i++)
        poll_once();
    cr_assert_eq(completed, 1);
    cr_assert_eq(last, &large);
    fabric_local.cancel(&huge, RDMAD_E_CANCELED);
    fabric_local.window_close(w, RDMAD_E_LEASE_REVOKED);
}

static bool hurried;

static bool env_hurried(void *user) {
    (void)user;
    return hurried;
}

/* The turn of each lasts as long as it does otherwise. */
Test(local, a_poll_is_short_while_somebody_waits_for_its_end) {
    struct fabric_blob key;
    struct fabric_window *w = window(there, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &key);
    struct fabric_op large[2] = {op_of(RDMAD_OP_WRITE, here, LOCAL_SLICE, &key, 0),
                                 op_of(RDMAD_OP_WRITE, here, LOCAL_SLICE, &key, 0)};
    env.is_hurried = env_hurried;
    fabric_local.post(link_, &large[0]);
    fabric_local.post(link_, &large[1]);
    hurried = true;
    for (unsigned n = 1; n < LOCAL_SLICE / LOCAL_HURRY; n++) {
        uint64_t before = audit.bytes_written;
        poll_once();
        cr_assert_eq(audit.bytes_written - before, LOCAL_HURRY);
        cr_assert_eq(completed, 0);
    }
    poll_once();
    cr_assert_eq(completed, 1);
    cr_assert_eq(last, &large[0]);
    hurried = false;
    poll_once();
    cr_assert_eq(completed, 2);
    fabric_local.window_close(w, RDMAD_E_LEASE_REVOKED);
}

Test(local, not_one_byte_more_after_window_close) {
    struct fabric_blob key;
    struct fabric_window *w = window(there, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &key);
    struct fabric_op under_way = op_of(RDMAD_OP_WRITE, here, BYTES, &key, 0);
    struct fabric_op waiting = op_of(RDMAD_OP_WRITE, here, 8, &key, BYTES - 8);
    fabric_local.post(link_, &under_way);
    poll_once();
    fabric_local.post(link_, &waiting);
    fabric_local.window_close(w, RDMAD_E_LEASE_REVOKED);
    uint8_t *copy = malloc(BYTES);
    memcpy(copy, there, BYTES);
    while (completed < 2)
        cr_assert(poll_once());
    cr_assert_eq(memcmp(copy, there, BYTES), 0);
    cr_assert(under_way.status == RDMAD_E_LEASE_REVOKED &&
              under_way.outcome == RDMAD_FAILED_PARTIAL);
    cr_assert(waiting.status == RDMAD_E_LEASE_REVOKED && waiting.outcome == RDMAD_FAILED_UNTOUCHED);
    cr_assert(quiet());
    free(copy);
}

Test(local, expiry_stops_an_op_between_two_slices) {
    struct fabric_blob key;
    struct fabric_window *w = window(there, BYTES, RDMAD_RIGHTS_ALL, 5000, &key);
    struct fabric_op op = op_of(RDMAD_OP_WRITE, here, BYTES, &key, 0);
    fabric_local.post(link_, &op);
    poll_once();
    now_ns = 5000;
    poll_once();
    cr_assert_eq(completed, 1);
    cr_assert(op.status == RDMAD_E_LEASE_EXPIRED && op.outcome == RDMAD_FAILED_PARTIAL);
    cr_assert_eq(there[LOCAL_SLICE - 1], 'h');
    cr_assert_eq(there[LOCAL_SLICE], 't');
    fabric_local.window_close(w, RDMAD_E_LEASE_EXPIRED);
}

Test(local, link_close_gives_every_op_back_before_it_returns) {
    struct fabric_blob key;
    struct fabric_window *w = window(there, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &key);
    struct fabric_link *second;
    second = dial();
    poll_once();
    struct fabric_op mine[3], other = op_of(RDMAD_OP_READ, here, 8, &key, 0);
    for (int i = 0; i < 3; i++) {
        mine[i] = op_of(RDMAD_OP_WRITE, here, i == 1 ? BYTES : 8, &key, 0);
        fabric_local.post(second, &mine[i]);
    }
    fabric_local.post(link_, &other);
    fabric_local.link_close(second);
    cr_assert_eq(completed, 3);
    for (int i = 0; i < 3; i++)
        cr_assert(mine[i].status == RDMAD_E_CANCELED);
    poll_once();
    cr_assert_eq(completed, 4);
    cr_assert_eq(other.status, 0);
    fabric_local.window_close(w, RDMAD_E_LEASE_REVOKED);
}

/* ---- atomics ----------------------------------------------------------------------------- */

static struct fabric_op word_op(uint8_t opcode, const struct fabric_blob *key, uint64_t offset,
                                uint64_t compare, uint64_t swap) {
    struct fabric_op op = op_of(opcode, NULL, 8, key, offset);
    op.compare = compare;
    op.swap = swap;
    return op;
}

static uint64_t word_at(uint64_t offset) {
    uint64_t word;
    memcpy(&word, there + offset, sizeof(word));
    return word;
}

Test(local, atomics_tell_what_was_there_and_count_as_ops) {
    struct fabric_blob key;
    struct fabric_window *w = window(there, 64, RDMAD_RIGHT_ATOMIC, CLOCK_NEVER, &key);
    uint64_t was = word_at(8);
    struct fabric_op op = word_op(RDMAD_OP_FADD, &key, 8, 0, 5);
    run(&op);
    cr_assert(op.outcome == RDMAD_DONE && op.value == was && word_at(8) == was + 5);
    op = word_op(RDMAD_OP_CAS, &key, 8, was, 1);
    run(&op);
    cr_assert(op.outcome == RDMAD_DONE && op.value == was + 5 && word_at(8) == was + 5);
    op = word_op(RDMAD_OP_CAS, &key, 8, was + 5, 1);
    run(&op);
    cr_assert(op.outcome == RDMAD_DONE && op.value == was + 5 && word_at(8) == 1);
    cr_assert(audit.ops == 3 && audit.bytes_read == 0 && audit.bytes_written == 0);
    cr_assert_eq(audit.last_use_ns, now_ns);
    cr_assert(word_at(0) == was && word_at(16) == was);
    fabric_local.window_close(w, RDMAD_E_LEASE_REVOKED);
}

Test(local, atomics_the_window_does_not_allow_touch_nothing) {
    struct fabric_blob key, plain;
    const uint32_t others = RDMAD_RIGHTS_ALL & ~RDMAD_RIGHT_ATOMIC;
    struct fabric_window *w = window(there + 4, 64, RDMAD_RIGHTS_ALL, 5000, &key);
    struct fabric_window *v = window(there, 64, others, CLOCK_NEVER, &plain);
    const struct {
        const struct fabric_blob *key;
        uint64_t offset;
        int status;
    } wrong[] = {{&plain, 0, RDMAD_E_RIGHTS},      {&key, 0, RDMAD_E_ALIGN},
                 {&key, 5, RDMAD_E_ALIGN},         {&key, 57, RDMAD_E_RANGE},
                 {&key, 64, RDMAD_E_RANGE},        {&key, UINT64_MAX - 3, RDMAD_E_RANGE},
                 {&key, UINT64_MAX, RDMAD_E_RANGE}};
    for (size_t i = 0; i < 2 * sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fabric_op op = word_op(i % 2 ? RDMAD_OP_CAS : RDMAD_OP_FADD, wrong[i / 2].key,
                                      wrong[i / 2].offset, word_at(0), 1);
        run(&op);
        cr_assert_eq(op.status, wrong[i / 2].status, "case %zu", i / 2);
        cr_assert_eq(op.outcome, RDMAD_FAILED_UNTOUCHED);
    }
    struct fabric_op op = word_op(RDMAD_OP_FADD, &key, 4, 0, 0);
    run(&op);
    cr_assert_eq(op.status, 0, "the address is aligned, though the offset is not");
    now_ns = 5000;
    op.swap = 1;
    run(&op);
    cr_assert_eq(op.status, RDMAD_E_LEASE_EXPIRED);
    fabric_local.post(link_, &op);
    fabric_local.window_close(w, RDMAD_E_LEASE_REVOKED);
    while (poll_once())
        ;
    cr_assert(op.status == RDMAD_E_LEASE_REVOKED && op.outcome == RDMAD_FAILED_UNTOUCHED);
    fabric_local.window_close(v, RDMAD_E_LEASE_REVOKED);
    for (uint64_t j = 0; j < BYTES; j++)
        cr_assert_eq(there[j], 't');
}

Test(local, an_atomic_on_memory_that_vanished_fails_and_is_reported) {
    int fd = memfd_create("vanished", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, 4096), 0);
    uint8_t *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct fabric_blob key;
    struct fabric_window *w = window(gone, 4096, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &key);
    cr_assert_eq(ftruncate(fd, 0), 0);
    for (unsigned opcode = RDMAD_OP_CAS; opcode <= RDMAD_OP_FADD; opcode++) {
        struct fabric_op op = word_op((uint8_t)opcode, &key, 16, 0, 1);
        fault = NULL;
        run(&op);
        cr_assert(op.status == RDMAD_E_FAULT && op.outcome == RDMAD_FAILED_UNTOUCHED);
        cr_assert((const uint8_t *)fault >= gone && (const uint8_t *)fault < gone + 4096);
    }
    fabric_local.window_close(w, RDMAD_E_LEASE_REVOKED);
    munmap(gone, 4096);
    close(fd);
}

Test(local, a_send_is_unsupported_and_comes_back_once) {
    struct fabric_op op = {.opcode = RDMAD_OP_SEND, .head = "h", .head_size = 1, .length = 1};
    run(&op);
    cr_assert(op.status == RDMAD_E_UNSUPPORTED && op.outcome == RDMAD_FAILED_UNTOUCHED);
    fabric_local.post(link_, &op);
    cr_assert_not(quiet());
    fabric_local.cancel(&op, RDMAD_E_CANCELED);
    cr_assert_eq(op.status, RDMAD_E_UNSUPPORTED);
    cr_assert(completed == 2 && quiet());
}

/* A file cut short under its mapping is SIGBUS like a punched hugetlb page. */
Test(local, memory_that_vanishes_fails_the_op_and_is_reported) {
    int fd = memfd_create("vanishing", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, BYTES), 0);
    uint8_t *gone = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct fabric_blob key;
    struct fabric_window *w = window(there, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &key);
    struct fabric_op op = op_of(RDMAD_OP_WRITE, gone, BYTES, &key, 0);
    fabric_local.post(link_, &op);
    poll_once();
    cr_assert_eq(ftruncate(fd, 0), 0);
    while (!completed)
        poll_once();
    cr_assert(op.status == RDMAD_E_FAULT && op.outcome == RDMAD_FAILED_PARTIAL);
    cr_assert((const uint8_t *)fault >= gone && (const uint8_t *)fault < gone + BYTES);
    cr_assert_eq(op.fault, fault);
    op = op_of(RDMAD_OP_WRITE, here, 64, &key, 0);
    run(&op);
    cr_assert_eq(op.status, 0, "the fabric goes on");
    fabric_local.window_close(w, RDMAD_E_LEASE_REVOKED);
    munmap(gone, BYTES);
    close(fd);
}
