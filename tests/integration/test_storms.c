/* SPDX-License-Identifier: MIT */
/*
 * test_storms.c - cancels and revokes at random moments of transfers at full rate. When a cancel
 * has returned, the caller's buffer is its own: nothing reads it (bytes written into it afterwards
 * never turn up at the target) and nothing changes it. When a revoke has returned, no leased byte
 * changes. Each op has exactly one outcome.
 */
#include "tests/support/client.h"
#include "tests/support/pair.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { OPS = 8, OP_BYTES = 256 << 10, POOL = 2 * OPS * OP_BYTES, RING = 32 };

/* Bytes tell what they are of: the target before, an op, or what came into its buffer later. */
enum { BEFORE = 0x11, OF_OP = 0x22, AFTERWARDS = 0x33 };

struct storm {
    struct pair p;
    rdmad_ring *ring;
    unsigned outcomes[4];
};

static void storm_open(struct storm *s, enum pair_route route) {
    *s = (struct storm){0};
    pair_open(&s->p, route, POOL, RDMAD_RIGHTS_DEFAULT);
    s->ring = client_ring(s->p.a, RING);
}

static void pause_us(unsigned us) {
    struct timespec ts = {.tv_nsec = (long)us * 1000};
    if (us)
        nanosleep(&ts, NULL);
}

static uint8_t *near_of(struct storm *s, unsigned i) {
    return s->p.near + (size_t)i * OP_BYTES;
}
static uint8_t *far_of(struct storm *s, unsigned i) {
    return s->p.far + (size_t)i * OP_BYTES;
}

static void submit(struct storm *s, unsigned i, bool write, uint64_t tag) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(s->ring);
    CHECK(sqe, "the ring is full");
    memset(near_of(s, i), write ? OF_OP : BEFORE, OP_BYTES);
    memset(far_of(s, i), write ? BEFORE : OF_OP, OP_BYTES);
    uint64_t there = (uint64_t)i * OP_BYTES;
    int rc = write ? rdmad_prep_write(s->ring, sqe, s->p.lease, there, near_of(s, i), OP_BYTES, tag)
                   : rdmad_prep_read(s->ring, sqe, s->p.lease, there, near_of(s, i), OP_BYTES, tag);
    CHECK(!rc, "prepare: %s", rdmad_last_error(s->p.a));
}

static void expect_bytes(const uint8_t *at, uint8_t one, uint8_t other, const char *what) {
    for (size_t i = 0; i < OP_BYTES; i++)
        CHECK(at[i] == one || at[i] == other, "%s: byte %zu is %#x", what, i, at[i]);
}

/* What the outcome says of the target. */
static void judge(struct storm *s, unsigned i, bool write, int outcome) {
    const uint8_t *target = write ? far_of(s, i) : near_of(s, i);
    CHECK(outcome >= 0 && outcome < 4, "outcome %d", outcome);
    s->outcomes[outcome]++;
    if (outcome == RDMAD_DONE)
        expect_bytes(target, OF_OP, OF_OP, "a done op's target");
    else if (outcome == RDMAD_FAILED_UNTOUCHED)
        expect_bytes(target, BEFORE, BEFORE, "an untouched target");
    else
        expect_bytes(target, BEFORE, OF_OP, "a target perhaps written");
}

/* One op of a batch in flight is canceled; its buffer is used for something else at once. */
static void cancel_round(struct storm *s, uint64_t round) {
    unsigned victim = (unsigned)(test_random() % OPS), left = OPS;
    bool write = test_random() % 2, victim_left = true;
    struct rdmad_cqe cqe = {0};
    for (unsigned i = 0; i < OPS; i++)
        submit(s, i, write, round * OPS + i);
    CHECK(rdmad_ring_submit(s->ring) == OPS, "submit: %s", rdmad_last_error(s->p.a));
    if (test_random() % 2)
        pause_us((unsigned)(test_random() % 300));
    int rc = rdmad_ring_cancel(s->ring, round * OPS + victim, &cqe);
    CHECK(!rc || rc == RDMAD_E_HANDLE, "cancel: %s", rdmad_last_error(s->p.a));
    if (!rc) {
        judge(s, victim, write, cqe.outcome);
        memset(near_of(s, victim), AFTERWARDS, OP_BYTES);
        victim_left = false;
        left--;
    }
    for (; left; left--) {
        const struct rdmad_cqe *next;
        rc = rdmad_ring_wait(s->ring, (int)TEST_PATIENCE_MS, &next);
        CHECK(!rc, "an op has no outcome: %d", rc);
        unsigned i = (unsigned)(next->user_data % OPS);
        CHECK(next->user_data / OPS == round && (i != victim || victim_left),
              "op %llu completes twice", (unsigned long long)next->user_data);
        judge(s, i, write, next->outcome);
        rdmad_ring_seen(s->ring, next);
    }
    if (!victim_left) {
        expect_bytes(near_of(s, victim), AFTERWARDS, AFTERWARDS, "a buffer after its cancel");
        if (write)
            expect_bytes(far_of(s, victim), BEFORE, OF_OP, "a target after the cancel");
    }
}

static void cancels(enum pair_route route) {
    struct storm s;
    pair_needs_route(route);
    storm_open(&s, route);
    unsigned rounds = test_count(10000) / 2;
    for (uint64_t round = 0; round < rounds; round++)
        cancel_round(&s, round);
    const struct rdmad_cqe *cqe;
    CHECK(rdmad_ring_peek(s.ring, &cqe) == RDMAD_E_AGAIN, "one completion too many");
    printf("  %u done, %u untouched, %u partial, %u unknown\n", s.outcomes[0], s.outcomes[1],
           s.outcomes[2], s.outcomes[3]);
    rdmad_ring_destroy(s.ring);
    pair_close(&s.p);
}

static void cancels_at_random_moments_on_one_daemon(void) {
    cancels(PAIR_LOCAL);
}

static void cancels_at_random_moments_between_two_daemons(void) {
    cancels(PAIR_LINK);
}

/* ---- revokes ------------------------------------------------------------------------------- */

static void revoke_round(struct storm *s, uint64_t round) {
    static uint8_t before[OPS * OP_BYTES];
    rdmad_lease *own, *lease;
    const struct rdmad_cqe *cqe;
    CHECK(!rdmad_lease_grant(s->p.b, s->p.far, OPS * OP_BYTES, NULL, &own), "%s",
          rdmad_last_error(s->p.b));
    CHECK(!rdmad_lease_attach(s->p.a, rdmad_lease_uri(own), 0, &lease), "%s",
          rdmad_last_error(s->p.a));
    for (unsigned i = 0; i < OPS; i++) {
        struct rdmad_sqe *sqe = rdmad_ring_reserve(s->ring);
        memset(near_of(s, i), (int)(round + i), OP_BYTES);
        CHECK(!rdmad_prep_write(s->ring, sqe, lease, (uint64_t)i * OP_BYTES, near_of(s, i),
                                OP_BYTES, i),
              "%s", rdmad_last_error(s->p.a));
    }
    CHECK(rdmad_ring_submit(s->ring) == OPS, "%s", rdmad_last_error(s->p.a));
    pause_us((unsigned)(test_random() % 300));
    CHECK(!rdmad_lease_revoke(own), "%s", rdmad_last_error(s->p.b));
    memcpy(before, s->p.far, sizeof(before));
    for (unsigned i = 0; i < OPS; i++) {
        int rc = rdmad_ring_wait(s->ring, (int)TEST_PATIENCE_MS, &cqe);
        CHECK(!rc, "an op has no outcome: %d", rc);
        CHECK(!cqe->status || cqe->status == RDMAD_E_LEASE_REVOKED, "status %d", cqe->status);
        rdmad_ring_seen(s->ring, cqe);
    }
    pause_us(200);
    CHECK(memcmp(before, s->p.far, sizeof(before)) == 0, "a byte changed after the revoke");
    rdmad_lease_free(lease);
    rdmad_lease_free(own);
}

static void revokes(enum pair_route route) {
    struct storm s;
    pair_needs_route(route);
    storm_open(&s, route);
    unsigned rounds = test_count(2000);
    for (uint64_t round = 0; round < rounds; round++)
        revoke_round(&s, round);
    rdmad_ring_destroy(s.ring);
    pair_close(&s.p);
}

static void revokes_at_random_moments_on_one_daemon(void) {
    revokes(PAIR_LOCAL);
}

static void revokes_at_random_moments_between_two_daemons(void) {
    revokes(PAIR_LINK);
}

TEST_MAIN(CASE(cancels_at_random_moments_on_one_daemon),
          CASE(cancels_at_random_moments_between_two_daemons),
          CASE(revokes_at_random_moments_on_one_daemon),
          CASE(revokes_at_random_moments_between_two_daemons))
