/* SPDX-License-Identifier: MIT */
/*
 * When window_close has returned, not one byte more is written to the range or read out of it,
 * whatever was under way and whoever the lessee is.
 */
#include "tests/support/runner.h"
#include "tests/unit/tcp_raw.h"
#include <unistd.h>

#define BIG ((size_t)256 << 10)
#define OPS 8u
#define BATCH 500u

static void turns(struct pair *p, uint64_t n) {
    while (n-- > 0)
        pair_turn(p);
}

static void reopen(struct pair *p) {
    p->window = pair_window(p, LESSEE, RDMAD_RIGHTS_ALL, 0, p->bytes, &p->key);
}

static void revoke_window(struct pair *p) {
    fabric_tcp.window_close(p->window, RDMAD_E_LEASE_REVOKED);
    p->window = NULL;
}

static bool all_done(const struct top *ops, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        if (!ops[i].done)
            return false;
    return true;
}

Test(tcp_revoke, no_byte_changes_after_a_close_in_the_middle_of_writes) {
    struct pair p;
    pair_open(&p, OPS * BIG);
    uint8_t *after = malloc(p.bytes);
    uint64_t random = 1;
    unsigned cut = 0;
    for (unsigned round = 0; round < 100 * test_scale(); round++) {
        struct top ops[OPS];
        memset(p.local, (int)round + 1, p.bytes);
        for (unsigned i = 0; i < OPS; i++) {
            uint64_t n = random_next(&random) % 4 ? BIG : random_next(&random) % 3000;
            op_prepare(&p, &ops[i], RDMAD_OP_WRITE, i * BIG, i * BIG, n);
            op_post(&p, &ops[i]);
        }
        turns(&p, random_next(&random) % 4);
        revoke_window(&p);
        memcpy(after, p.memory, p.bytes);
        PAIR_UNTIL(&p, all_done(ops, OPS));
        turns(&p, 10);
        cr_assert_eq(memcmp(after, p.memory, p.bytes), 0, "round %u", round);
        for (unsigned i = 0; i < OPS; i++) {
            const struct fabric_op *op = &ops[i].op;
            if (op->status == RDMAD_OK)
                cr_assert_eq(memcmp(p.memory + op->offset, op->local, op->length), 0);
            else if (op->status != RDMAD_E_NO_LEASE) {
                cut++;
                cr_assert_eq(op->status, RDMAD_E_LEASE_REVOKED);
                cr_assert_eq(op->outcome, RDMAD_FAILED_PARTIAL);
            }
        }
        reopen(&p);
    }
    cr_assert(cut > 0, "no round cut a write in the middle");
    cr_assert_eq(p.lessee.lost, 0);
    free(after);
    pair_close(&p);
}

/* The lessee stops inside a payload, and sends the rest once the lease is revoked. */
Test(tcp_revoke, a_stalled_payload_goes_nowhere_after_the_close) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE);
    uint8_t *after = malloc(BIG), *payload = malloc(BIG);
    uint64_t random = 2;
    uint32_t op = 0;
    for (unsigned round = 0; round < 100 * test_scale(); round++) {
        size_t length = 2049 + random_next(&random) % (BIG - 2048);
        size_t first = random_next(&random) % length;
        memset(payload, (int)round + 1, length);
        struct frame f = raw_request(&p.key, FRAME_WRITE, op, 0, (uint32_t)length);
        raw_frame(&p, fd, &f);
        raw_send(&p, fd, payload, first);
        turns(&p, random_next(&random) % 4);
        revoke_window(&p);
        memcpy(after, p.memory, BIG);
        raw_send(&p, fd, payload + first, length - first);
        struct frame answer = raw_answer(&p, fd);
        cr_assert_eq(memcmp(after, p.memory, BIG), 0, "round %u", round);
        cr_assert_eq(answer.type, FRAME_STATUS);
        cr_assert_eq(answer.op, op);
        cr_assert(answer.status == RDMAD_E_LEASE_REVOKED || answer.status == RDMAD_E_NO_LEASE);
        op++;
        reopen(&p);
    }
    free(after);
    free(payload);
    close(fd);
    pair_close(&p);
}

/* A lessee that writes small ops as fast as the socket takes them, whatever it is told. */
Test(tcp_revoke, a_lessee_at_full_speed_changes_nothing_after_the_close) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE);
    static const size_t unit = FRAME_BYTES + 64;
    static uint8_t batch[BATCH * (FRAME_BYTES + 64)], answers[sizeof batch];
    uint8_t *after = malloc(BIG);
    uint32_t op = 0;
    for (unsigned round = 0; round < 100 * test_scale(); round++) {
        for (unsigned i = 0; i < BATCH; i++) {
            struct frame f = raw_request(&p.key, FRAME_WRITE, op++, UINT64_C(64) * i, 64);
            frame_put(batch + i * unit, &f);
            memset(batch + i * unit + FRAME_BYTES, (int)round + 1, 64);
        }
        raw_send(&p, fd, batch, sizeof batch / 2);
        turns(&p, round % 3);
        revoke_window(&p);
        memcpy(after, p.memory, BIG);
        raw_send(&p, fd, batch + sizeof batch / 2, sizeof batch / 2);
        for (unsigned i = 0; i < 20; i++) {
            pair_turn(&p);
            while (raw_recv_try(fd, answers, sizeof answers) > 0)
                ;
        }
        cr_assert_eq(memcmp(after, p.memory, BIG), 0, "round %u", round);
        reopen(&p);
    }
    free(after);
    close(fd);
    pair_close(&p);
}

/* Takes one READ's answer off the wire. Returns its status; data is what came. */
static int raw_read_answer(struct pair *p, int fd, uint32_t op, uint8_t *data) {
    struct frame f = raw_answer(p, fd);
    cr_assert_eq(f.op, op);
    if (f.type == FRAME_STATUS)
        return f.status;
    cr_assert_eq(f.type, FRAME_DATA);
    raw_recv(p, fd, data, f.length);
    if (f.flags & FRAME_FINAL)
        return RDMAD_OK;
    f = raw_answer(p, fd);
    cr_assert_eq(f.type, FRAME_STATUS);
    cr_assert_eq(f.op, op);
    return f.status;
}

/* Reads pile up in the target's queue because the lessee does not drain them; what the owner writes
 * after the close must not be in any of them. */
Test(tcp_revoke, nothing_newer_than_the_close_is_read_out) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE);
    uint8_t *data = malloc(BIG);
    uint32_t op = 0;
    unsigned cut = 0;
    for (unsigned round = 0; round < 10 * test_scale(); round++) {
        memset(p.memory, 0x11, BIG);
        uint32_t first = op;
        for (unsigned i = 0; i < 60; i++) {
            struct frame f = raw_request(&p.key, FRAME_READ, op++, 0, i % 4 ? BIG : 1000);
            raw_frame(&p, fd, &f);
        }
        PAIR_UNTIL(&p, p.audit.ops == op); /* all are taken, few fit the socket */
        revoke_window(&p);
        memset(p.memory, 0x22, BIG);
        for (uint32_t i = first; i < op; i++) {
            memset(data, 0x11, BIG);
            int status = raw_read_answer(&p, fd, i, data);
            cr_assert_null(memchr(data, 0x22, BIG), "round %u", round);
            if (status == RDMAD_OK)
                cr_assert_null(memchr(data, 0, BIG), "zeros passed off as data");
            else if (status == RDMAD_E_LEASE_REVOKED)
                cut++;
            else
                cr_assert_eq(status, RDMAD_E_NO_LEASE);
        }
        reopen(&p);
    }
    cr_assert(cut > 0, "no round cut a read in the middle");
    free(data);
    close(fd);
    pair_close(&p);
}

Test(tcp_revoke, a_read_that_was_cut_is_reported_failed) {
    struct pair p;
    pair_open(&p, 32 * BIG);
    unsigned failed = 0;
    for (unsigned round = 0; round < 10 * test_scale(); round++) {
        struct top ops[32];
        memset(p.memory, 0x11, p.bytes);
        memset(p.local, 0, p.bytes);
        for (unsigned i = 0; i < 32; i++) {
            op_prepare(&p, &ops[i], RDMAD_OP_READ, i * BIG, i * BIG, BIG);
            op_post(&p, &ops[i]);
        }
        fabric_tcp.poll(p.lessee.fabric);
        for (unsigned i = 0; i < 20; i++)
            fabric_tcp.poll(p.owner.fabric);
        revoke_window(&p);
        memset(p.memory, 0x22, p.bytes);
        PAIR_UNTIL(&p, all_done(ops, 32));
        cr_assert_null(memchr(p.local, 0x22, p.bytes));
        for (unsigned i = 0; i < 32; i++) {
            if (ops[i].op.status == RDMAD_OK)
                cr_assert_null(memchr(ops[i].op.local, 0, BIG));
            else
                failed++;
        }
        reopen(&p);
    }
    cr_assert(failed > 0, "no round cut a read");
    cr_assert_eq(p.lessee.lost, 0);
    pair_close(&p);
}

Test(tcp_revoke, a_deadline_cuts_a_stalled_payload_too) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE);
    uint8_t *payload = malloc(BIG);
    memset(payload, 0x33, BIG);
    struct frame f = raw_request(&p.key, FRAME_WRITE, 0, 0, BIG);
    raw_frame(&p, fd, &f);
    raw_send(&p, fd, payload, BIG / 2);
    turns(&p, 10);
    cr_assert_eq(p.memory[BIG / 2 - 1], 0x33);
    fabric_tcp.window_extend(p.window, clock_now_ns() + NSEC_PER_SEC);
    p.owner.skew_ns = NSEC_PER_SEC;
    raw_send(&p, fd, payload, BIG / 2);
    struct frame answer = raw_answer(&p, fd);
    cr_assert_eq(answer.status, RDMAD_E_LEASE_EXPIRED);
    cr_assert_eq(answer.flags, FRAME_TOUCHED);
    cr_assert_eq(p.memory[BIG / 2], 0);
    free(payload);
    close(fd);
    pair_close(&p);
}

Test(tcp_revoke, a_deadline_turns_queued_read_data_to_zeros) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE);
    uint8_t *data = malloc(BIG);
    memset(p.memory, 0x11, BIG);
    for (uint32_t op = 0; op < 60; op++) {
        struct frame f = raw_request(&p.key, FRAME_READ, op, 0, BIG);
        raw_frame(&p, fd, &f);
    }
    PAIR_UNTIL(&p, p.audit.ops == 60);
    fabric_tcp.window_extend(p.window, clock_now_ns() + NSEC_PER_SEC);
    p.owner.skew_ns = NSEC_PER_SEC;
    pair_turn(&p);
    memset(p.memory, 0x22, BIG);
    unsigned expired = 0;
    for (uint32_t op = 0; op < 60; op++) {
        memset(data, 0, BIG);
        expired += raw_read_answer(&p, fd, op, data) == RDMAD_E_LEASE_EXPIRED;
        cr_assert_null(memchr(data, 0x22, BIG));
    }
    cr_assert(expired > 0);
    free(data);
    close(fd);
    pair_close(&p);
}

/* The daemon is stopped while it serves a read of its socket, and goes on with what that brought.
 */
static void half_a_minute_passes(struct side *s) {
    s->skew_ns += 30 * NSEC_PER_SEC;
}

Test(tcp_revoke, a_write_is_judged_by_the_time_at_which_it_lands) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE);
    uint8_t requests[3 * FRAME_BYTES + 3 * 64], *to = requests;
    memset(requests, 0x33, sizeof requests);
    fabric_tcp.window_extend(p.window, clock_now_ns() + 30 * NSEC_PER_SEC);
    p.owner.then = half_a_minute_passes;
    for (uint32_t op = 0; op < 3; op++, to += FRAME_BYTES + 64) {
        struct frame f = op == 1 ? (struct frame){.type = FRAME_SEND, .op = op, .length = 64}
                                 : raw_request(&p.key, FRAME_WRITE, op, op * 64, 64);
        frame_put(to, &f);
    }
    raw_send(&p, fd, requests, sizeof requests);
    struct frame answer = raw_answer(&p, fd);
    cr_assert_eq(answer.type, FRAME_ACK);
    cr_assert_eq(answer.length, 2);
    answer = raw_answer(&p, fd);
    cr_assert_eq(answer.status, RDMAD_E_LEASE_EXPIRED);
    cr_assert_eq(p.memory[0], 0x33);
    cr_assert_eq(p.memory[2 * 64], 0, "it landed late");
    close(fd);
    pair_close(&p);
}

static uint64_t time_flies(void *user) {
    struct side *s = user;
    s->skew_ns += 3 * NSEC_PER_SEC / 2;
    return clock_now_ns() + s->skew_ns;
}

Test(tcp_revoke, a_long_payload_lands_in_pieces_with_a_look_at_the_clock_before_each) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE);
    uint32_t length = 64 << 10;
    uint8_t *request = malloc(FRAME_BYTES + length);
    memset(request, 0x33, FRAME_BYTES + length);
    struct frame f = raw_request(&p.key, FRAME_WRITE, 0, 0, length);
    frame_put(request, &f);
    fabric_tcp.window_extend(p.window, clock_now_ns() + 30 * NSEC_PER_SEC);
    p.owner.env.now_ns = time_flies;
    raw_send(&p, fd, request, FRAME_BYTES + length);
    struct frame answer = raw_answer(&p, fd);
    cr_assert_eq(answer.status, RDMAD_E_LEASE_EXPIRED, "all of it landed, late");
    cr_assert_eq(answer.flags, FRAME_TOUCHED);
    cr_assert_eq(p.memory[0], 0x33);
    cr_assert_eq(p.memory[length - 1], 0);
    free(request);
    close(fd);
    pair_close(&p);
}

Test(tcp_revoke, expelling_a_peer_ends_its_connections_offers_and_traffic) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE), other = raw_dial_as(&p, STRANGE);
    struct fabric_blob offer;
    cr_assert_eq(fabric_tcp.offer(p.owner.fabric, LESSEE, false, &no_hello, &offer, NULL), 0);
    struct frame f = raw_request(&p.key, FRAME_WRITE, 0, 0, BIG);
    raw_frame(&p, fd, &f);
    turns(&p, 5);
    struct top op;
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, BIG);
    op_post(&p, &op);
    fabric_tcp.expel(p.owner.fabric, LESSEE);
    cr_assert(raw_closed(&p, fd));
    PAIR_UNTIL(&p, op.done && p.lessee.lost == 1);
    cr_assert_eq(op.op.status, RDMAD_E_PEER_LOST);
    int late = raw_dial(raw_port(&offer));
    uint8_t hello[HELLO_BYTES];
    hello_put(hello, raw_token(&offer));
    raw_send(&p, late, hello, sizeof hello);
    cr_assert(raw_closed(&p, late));
    f = (struct frame){.type = FRAME_VOID};
    raw_frame(&p, other, &f);
    cr_assert_eq(raw_answer(&p, other).type, FRAME_ACK);
    close(fd);
    close(other);
    close(late);
    pair_close(&p);
}
