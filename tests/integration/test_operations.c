/* SPDX-License-Identifier: MIT */
/*
 * test_operations.c - every operation, in every class of size, on one daemon and between two,
 * checked byte for byte against a model of both memories: what an operation should change has
 * changed, and nothing else has.
 */
#include "tests/support/client.h"
#include "tests/support/pair.h"

#include <stdlib.h>
#include <string.h>

enum { KIB = 1 << 10, MIB = 1 << 20, POOL = 16 * MIB, LARGEST = 5 * MIB + 3 };

static const size_t sizes[] = {0,    1,           8,       63,          64,           65,
                               1000, 4 * KIB - 1, 4 * KIB, 4 * KIB + 1, 16 * KIB + 1, 64 * KIB,
                               MIB,  MIB + 1,     LARGEST};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

struct table {
    struct pair p;
    uint8_t *near_, *far_; /* what must be in the memories */
    uint64_t seed;
};

/* Where an operation of this size has its bytes here and there: anywhere. */
struct place {
    size_t here, there, size;
};

static struct place somewhere(size_t size) {
    return (struct place){.here = test_random() % (POOL - size),
                          .there = test_random() % (POOL - size),
                          .size = size};
}

static void table_open(struct table *t, enum pair_route route) {
    pair_open(&t->p, route, POOL, RDMAD_RIGHTS_ALL);
    t->seed = test_random();
    t->near_ = malloc(POOL);
    t->far_ = malloc(POOL);
    CHECK(t->near_ && t->far_, "out of memory");
    fill_bytes(t->p.near, POOL, ++t->seed);
    fill_bytes(t->p.far, POOL, ++t->seed);
    memcpy(t->near_, t->p.near, POOL);
    memcpy(t->far_, t->p.far, POOL);
}

static void table_close(struct table *t) {
    free(t->near_);
    free(t->far_);
    pair_close(&t->p);
}

static void expect_same(const uint8_t *is, const uint8_t *should, const char *whose,
                        const char *what, size_t size) {
    if (memcmp(is, should, POOL) == 0)
        return;
    size_t i = 0;
    while (is[i] == should[i])
        i++;
    CHECK(0, "after %s of %zu bytes: byte %zu of the %s memory is %u, not %u", what, size, i, whose,
          is[i], should[i]);
}

static void expect_model(const struct table *t, const char *what, size_t size) {
    expect_same(t->p.near, t->near_, "near", what, size);
    expect_same(t->p.far, t->far_, "far", what, size);
}

static void expect_ok(const struct table *t, int rc, const char *what, size_t size) {
    CHECK(!rc, "%s of %zu bytes: %s", what, size, rdmad_last_error(t->p.a));
    expect_model(t, what, size);
}

/* New bytes in near, as in its model. */
static void fresh(struct table *t, size_t at, size_t size) {
    fill_bytes(t->p.near + at, size, ++t->seed);
    memcpy(t->near_ + at, t->p.near + at, size);
}

/* ---- one-sided ----------------------------------------------------------------------------- */

static void do_write(struct table *t, size_t size) {
    struct place at = somewhere(size);
    fresh(t, at.here, size);
    memcpy(t->far_ + at.there, t->near_ + at.here, size);
    expect_ok(t, rdmad_write(t->p.lease, at.there, t->p.near + at.here, size), "write", size);
}

static void do_read(struct table *t, size_t size) {
    struct place at = somewhere(size);
    memcpy(t->near_ + at.here, t->far_ + at.there, size);
    expect_ok(t, rdmad_read(t->p.lease, at.there, t->p.near + at.here, size), "read", size);
}

static void do_copies(struct table *t, size_t size) {
    struct place at = somewhere(size);
    uint8_t *plain = malloc(size + 1);
    CHECK(plain, "out of memory");
    fill_bytes(plain, size, ++t->seed);
    memcpy(t->far_ + at.there, plain, size);
    expect_ok(t, rdmad_write_copy(t->p.lease, at.there, plain, size), "write_copy", size);
    memset(plain, 0, size);
    expect_ok(t, rdmad_read_copy(t->p.lease, at.there, plain, size), "read_copy", size);
    CHECK(memcmp(plain, t->far_ + at.there, size) == 0, "read_copy of %zu bytes", size);
    free(plain);
}

/* Three ranges of about a third each, in another order there than here. */
static unsigned cut(struct table *t, size_t size, struct rdmad_segment seg[3]) {
    size_t third = size / 3, last = size - 2 * third, slot = POOL / 3 - LARGEST / 2;
    for (unsigned i = 0; i < 3; i++) {
        seg[i].length = i == 2 ? last : third;
        seg[i].buffer = t->p.near + i * (POOL / 3) + test_random() % slot;
        seg[i].offset = (2 - i) * (POOL / 3) + test_random() % slot;
    }
    return 3;
}

static void do_writev(struct table *t, size_t size) {
    struct rdmad_segment seg[3];
    unsigned n = cut(t, size, seg);
    for (unsigned i = 0; i < n; i++) {
        size_t here = (size_t)((uint8_t *)seg[i].buffer - t->p.near);
        fresh(t, here, seg[i].length);
        memcpy(t->far_ + seg[i].offset, t->near_ + here, seg[i].length);
    }
    expect_ok(t, rdmad_writev(t->p.lease, seg, n), "writev", size);
}

static void do_readv(struct table *t, size_t size) {
    struct rdmad_segment seg[3];
    unsigned n = cut(t, size, seg);
    for (unsigned i = 0; i < n; i++)
        memcpy(t->near_ + ((uint8_t *)seg[i].buffer - t->p.near), t->far_ + seg[i].offset,
               seg[i].length);
    expect_ok(t, rdmad_readv(t->p.lease, seg, n), "readv", size);
}

/* The owner that takes the notification finds the bytes. */
static void do_notify(struct table *t, size_t size) {
    struct place at = somewhere(size);
    uint32_t imm = 0, want = (uint32_t)test_random();
    uint64_t bytes = 0;
    fresh(t, at.here, size);
    memcpy(t->far_ + at.there, t->near_ + at.here, size);
    int rc = rdmad_write_notify(t->p.lease, at.there, t->p.near + at.here, size, want);
    CHECK(!rc, "write_notify of %zu bytes: %s", size, rdmad_last_error(t->p.a));
    rc = rdmad_wait_notified(t->p.own, (int)TEST_PATIENCE_MS, &imm, &bytes);
    CHECK(!rc, "wait_notified: %s", rdmad_last_error(t->p.b));
    CHECK(imm == want && bytes == size, "notified of %llu bytes, imm %#x instead of %zu, %#x",
          (unsigned long long)bytes, imm, size, want);
    expect_model(t, "write_notify", size);
}

/* ---- atomics ------------------------------------------------------------------------------- */

static uint64_t word_at(const uint8_t *memory, size_t at) {
    uint64_t v;
    memcpy(&v, memory + at, sizeof(v));
    return v;
}

static void set_word(uint8_t *memory, size_t at, uint64_t v) {
    memcpy(memory + at, &v, sizeof(v));
}

static void do_atomics(struct table *t, size_t at) {
    uint64_t is = word_at(t->far_, at), old = 0, desired = test_random(), add = test_random();
    set_word(t->far_, at, desired);
    expect_ok(t, rdmad_cas(t->p.lease, at, is, desired, &old), "cas", 8);
    CHECK(old == is, "cas found %#llx, not %#llx", (unsigned long long)old, (unsigned long long)is);
    expect_ok(t, rdmad_cas(t->p.lease, at, ~desired, is, &old), "cas that compares unequal", 8);
    CHECK(old == desired, "cas that compares unequal found %#llx", (unsigned long long)old);
    set_word(t->far_, at, desired + add);
    expect_ok(t, rdmad_fetch_add(t->p.lease, at, add, &old), "fetch_add", 8);
    CHECK(old == desired, "fetch_add found %#llx", (unsigned long long)old);
    CHECK(rdmad_cas(t->p.lease, at + 4, 0, 0, &old) == RDMAD_E_ALIGN, "cas aligned to 4 passes");
    expect_model(t, "misaligned cas", 8);
    CHECK(rdmad_fetch_add(t->p.lease, POOL, 1, &old) == RDMAD_E_RANGE, "fetch_add beyond passes");
}

/* ---- messages ------------------------------------------------------------------------------ */

struct message {
    rdmad_channel *from, *to;
    rdmad_session *sender, *receiver;
    uint8_t *source, *sink, *sink_; /* memory, and the model of the sink's */
    bool with_imm;
};

static struct rdmad_cqe taken(rdmad_ring *r, const char *what, size_t size) {
    const struct rdmad_cqe *cqe;
    char text[400];
    int rc = rdmad_ring_wait(r, (int)TEST_PATIENCE_MS, &cqe);
    CHECK(!rc, "%s of %zu bytes: no completion, %d", what, size, rc);
    rdmad_ring_explain(r, cqe, text, sizeof(text));
    CHECK(!cqe->status, "%s of %zu bytes: %s", what, size, text);
    struct rdmad_cqe copy = *cqe;
    rdmad_ring_seen(r, cqe);
    return copy;
}

static void pass(const struct message *m, const struct place *at, uint32_t imm) {
    rdmad_ring *out = client_ring(m->sender, 8), *in = client_ring(m->receiver, 8);
    struct rdmad_sqe *sqe = rdmad_ring_reserve(in);
    int rc = rdmad_prep_recv(in, sqe, m->to, m->sink + at->there, at->size, 1);
    CHECK(!rc && rdmad_ring_submit(in) == 1, "recv: %s", rdmad_last_error(m->receiver));
    sqe = rdmad_ring_reserve(out);
    rc = rdmad_prep_send(out, sqe, m->from, m->source + at->here, at->size, 2);
    if (m->with_imm)
        rdmad_sqe_set_imm(sqe, imm);
    CHECK(!rc && rdmad_ring_submit(out) == 1, "send: %s", rdmad_last_error(m->sender));
    struct rdmad_cqe got = taken(in, "recv", at->size), sent = taken(out, "send", at->size);
    CHECK(got.bytes == at->size && sent.bytes == at->size && got.user_data == 1, "%llu bytes came",
          (unsigned long long)got.bytes);
    CHECK(m->with_imm ? (got.flags & RDMAD_CQE_IMM) && got.imm == imm : got.flags == 0,
          "imm %#llx instead of %#x, flags %u", (unsigned long long)got.imm, imm, got.flags);
    rdmad_ring_destroy(out);
    rdmad_ring_destroy(in);
}

static void do_message(struct table *t, size_t size, bool back, bool with_imm) {
    struct pair *p = &t->p;
    struct message m = {p->ca, p->cb, p->a, p->b, p->near, p->far, t->far_, with_imm};
    if (back)
        m = (struct message){p->cb, p->ca, p->b, p->a, p->far, p->near, t->near_, with_imm};
    struct place at = somewhere(size);
    memcpy(m.sink_ + at.there, m.source + at.here, size);
    pass(&m, &at, (uint32_t)test_random());
    expect_model(t, "a message", size);
}

/* ---- the table ----------------------------------------------------------------------------- */

static void every_operation(enum pair_route route) {
    struct table t;
    pair_needs_route(route);
    table_open(&t, route);
    for (unsigned i = 0; i < SIZES; i++) {
        do_write(&t, sizes[i]);
        do_read(&t, sizes[i]);
        do_copies(&t, sizes[i]);
        do_writev(&t, sizes[i]);
        do_readv(&t, sizes[i]);
        do_notify(&t, sizes[i]);
        for (unsigned way = 0; way < 4; way++)
            do_message(&t, sizes[i], way & 1, way & 2);
    }
    do_atomics(&t, 0);
    do_atomics(&t, POOL - 8);
    do_atomics(&t, test_random() % (POOL / 8) * 8);
    table_close(&t);
}

static void every_operation_in_every_size_on_one_daemon(void) {
    every_operation(PAIR_LOCAL);
}

static void every_operation_in_every_size_between_two_daemons(void) {
    every_operation(PAIR_LINK);
}

TEST_MAIN(CASE(every_operation_in_every_size_on_one_daemon),
          CASE(every_operation_in_every_size_between_two_daemons))
