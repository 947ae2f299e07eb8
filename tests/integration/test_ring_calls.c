/* SPDX-License-Identifier: MIT */
/*
 * test_ring_calls.c - what a program does with rings beyond plain transfers, on one daemon and
 * between two: batches, silent ops, fences, cancels with and without waiting, callbacks.
 */
#include "tests/support/pair.h"

#include <string.h>

enum { POOL = 1 << 20, ENTRIES = 32 };

#define OK(call, s) CHECK(!(call), "%s", rdmad_last_error(s))

static struct pair p;
static rdmad_ring *ring;

static struct rdmad_sqe *reserve(void) {
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    struct rdmad_sqe *sqe;
    while (!(sqe = rdmad_ring_reserve(ring))) /* silent ops end by themselves */
        CHECK(now_ms() < until, "the ring is full");
    return sqe;
}

/* A write of size bytes at offset, from the same place here. */
static struct rdmad_sqe *put_write(uint64_t offset, size_t size, uint64_t user_data) {
    struct rdmad_sqe *sqe = reserve();
    OK(rdmad_prep_write(ring, sqe, p.lease, offset, p.near + offset % (POOL / 2), size, user_data),
       p.a);
    return sqe;
}

static void submit(int count) {
    int rc = rdmad_ring_submit(ring);
    CHECK(rc == count, "%d were submitted of %d: %s", rc, count, rdmad_last_error(p.a));
}

static struct rdmad_cqe reap(void) {
    const struct rdmad_cqe *cqe;
    OK(rdmad_ring_wait(ring, (int)TEST_PATIENCE_MS, &cqe), p.a);
    struct rdmad_cqe copy = *cqe;
    rdmad_ring_seen(ring, cqe);
    return copy;
}

static void expect(struct rdmad_cqe cqe, uint64_t user_data, int status, unsigned outcome) {
    CHECK(cqe.user_data == user_data, "op %lu completed, not %lu", (unsigned long)cqe.user_data,
          (unsigned long)user_data);
    CHECK(cqe.status == status, "op %lu: %s, not %s", (unsigned long)user_data,
          rdmad_errname(cqe.status), rdmad_errname(status));
    CHECK(cqe.outcome == outcome, "op %lu: outcome %u, not %u", (unsigned long)user_data,
          cqe.outcome, outcome);
}

static void expect_nothing(void) {
    const struct rdmad_cqe *cqe;
    CHECK(rdmad_ring_wait(ring, 20, &cqe) < 0, "a completion that nobody expects");
}

/* ---- batches ------------------------------------------------------------------------------- */

static void segments_as_one(void) {
    struct rdmad_segment segments[ENTRIES];
    size_t at;
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < ENTRIES; i++) /* scattered here, packed there */
            segments[i] = (struct rdmad_segment){p.near + i * 8192, 1000, i * 1000};
        for (unsigned i = 0; i < ENTRIES; i++)
            fill_bytes(p.near + i * 8192, 1000, round * ENTRIES + i);
        OK(rdmad_ring_writev(ring, p.lease, segments, ENTRIES, round), p.a);
        submit(ENTRIES);
        struct rdmad_cqe cqe = reap();
        expect(cqe, round, 0, RDMAD_DONE);
        CHECK(cqe.bytes == ENTRIES * 1000, "%lu bytes", (unsigned long)cqe.bytes);
        for (unsigned i = 0; i < ENTRIES; i++) {
            CHECK(bytes_are(p.far + i * 1000, 1000, round * ENTRIES + i, &at),
                  "byte %zu of segment %u differs", at, i);
            memset(p.near + i * 8192, 0, 1000);
        }
        OK(rdmad_ring_readv(ring, p.lease, segments, ENTRIES, round), p.a);
        submit(ENTRIES);
        expect(reap(), round, 0, RDMAD_DONE);
        for (unsigned i = 0; i < ENTRIES; i++)
            CHECK(bytes_are(p.near + i * 8192, 1000, round * ENTRIES + i, &at),
                  "byte %zu of segment %u came back wrong", at, i);
    }
}

static void batches_that_fail(void) {
    rdmad_sqe_set_flags(put_write(0, 64, 1), RDMAD_SQE_MORE);
    rdmad_sqe_set_flags(put_write(POOL, 64, 2), RDMAD_SQE_MORE); /* beyond the lease */
    put_write(128, 64, 3);
    submit(3);
    struct rdmad_cqe cqe = reap();
    expect(cqe, 3, RDMAD_E_RANGE, RDMAD_FAILED_PARTIAL);
    CHECK(cqe.bytes == 128, "%lu bytes are placed", (unsigned long)cqe.bytes);
    rdmad_sqe_set_flags(put_write(POOL, 64, 1), RDMAD_SQE_MORE);
    rdmad_prep_nop(ring, reserve(), 2); /* cannot be in one */
    submit(2);
    expect(reap(), 2, RDMAD_E_RANGE, RDMAD_FAILED_UNTOUCHED);
    for (unsigned i = 0; i < ENTRIES; i++) /* every entry is free again */
        put_write(i * 64, 64, i);
    submit(ENTRIES);
    for (unsigned i = 0; i < ENTRIES; i++)
        CHECK(reap().status == 0, "a write");
}

static void put_send(uint64_t user_data) {
    OK(rdmad_prep_send(ring, reserve(), p.ca, p.near, 64, user_data), p.a);
}

/* ---- cancels ------------------------------------------------------------------------------- */

/* Nobody receives, so sends wait. */
static void batches_canceled(void) {
    struct rdmad_sqe *sqe;
    struct rdmad_cqe cqe;
    for (uint64_t i = 0; i < 3; i++) {
        sqe = reserve();
        OK(rdmad_prep_send(ring, sqe, p.ca, p.near, 64, i), p.a);
        rdmad_sqe_set_flags(sqe, i < 2 ? RDMAD_SQE_MORE : 0);
    }
    put_send(3);
    submit(4);
    OK(rdmad_ring_cancel(ring, 2, &cqe), p.a);
    expect(cqe, 2, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    expect_nothing();
    OK(rdmad_ring_cancel(ring, 3, &cqe), p.a);
    expect(cqe, 3, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
}

static void full_rings_canceled(void) {
    struct rdmad_cqe cqe;
    for (unsigned round = 0; round < 20; round++) {
        for (uint64_t i = 0; i < ENTRIES; i++)
            put_send(i);
        submit(ENTRIES);
        CHECK(!rdmad_ring_reserve(ring), "the ring is full");
        for (uint64_t i = 0; i < ENTRIES; i++) {
            uint64_t which = i * 7 % ENTRIES;
            OK(rdmad_ring_cancel(ring, which, &cqe), p.a);
            expect(cqe, which, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
        }
        CHECK(rdmad_ring_cancel(ring, 0, &cqe) == RDMAD_E_HANDLE, "it is over");
    }
}

static void cancels_that_do_not_wait(void) {
    put_send(1);
    submit(1);
    OK(rdmad_prep_cancel(ring, reserve(), 1, 100), p.a);
    OK(rdmad_prep_cancel(ring, reserve(), 2, 200), p.a);
    submit(2);
    unsigned seen = 0;
    for (unsigned i = 0; i < 3; i++) {
        struct rdmad_cqe cqe = reap();
        int status = cqe.user_data == 1     ? RDMAD_E_CANCELED
                     : cqe.user_data == 100 ? 0
                                            : RDMAD_E_HANDLE;
        CHECK(cqe.status == status, "op %lu: %s", (unsigned long)cqe.user_data,
              rdmad_errname(cqe.status));
        seen += (unsigned)cqe.user_data;
    }
    CHECK(seen == 301, "each has one completion");
}

static void notifications_canceled(void) {
    rdmad_ring *there;
    struct rdmad_sqe *sqe;
    struct rdmad_cqe cqe;
    uint32_t imm = 0;
    OK(rdmad_ring_create(p.b, 4, &there), p.b);
    sqe = rdmad_ring_reserve(there);
    OK(rdmad_prep_notified(there, sqe, p.own, 1), p.b);
    CHECK(rdmad_ring_submit(there) == 1, "%s", rdmad_last_error(p.b));
    OK(rdmad_ring_cancel(there, 1, &cqe), p.b);
    CHECK(cqe.status == RDMAD_E_CANCELED, "%s", rdmad_errname(cqe.status));
    CHECK(rdmad_wait_notified(p.own, 20, &imm, NULL) == RDMAD_E_TIMEOUT, "nobody notified");
    OK(rdmad_write_notify(p.lease, 0, p.near, 64, 77), p.a);
    OK(rdmad_wait_notified(p.own, (int)TEST_PATIENCE_MS, &imm, NULL), p.b);
    CHECK(imm == 77, "it was not lost with the canceled one: %u", imm);
    rdmad_ring_destroy(there);
}

/* ---- silent ops, fences, callbacks --------------------------------------------------------- */

static void silence(void) {
    for (uint64_t i = 0; i < 10000; i++) { /* nobody ever looks */
        rdmad_sqe_set_flags(put_write(0, 64, i), RDMAD_SQE_SILENT);
        submit(1);
    }
    rdmad_sqe_set_flags(put_write(POOL, 64, 7), RDMAD_SQE_SILENT);
    submit(1);
    expect(reap(), 7, RDMAD_E_RANGE, RDMAD_FAILED_UNTOUCHED);
    expect_nothing();
}

/* Each number is written after the one before it has been, so the last is the largest. */
static void fences(void) {
    uint64_t *number = (uint64_t *)(void *)p.near;
    for (unsigned round = 0; round < 50; round++) {
        for (uint64_t i = 0; i < ENTRIES; i++) {
            struct rdmad_sqe *sqe = reserve();
            number[i] = round * ENTRIES + i;
            OK(rdmad_prep_write(ring, sqe, p.lease, 0, &number[i], 8, i), p.a);
            rdmad_sqe_set_flags(sqe, RDMAD_SQE_FENCE);
        }
        submit(ENTRIES);
        for (uint64_t i = 0; i < ENTRIES; i++)
            expect(reap(), i, 0, RDMAD_DONE);
        CHECK(*(uint64_t *)(void *)p.far == (round + 1) * ENTRIES - 1, "%lu was written last",
              (unsigned long)*(uint64_t *)(void *)p.far);
    }
}

/* Without its fence a small op goes between the pieces of the large one, and is done before it. */
static void fences_behind_large_ops(void) {
    size_t at;
    for (uint64_t round = 0; round < 20; round++) {
        fill_bytes(p.near, POOL / 2, round);
        put_write(0, POOL / 2, 0);
        rdmad_sqe_set_flags(put_write(POOL / 2, 8, 1), RDMAD_SQE_FENCE);
        put_write(POOL / 2 + 64, 8, 2);
        submit(3);
        expect(reap(), 0, 0, RDMAD_DONE);
        CHECK(bytes_are(p.far, POOL / 2, round, &at), "byte %zu is not there", at);
        expect(reap(), 1, 0, RDMAD_DONE);
        expect(reap(), 2, 0, RDMAD_DONE);
    }
}

/* Leases and channels have links of their own between two daemons. */
static void fences_across_links(void) {
    size_t at;
    for (uint64_t round = 0; round < 20; round++) {
        fill_bytes(p.near, POOL / 2, round);
        put_write(0, POOL / 2, 0);
        struct rdmad_sqe *sqe = reserve();
        OK(rdmad_prep_send(ring, sqe, p.ca, p.near + POOL / 2, 64, 1), p.a);
        rdmad_sqe_set_flags(sqe, RDMAD_SQE_FENCE);
        submit(2);
        OK(rdmad_recv(p.cb, p.far + POOL / 2, 64, (int)TEST_PATIENCE_MS, NULL), p.b);
        CHECK(bytes_are(p.far, POOL / 2, round, &at),
              "a message overtook byte %zu of what its fence waits for", at);
        expect(reap(), 0, 0, RDMAD_DONE);
        expect(reap(), 1, 0, RDMAD_DONE);
    }
}

static unsigned called;

static void again(void *arg, const struct rdmad_cqe *cqe) {
    CHECK(arg == &called && cqe->status == 0, "%s", rdmad_errname(cqe->status));
    if (++called > 10000 - ENTRIES)
        return;
    struct rdmad_sqe *sqe = put_write(cqe->user_data * 64, 64, cqe->user_data);
    OK(rdmad_sqe_set_callback(ring, sqe, again, &called), p.a);
    submit(1);
}

static void callbacks(void) {
    called = 0;
    for (uint64_t i = 0; i < ENTRIES; i++)
        OK(rdmad_sqe_set_callback(ring, put_write(i * 64, 64, i), again, &called), p.a);
    submit(ENTRIES);
    while (called < 10000)
        CHECK(rdmad_ring_dispatch(ring, (int)TEST_PATIENCE_MS, 0) > 0, "%s", rdmad_last_error(p.a));
    CHECK(rdmad_ring_dispatch(ring, -1, 0) == RDMAD_E_INVAL, "nothing is in flight");
}

/* ---- all of it, by both routes ------------------------------------------------------------- */

static void by_both(void (*test)(void)) {
    static const enum pair_route routes[] = {PAIR_LOCAL, PAIR_LINK};
    for (unsigned i = 0; i < 2; i++) {
        pair_open(&p, routes[i], POOL, RDMAD_RIGHTS_ALL);
        OK(rdmad_ring_create(p.a, ENTRIES, &ring), p.a);
        test();
        rdmad_ring_destroy(ring);
        pair_close(&p);
    }
}

#define BY_BOTH(test)               \
    static void both_##test(void) { \
        by_both(test);              \
    }
BY_BOTH(segments_as_one)
BY_BOTH(batches_that_fail)
BY_BOTH(batches_canceled)
BY_BOTH(full_rings_canceled)
BY_BOTH(cancels_that_do_not_wait)
BY_BOTH(notifications_canceled)
BY_BOTH(silence)
BY_BOTH(fences)
BY_BOTH(fences_behind_large_ops)
BY_BOTH(fences_across_links)
BY_BOTH(callbacks)

TEST_MAIN(CASE(both_segments_as_one), CASE(both_batches_that_fail), CASE(both_batches_canceled),
          CASE(both_full_rings_canceled), CASE(both_cancels_that_do_not_wait),
          CASE(both_notifications_canceled), CASE(both_silence), CASE(both_fences),
          CASE(both_fences_behind_large_ops), CASE(both_fences_across_links), CASE(both_callbacks))
