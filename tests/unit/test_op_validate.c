/* SPDX-License-Identifier: MIT */
/* The validator: every reject has its own code, and exactly the good sqes pass. */
#include "daemon/base/clock.h"
#include "daemon/op/engine/validate.h"
#include <criterion/criterion.h>
#include <string.h>

#define POOL_BYTES 8192u
#define LEASE_BYTES 4096u
#define NOW UINT64_C(1000000000000)
#define LEASE_ID 4711u

static struct op_session session;
static struct op_pool pool;
static struct op_lease lease;
static struct op_route route;
static struct plane_settings settings;
static struct rdmad_sqe good;
static uint8_t memory[POOL_BYTES];

static void setup(void) {
    slots_fini(&session.pools);
    slots_fini(&session.leases);
    slots_init(&session.pools, 16);
    slots_init(&session.leases, 16);
    pool = (struct op_pool){.base = memory, .bytes = POOL_BYTES};
    lease = (struct op_lease){.lease_id = LEASE_ID,
                              .length = LEASE_BYTES,
                              .deadline_ns = NOW + 10 * NSEC_PER_SEC,
                              .rights = RDMAD_RIGHTS_ALL,
                              .route = &route};
    route = (struct op_route){0};
    settings = (struct plane_settings){
        .default_timeout_ns = 10, .max_timeout_ns = 1000, .expiry_margin_ns = NSEC_PER_SEC};
    /* Not the first handles: generation and index both count. */
    for (int i = 0; i < 5; i++) {
        slots_remove(&session.pools, slots_add(&session.pools, &pool));
        slots_remove(&session.leases, slots_add(&session.leases, &lease));
    }
    good = (struct rdmad_sqe){.opcode = RDMAD_OP_WRITE,
                              .pool = slots_add(&session.pools, &pool),
                              .lease = slots_add(&session.leases, &lease),
                              .length = 64,
                              .pool_offset = 128,
                              .lease_offset = 256,
                              .user_data = 99};
}

static void teardown(void) {
    slots_fini(&session.pools);
    slots_fini(&session.leases);
}

TestSuite(validate, .init = setup, .fini = teardown);

static struct op_request rq;
static uint64_t lease_id;

static int check_at(uint64_t now_ns, const struct rdmad_sqe *sqe) {
    lease_id = 12345;
    return op_validate(&session, &settings, now_ns, sqe, &rq, &lease_id);
}

static int check(const struct rdmad_sqe *sqe) {
    return check_at(NOW, sqe);
}

#define REJECT(code, id, ...)                                                      \
    do {                                                                           \
        struct rdmad_sqe q = good;                                                 \
        __VA_ARGS__;                                                               \
        int got = check(&q);                                                       \
        cr_expect_eq(got, code, "%s: %d instead of %s", #__VA_ARGS__, got, #code); \
        cr_expect_eq(lease_id, id, "%s: lease id", #__VA_ARGS__);                  \
    } while (0)

Test(validate, a_good_sqe_passes_and_means_what_it_says) {
    cr_assert_eq(check(&good), 0);
    cr_assert_eq(rq.pool, &pool);
    cr_assert_eq(rq.lease, &lease);
    cr_assert_eq(rq.local, memory + 128);
    cr_assert_eq(rq.deadline_ns, NOW + 10);
    cr_assert_eq(lease_id, 0);
}

Test(validate, every_malformed_sqe_has_its_own_code) {
    for (unsigned op = RDMAD_OP_COUNT; op <= 0xff; op++)
        REJECT(RDMAD_E_OPCODE, 0, q.opcode = (uint8_t)op);
    for (unsigned bit = 6; bit < 8; bit++)
        REJECT(RDMAD_E_RESERVED, 0, q.flags = (uint8_t)(1u << bit));
    for (unsigned bit = 0; bit < 16; bit++)
        REJECT(RDMAD_E_RESERVED, 0, q.reserved0 = (uint16_t)(1u << bit));
    for (unsigned bit = 0; bit < 32; bit++)
        REJECT(RDMAD_E_RESERVED, 0, q.imm = UINT32_C(1) << bit);
}

Test(validate, a_nop_carries_nothing_but_user_data_and_timeout) {
    struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP, .user_data = 5, .timeout_ns = 7};
    cr_assert_eq(check(&nop), 0);
    good = nop;
    REJECT(RDMAD_E_RESERVED, 0, q.pool = 1);
    REJECT(RDMAD_E_RESERVED, 0, q.pool_offset = 1);
    REJECT(RDMAD_E_RESERVED, 0, q.length = 1);
    REJECT(RDMAD_E_RESERVED, 0, q.lease = 1);
    REJECT(RDMAD_E_RESERVED, 0, q.lease_offset = 1);
    REJECT(RDMAD_E_RESERVED, 0, q.flags = 1);
}

/* Of each opcode: the flags it may have, and the fields that it leaves unused. */
#define ORDER (RDMAD_SQE_FENCE | RDMAD_SQE_SILENT | RDMAD_SQE_LINK)
static const struct {
    uint8_t flags;
    bool imm, pool, length, lease, lease_offset;
} forms[RDMAD_OP_COUNT] = {
    [RDMAD_OP_NOP] = {0},
    [RDMAD_OP_READ] = {ORDER | RDMAD_SQE_MORE, false, true, true, true, true},
    [RDMAD_OP_WRITE] = {ORDER | RDMAD_SQE_MORE, false, true, true, true, true},
    [RDMAD_OP_CAS] = {ORDER, false, true, true, true, true},
    [RDMAD_OP_FADD] = {ORDER, false, false, true, true, true},
    [RDMAD_OP_NOTIFY] = {ORDER | RDMAD_SQE_MORE, true, true, true, true, true},
    [RDMAD_OP_SEND] = {ORDER | RDMAD_SQE_MORE | RDMAD_SQE_IMM | RDMAD_SQE_LEASE, false, true, true,
                       true, false},
    [RDMAD_OP_RECV] = {0, false, true, true, true, false},
    [RDMAD_OP_NOTIFIED] = {0, false, false, false, true, false},
    [RDMAD_OP_CANCEL] = {0, false, false, false, true, false},
};

static void make_good(uint8_t opcode) {
    good.opcode = opcode;
    if (!forms[opcode].pool)
        good.pool = 0;
    if (!forms[opcode].length)
        good.pool_offset = good.length = 0;
    if (!forms[opcode].lease)
        good.lease = 0;
    if (!forms[opcode].lease_offset)
        good.lease_offset = 0;
    if (opcode == RDMAD_OP_CAS || opcode == RDMAD_OP_FADD)
        good.length = 8;
}

Test(validate, every_opcode_has_its_flags_and_no_other) {
    for (uint8_t op = 0; op < (uint8_t)RDMAD_OP_COUNT; op++) {
        make_good(op);
        for (unsigned flags = 0; flags < 256; flags++) {
            bool fits = !(flags & ~(unsigned)forms[op].flags) &&
                        !(flags & RDMAD_SQE_MORE && flags & (RDMAD_SQE_SILENT | RDMAD_SQE_LINK));
            REJECT(fits ? 0 : RDMAD_E_RESERVED, 0, q.flags = (uint8_t)flags);
        }
        setup();
    }
}

Test(validate, what_an_opcode_does_not_use_is_zero) {
    for (uint8_t op = 0; op < (uint8_t)RDMAD_OP_COUNT; op++) {
        make_good(op);
        REJECT(0, 0, (void)q);
        REJECT(RDMAD_E_RESERVED, 0, q.reserved0 = 1);
        REJECT(forms[op].imm ? 0 : RDMAD_E_RESERVED, 0, q.imm = 7);
        if (!forms[op].pool)
            REJECT(RDMAD_E_RESERVED, 0, q.pool = 1);
        if (!forms[op].length) {
            REJECT(RDMAD_E_RESERVED, 0, q.pool_offset = 1);
            REJECT(RDMAD_E_RESERVED, 0, q.length = 1);
        }
        if (!forms[op].lease)
            REJECT(RDMAD_E_RESERVED, 0, q.lease = 1);
        if (!forms[op].lease_offset)
            REJECT(RDMAD_E_RESERVED, 0, q.lease_offset = 8);
        setup();
    }
}

Test(validate, immediate_data_goes_with_a_send_that_says_so) {
    make_good(RDMAD_OP_SEND);
    REJECT(RDMAD_E_RESERVED, 0, q.imm = 1);
    REJECT(0, 0, q.imm = UINT32_MAX, q.flags = RDMAD_SQE_IMM);
    REJECT(RDMAD_E_RESERVED, 0, q.imm = 1, q.flags = RDMAD_SQE_LEASE);
}

Test(validate, atomics_are_eight_bytes_at_multiples_of_eight) {
    static const uint8_t atomics[] = {RDMAD_OP_CAS, RDMAD_OP_FADD};
    for (size_t i = 0; i < 2; i++) {
        make_good(atomics[i]);
        REJECT(0, 0, q.lease_offset = 0);
        REJECT(0, 0, q.lease_offset = LEASE_BYTES - 8);
        for (uint64_t off = 1; off < 8; off++)
            REJECT(RDMAD_E_ALIGN, 0, q.lease_offset = 64 + off);
        for (uint64_t length = 0; length < 20; length++)
            if (length != 8)
                REJECT(RDMAD_E_ALIGN, 0, q.length = length);
        REJECT(RDMAD_E_ALIGN, 0, q.length = UINT64_MAX);
        REJECT(RDMAD_E_RANGE, LEASE_ID, q.lease_offset = LEASE_BYTES);
        REJECT(RDMAD_E_RANGE, LEASE_ID, q.lease_offset = UINT64_MAX - 7);
        lease.rights = RDMAD_RIGHTS_DEFAULT;
        REJECT(RDMAD_E_RIGHTS, LEASE_ID, (void)q);
        lease.rights = RDMAD_RIGHT_ATOMIC;
        REJECT(0, 0, (void)q);
        setup();
    }
}

Test(validate, an_atomic_has_operands_where_others_have_a_buffer) {
    make_good(RDMAD_OP_CAS);
    REJECT(0, 0, q.compare = UINT64_MAX, q.swap = UINT64_MAX);
    cr_assert_null(rq.pool);
    cr_assert_null(rq.local);
    make_good(RDMAD_OP_FADD);
    REJECT(0, 0, q.swap = UINT64_MAX);
}

Test(validate, a_notify_of_no_bytes_needs_no_buffer_and_one_with_bytes_does) {
    make_good(RDMAD_OP_NOTIFY);
    REJECT(0, 0, q.length = 0, q.pool = 0, q.pool_offset = 0);
    cr_assert_null(rq.pool);
    REJECT(RDMAD_E_HANDLE, 0, q.pool = 0);
    REJECT(RDMAD_E_HANDLE, 0, q.length = 0, q.pool = 0, q.pool_offset = 1);
    REJECT(0, 0, q.length = 0);
    cr_assert_eq(rq.pool, &pool);
    lease.rights = RDMAD_RIGHT_READ;
    REJECT(RDMAD_E_RIGHTS, LEASE_ID, q.length = 0, q.pool = 0, q.pool_offset = 0);
}

Test(validate, what_waits_for_somebody_else_has_no_deadline_unless_given_one) {
    static const uint8_t endless[] = {RDMAD_OP_RECV, RDMAD_OP_NOTIFIED};
    for (size_t i = 0; i < 2; i++) {
        make_good(endless[i]);
        REJECT(0, 0, (void)q);
        cr_assert_eq(rq.deadline_ns, CLOCK_NEVER);
        REJECT(0, 0, q.timeout_ns = 5000); /* more than the maximum of others */
        cr_assert_eq(rq.deadline_ns, NOW + 5000);
        setup();
    }
}

Test(validate, messages_need_a_range_of_a_pool) {
    static const uint8_t messages[] = {RDMAD_OP_SEND, RDMAD_OP_RECV};
    for (size_t i = 0; i < 2; i++) {
        make_good(messages[i]);
        REJECT(RDMAD_E_HANDLE, 0, q.pool = 0);
        REJECT(RDMAD_E_RANGE, 0, q.length = POOL_BYTES);
        REJECT(RDMAD_E_RANGE, 0, q.pool_offset = UINT64_MAX);
        REJECT(0, 0, q.lease = 12345); /* the channel is looked up later */
        setup();
    }
}

Test(validate, only_the_very_handle_names_the_object) {
    for (unsigned bit = 0; bit < 64; bit++) {
        REJECT(RDMAD_E_HANDLE, 0, q.pool ^= UINT64_C(1) << bit);
        REJECT(RDMAD_E_NO_LEASE, 0, q.lease ^= UINT64_C(1) << bit);
    }
    REJECT(RDMAD_E_HANDLE, 0, q.pool = 0);
    REJECT(RDMAD_E_NO_LEASE, 0, q.lease = 0);
    slots_remove(&session.pools, good.pool);
    REJECT(RDMAD_E_HANDLE, 0, (void)q);
}

Test(validate, a_handle_used_again_is_not_the_old_one) {
    slots_remove(&session.leases, good.lease);
    uint64_t again = slots_add(&session.leases, &lease);
    cr_assert_eq((uint32_t)again, (uint32_t)good.lease, "the same index");
    REJECT(RDMAD_E_NO_LEASE, 0, (void)q);
    good.lease = again;
    cr_assert_eq(check(&good), 0);
}

Test(validate, an_ended_lease_answers_why) {
    static const int reasons[] = {RDMAD_E_LEASE_EXPIRED, RDMAD_E_LEASE_REVOKED,
                                  RDMAD_E_LEASE_RELEASED, RDMAD_E_LEASE_ORPHANED,
                                  RDMAD_E_LEASE_ADMIN};
    for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
        lease.reason = reasons[i];
        REJECT(reasons[i], LEASE_ID, (void)q);
        REJECT(reasons[i], LEASE_ID, q.length = UINT64_MAX);
    }
}

Test(validate, a_local_lease_is_good_until_its_deadline_to_the_nanosecond) {
    cr_assert_eq(check_at(lease.deadline_ns - 1, &good), 0);
    cr_assert_eq(check_at(lease.deadline_ns, &good), RDMAD_E_LEASE_EXPIRED);
    cr_assert_eq(lease_id, LEASE_ID);
}

Test(validate, a_leased_link_is_not_used_in_the_last_margin) {
    lease.leased_link = true;
    uint64_t limit = lease.deadline_ns - settings.expiry_margin_ns;
    cr_assert_eq(check_at(limit - 1, &good), 0);
    cr_assert_eq(check_at(limit, &good), RDMAD_E_LEASE_EXPIRED);
    lease.deadline_ns = settings.expiry_margin_ns - 1; /* no wrapping below zero */
    cr_assert_eq(check_at(0, &good), RDMAD_E_LEASE_EXPIRED);
}

Test(validate, a_dropped_lane_is_a_lost_peer_and_one_that_is_down_is_not) {
    route.up = false;
    REJECT(0, 0, (void)q);
    lease.route = NULL;
    REJECT(RDMAD_E_PEER_LOST, LEASE_ID, (void)q);
}

Test(validate, each_opcode_needs_its_right) {
    lease.rights = RDMAD_RIGHT_READ;
    REJECT(RDMAD_E_RIGHTS, LEASE_ID, (void)q);
    REJECT(RDMAD_E_RIGHTS, LEASE_ID, q.length = 0);
    REJECT(0, 0, q.opcode = RDMAD_OP_READ);
    lease.rights = RDMAD_RIGHT_WRITE;
    REJECT(RDMAD_E_RIGHTS, LEASE_ID, q.opcode = RDMAD_OP_READ);
    REJECT(0, 0, (void)q);
    lease.rights = 0;
    REJECT(RDMAD_E_RIGHTS, LEASE_ID, q.opcode = RDMAD_OP_READ);
    REJECT(RDMAD_E_RIGHTS, LEASE_ID, (void)q);
}

Test(validate, ranges_end_where_the_object_ends_whatever_the_numbers) {
    static const uint64_t edge[] = {0,
                                    1,
                                    63,
                                    64,
                                    LEASE_BYTES - 1,
                                    LEASE_BYTES,
                                    LEASE_BYTES + 1,
                                    POOL_BYTES - 1,
                                    POOL_BYTES,
                                    POOL_BYTES + 1,
                                    UINT32_MAX,
                                    UINT64_C(1) << 32,
                                    UINT64_C(1) << 63,
                                    UINT64_MAX - POOL_BYTES,
                                    UINT64_MAX - LEASE_BYTES,
                                    UINT64_MAX - 1,
                                    UINT64_MAX};
    enum { EDGES = sizeof(edge) / sizeof(edge[0]) };
    for (unsigned i = 0; i < EDGES; i++)
        for (unsigned j = 0; j < EDGES; j++)
            for (unsigned k = 0; k < EDGES; k++) {
                struct rdmad_sqe q = good;
                q.pool_offset = edge[i];
                q.lease_offset = edge[j];
                q.length = edge[k];
                bool in_lease = edge[k] <= LEASE_BYTES && edge[j] <= LEASE_BYTES - edge[k];
                bool in_pool = edge[k] <= POOL_BYTES && edge[i] <= POOL_BYTES - edge[k];
                int status = check(&q);
                cr_assert_eq(status, in_lease && in_pool ? 0 : RDMAD_E_RANGE);
                cr_assert_eq(lease_id, in_lease ? 0 : LEASE_ID, "says which of the two");
                if (status == 0)
                    cr_assert(rq.local >= memory && rq.local + q.length <= memory + POOL_BYTES);
            }
}

Test(validate, timeouts_are_cut_to_the_maximum) {
    static const uint64_t cases[][2] = {{0, 10},      {1, 1},       {999, 999},
                                        {1000, 1000}, {1001, 1000}, {UINT64_MAX, 1000}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        good.timeout_ns = cases[i][0];
        cr_assert_eq(check(&good), 0);
        cr_assert_eq(rq.deadline_ns, NOW + cases[i][1]);
    }
    settings.max_timeout_ns = UINT64_MAX;
    good.timeout_ns = UINT64_MAX;
    cr_assert_eq(check(&good), 0);
    cr_assert_eq(rq.deadline_ns, CLOCK_NEVER);
}

Test(validate, a_refusal_needs_nothing_of_the_tables_but_reads_them) {
    struct op_session before = session;
    struct rdmad_sqe q;
    for (unsigned byte = 0; byte < 256; byte++) {
        memset(&q, (int)byte, sizeof(q));
        check(&q);
    }
    cr_assert_eq(memcmp(&before, &session, sizeof(session)), 0);
}
