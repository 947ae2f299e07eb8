/* SPDX-License-Identifier: MIT */
/*
 * test_notify_stream.c - notifications by the thousand, on one daemon and between two: none is
 * refused before 64 are untaken, and a stream of linked ones has no holes.
 */
#include "tests/support/client.h"

#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { BYTES = 1 << 16, OUT = 16, ASKED = 32, BUSY = 4 };

/* What the two processes know of each other without rdmad. */
struct board {
    char uri[RDMAD_URI_MAX + 1];
    struct tdaemon *at;
    uint32_t count; /* to be sent */
    uint32_t taken; /* atomic, by the owner */
    bool slow;      /* the owner */
    bool stopped;   /* atomic: a stream was, for it */
    bool granted;
};

static struct rdmad_sqe *reserved(rdmad_ring *ring) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    CHECK(sqe, "the ring has no entry");
    return sqe;
}

/* Takes them as they come, always with ASKED questions ahead; each must be the next. */
static void take_all(void *arg) {
    struct board *b = arg;
    rdmad_pool *pool;
    rdmad_ring *ring;
    rdmad_lease *lease;
    rdmad_session *s = client_with_pool(b->at, BYTES, &pool);
    CHECK(!rdmad_lease_grant(s, rdmad_pool_base(pool), 4096, NULL, &lease) &&
              !rdmad_ring_create(s, ASKED, &ring),
          "%s", rdmad_last_error(s));
    strcpy(b->uri, rdmad_lease_uri(lease));
    for (unsigned i = 0; i < ASKED; i++)
        CHECK(!rdmad_prep_notified(ring, reserved(ring), lease, 0), "%s", rdmad_last_error(s));
    rdmad_ring_submit(ring);
    __atomic_store_n(&b->granted, true, __ATOMIC_RELEASE);
    for (uint32_t next = 0; next < b->count;) {
        const struct rdmad_cqe *cqe;
        CHECK(!rdmad_ring_wait(ring, (int)TEST_PATIENCE_MS, &cqe), "number %u did not come", next);
        CHECK(!cqe->status, "%s", rdmad_errname(cqe->status));
        CHECK(cqe->imm == next, "%u came instead of %u", (unsigned)cqe->imm, next);
        CHECK(*(uint32_t *)rdmad_pool_base(pool) >= next, "the bytes of %u are not there", next);
        rdmad_ring_seen(ring, cqe);
        CHECK(!rdmad_prep_notified(ring, reserved(ring), lease, 0), "%s", rdmad_last_error(s));
        rdmad_ring_submit(ring);
        __atomic_store_n(&b->taken, ++next, __ATOMIC_RELEASE);
        if (b->slow && next % 16 == 0)
            sleep_ms(1);
        while (b->slow && next == 1 && !__atomic_load_n(&b->stopped, __ATOMIC_ACQUIRE))
            sleep_ms(1); /* once it is too slow for sure */
    }
    rdmad_close(s);
}

/* Who sends, in this process, at the daemon of the owner, a process of its own, or at another. */
struct stream {
    struct tdaemon *a, *at;
    struct board *b;
    pid_t owner;
    rdmad_session *s;
    uint32_t *memory;
    rdmad_ring *ring;
    rdmad_lease *lease;
};

static struct stream stream_open(bool link, uint32_t count, bool slow) {
    struct stream st = {.a = tdaemon_start("127.0.0.1", NULL)};
    rdmad_pool *pool;
    st.at = link ? tdaemon_start("127.0.0.2", NULL) : st.a;
    st.b = mmap(NULL, sizeof(*st.b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(st.b != MAP_FAILED, "no memory");
    *st.b = (struct board){.at = st.a, .count = count, .slow = slow};
    st.owner = client_fork(take_all, st.b);
    st.s = client_with_pool(st.at, BYTES, &pool);
    st.memory = rdmad_pool_base(pool);
    while (!__atomic_load_n(&st.b->granted, __ATOMIC_ACQUIRE))
        sleep_ms(1);
    st.lease = client_attach(st.s, st.b->uri);
    st.ring = client_ring(st.s, OUT);
    return st;
}

/* The owner has taken all. */
static void stream_close(struct stream *st) {
    client_expect_ok(st->owner);
    rdmad_close(st->s);
    if (st->at != st->a)
        tdaemon_stop(st->at);
    tdaemon_stop(st->a);
    munmap(st->b, sizeof(*st->b));
}

/* Keeps the daemon's control thread busy until it is killed: names listed, memory come and gone. */
static void keep_busy(void *arg) {
    rdmad_session *s = client_open(arg);
    struct rdmad_name names[16];
    for (;;) {
        size_t n;
        rdmad_pool *pool;
        if (!rdmad_pool_create(s, 1 << 20, 0, &pool))
            rdmad_pool_destroy(pool);
        rdmad_names_list(s, NULL, NULL, NULL, 0, names, 16, &n);
    }
}

/* 16 out, and never more than 64 untaken, which the owner tells by the board: so none may be
 * refused, however slowly anything else is told. Both control threads are kept busy meanwhile. */
static void a_stream(bool link) {
    const uint32_t count = test_count(200000);
    struct stream st = stream_open(link, count, false);
    uint32_t sent = 0, ended = 0;
    uint32_t refused = 0, tight = 0;
    pid_t busy[BUSY];
    for (unsigned i = 0; i < BUSY; i++)
        busy[i] = client_fork(keep_busy, i % 2 ? st.a : st.at);
    while (ended < count) {
        const struct rdmad_cqe *cqe;
        uint32_t untaken = sent - __atomic_load_n(&st.b->taken, __ATOMIC_ACQUIRE);
        tight += untaken == RDMAD_NOTIFY_DEPTH;
        while (sent < count && sent - ended < OUT && untaken < RDMAD_NOTIFY_DEPTH) {
            uint32_t *from = &st.memory[sent % 1024];
            *from = sent;
            CHECK(!rdmad_prep_write_notify(st.ring, reserved(st.ring), st.lease, 0, from, 4, sent,
                                           sent),
                  "%s", rdmad_last_error(st.s));
            sent++;
            untaken++;
        }
        rdmad_ring_submit(st.ring);
        if (sent == ended) { /* the owner has 64 to take */
            sleep_ms(1);
            continue;
        }
        int rc = rdmad_ring_wait(st.ring, (int)TEST_PATIENCE_MS, &cqe);
        CHECK(!rc, "%s: %u sent, %u ended", rdmad_errname(rc), sent, ended);
        refused += cqe->status == RDMAD_E_NO_WAITER;
        CHECK(!cqe->status || cqe->status == RDMAD_E_NO_WAITER, "%s", rdmad_errname(cqe->status));
        ended++;
        rdmad_ring_seen(st.ring, cqe);
        CHECK(!refused, "%u was refused, with %u untaken at most", ended - 1, untaken);
    }
    fprintf(stderr, "%s: %u notifications, %u out, %u refused; all 64 untaken %u times\n",
            link ? "two daemons" : "one daemon", count, OUT, refused, tight);
    for (unsigned i = 0; i < BUSY; i++)
        client_kill(busy[i]);
    stream_close(&st);
}

/* Everything is linked, and the owner is slower than the stream: what is refused stops it, and it
 * goes on from there. The owner checks that it gets each, in order. */
static void a_linked_stream(bool link) {
    const uint32_t count = test_count(20000);
    struct stream st = stream_open(link, count, true);
    uint32_t next = 0, stops = 0;
    while (next < count) {
        uint32_t first = next, ended = 0, sent = 0;
        bool stopped = false;
        CHECK(!rdmad_prep_nop(st.ring, reserved(st.ring), UINT64_MAX), "%s",
              rdmad_last_error(st.s)); /* what came before has been seen */
        for (; sent < OUT - 1 && first + sent < count; sent++) {
            struct rdmad_sqe *sqe = reserved(st.ring);
            uint32_t n = first + sent, *from = &st.memory[n % 1024];
            *from = n;
            CHECK(!rdmad_prep_write_notify(st.ring, sqe, st.lease, 0, from, 4, n, n), "%s",
                  rdmad_last_error(st.s));
            rdmad_sqe_set_flags(sqe, RDMAD_SQE_LINK);
        }
        rdmad_ring_submit(st.ring);
        for (; ended < sent + 1; ended++) {
            const struct rdmad_cqe *cqe;
            CHECK(!rdmad_ring_wait(st.ring, (int)TEST_PATIENCE_MS, &cqe), "nothing comes");
            if (cqe->user_data != UINT64_MAX) {
                CHECK(cqe->user_data == first + ended - 1, "out of order");
                int wanted = stopped ? RDMAD_E_CANCELED : 0;
                CHECK(cqe->status == wanted || (!stopped && cqe->status == RDMAD_E_NO_WAITER),
                      "%u: %s", (unsigned)cqe->user_data, rdmad_errname(cqe->status));
                stops += cqe->status == RDMAD_E_NO_WAITER;
                __atomic_store_n(&st.b->stopped, stops > 0, __ATOMIC_RELEASE);
                stopped = cqe->status;
                next += !cqe->status;
            }
            rdmad_ring_seen(st.ring, cqe);
        }
    }
    fprintf(stderr, "%s: %u linked notifications, stopped %u times, no holes\n",
            link ? "two daemons" : "one daemon", count, stops);
    CHECK(stops, "the owner was to be too slow at least once");
    stream_close(&st);
}

static void a_linked_stream_has_no_holes(void) {
    if (test_local_route())
        a_linked_stream(false);
    a_linked_stream(true);
}

static void none_is_refused_before_64_are_untaken(void) {
    if (test_local_route())
        a_stream(false);
    a_stream(true);
}

TEST_MAIN(CASE(none_is_refused_before_64_are_untaken), CASE(a_linked_stream_has_no_holes))
