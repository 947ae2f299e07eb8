/* SPDX-License-Identifier: MIT */
/*
 * upgrade_load.c - an owner, threads with a session of their own each, and a process.
 */
#include "tests/integration/upgrade_load.h"
#include "tests/support/client.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, AREA = 64 << 10, DEPTH = 64, SEGMENTS = 4 };

/* A user of the lease: a thread, or the process. Its area of the lease is its own. */
struct worker {
    struct load *load;
    unsigned index;
    void (*run)(struct worker *w);
    rdmad_session *session;
    rdmad_pool *pool;
    rdmad_lease *lease;
    char *buffer;
    pthread_t thread;
};

/* Shared with the process. */
struct tally {
    uint64_t adds, ops, worst_ns;
};
struct shared {
    bool ready, stop;
    char uri[RDMAD_URI_MAX + 1];
    struct tally tally[8];
};

struct load {
    struct tdaemon *owners, *lessees; /* daemons */
    struct shared *shared;
    rdmad_session *owner;
    rdmad_pool *pool;
    rdmad_lease *granted;
    char *memory;
    pid_t process;
    pthread_t taker;
    struct worker worker[8];
};

static uint64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool stopped(const struct worker *w) {
    return __atomic_load_n(&w->load->shared->stop, __ATOMIC_RELAXED);
}

static uint64_t area_of(const struct worker *w) {
    return AREA * (1u + w->index);
}

/* A handle whose owner is not back yet is used soon without it (libclient/base/rest.h). A
 * sanitizer's build on a busy machine may need longer to bring back all owners. */
static bool is_too_soon(int rc) {
    if (!test_sanitized() || rc != RDMAD_E_NO_LEASE)
        return false;
    sleep_ms(1);
    return true;
}

/* Whether it was; else it is to be tried again. */
static bool done(struct worker *w, const char *what, int rc, uint64_t began_ns) {
    struct tally *t = &w->load->shared->tally[w->index];
    uint64_t took_ns = now_ns() - began_ns;
    if (is_too_soon(rc))
        return false;
    CHECK(rc == 0, "%s of worker %u: %s, outcome %d: %s", what, w->index, rdmad_errname(rc),
          rdmad_last_outcome(), rdmad_last_error(w->session));
    __atomic_add_fetch(&t->ops, 1, __ATOMIC_RELAXED);
    if (took_ns > t->worst_ns)
        t->worst_ns = took_ns;
    return true;
}

static void added(struct worker *w, uint64_t n) {
    w->load->shared->tally[w->index].adds += n;
}

/* ---- kinds of work --------------------------------------------------------------------------- */

static void run_adds(struct worker *w) {
    while (!stopped(w)) {
        uint64_t began_ns = now_ns(), was;
        if (done(w, "fetch-add", rdmad_fetch_add(w->lease, 0, 1, &was), began_ns))
            added(w, 1);
    }
}

/* What was written is read back: a write that is said to be done and is not would show. */
static void run_writes_and_reads(struct worker *w) {
    char *from = w->buffer, *to = w->buffer + AREA;
    for (unsigned round = 1; !stopped(w); round++) {
        size_t bytes = round % 3 ? 8 + round % 512 * 8 : AREA;
        memset(from, (int)round, bytes);
        uint64_t began_ns = now_ns();
        if (!done(w, "write", rdmad_write(w->lease, area_of(w), from, bytes), began_ns))
            continue;
        began_ns = now_ns();
        if (!done(w, "read", rdmad_read(w->lease, area_of(w), to, bytes), began_ns))
            continue;
        CHECK(memcmp(from, to, bytes) == 0, "round %u: what was written is not there", round);
    }
}

static void run_batches(struct worker *w) {
    struct rdmad_segment out[SEGMENTS], in[SEGMENTS];
    for (unsigned i = 0; i < SEGMENTS; i++) {
        out[i] = (struct rdmad_segment){w->buffer + 4096 * i, 512, area_of(w) + 8192 * i};
        in[i] = (struct rdmad_segment){w->buffer + AREA + 4096 * i, 512, area_of(w) + 8192 * i};
    }
    for (unsigned round = 1; !stopped(w); round++) {
        for (unsigned i = 0; i < SEGMENTS; i++)
            memset(out[i].buffer, (int)(round + i), 512);
        uint64_t began_ns = now_ns();
        if (!done(w, "batch of writes", rdmad_writev(w->lease, out, SEGMENTS), began_ns))
            continue;
        began_ns = now_ns();
        if (!done(w, "batch of reads", rdmad_readv(w->lease, in, SEGMENTS), began_ns))
            continue;
        for (unsigned i = 0; i < SEGMENTS; i++)
            CHECK(memcmp(out[i].buffer, in[i].buffer, 512) == 0, "round %u, segment %u", round, i);
    }
}

/* The second word of its area is its own, so it always finds what it has left there. */
static void run_compares(struct worker *w) {
    for (uint64_t value = 0; !stopped(w);) {
        uint64_t began_ns = now_ns(), was;
        if (!done(w, "compare-and-swap",
                  rdmad_cas(w->lease, area_of(w) + 8, value, value + 1, &was), began_ns))
            continue;
        CHECK(was == value, "worker %u left %llu and finds %llu", w->index,
              (unsigned long long)value, (unsigned long long)was);
        value++;
    }
}

/* While the owner has not taken those before, it is told so, and waits. */
static void run_notifies(struct worker *w) {
    for (uint32_t n = 0; !stopped(w); n++) {
        uint64_t began_ns = now_ns();
        int rc = rdmad_write_notify(w->lease, area_of(w), w->buffer, 64, n);
        if (rc == RDMAD_E_NO_WAITER)
            sleep_ms(1);
        else
            (void)done(w, "write and notify", rc, began_ns);
    }
}

bool load_of_before, load_by_before;

static void *take_notices(void *arg) {
    struct load *l = arg;
    uint32_t imm;
    while (!__atomic_load_n(&l->shared->stop, __ATOMIC_RELAXED)) {
        int rc = rdmad_wait_notified(l->granted, 20, &imm, NULL);
        bool cut = load_of_before && (rc == RDMAD_E_CANCELED || rc == RDMAD_E_DAEMON_LOST);
        CHECK(rc == 0 || rc == RDMAD_E_TIMEOUT || cut, "to be notified: %s: %s", rdmad_errname(rc),
              rdmad_last_error(l->owner));
    }
    return NULL;
}

/* Kinds in turns, so that a ring is cut anywhere. */
static void prepare_one(struct worker *w, rdmad_ring *r, uint64_t n) {
    struct rdmad_sqe *sqe;
    struct rdmad_segment s[SEGMENTS];
    int rc;
    if (n % 5 == 4) {
        for (unsigned i = 0; i < SEGMENTS; i++)
            s[i] = (struct rdmad_segment){w->buffer + 64 * i, 64, area_of(w) + 64 * i};
        rc = rdmad_ring_writev(r, w->lease, s, SEGMENTS, n);
        CHECK(rc == 0, "%s", rdmad_last_error(w->session));
        return;
    }
    sqe = rdmad_ring_reserve(r);
    CHECK(sqe, "no entry");
    if (n % 5 == 0)
        rc = rdmad_prep_nop(r, sqe, n);
    else if (n % 5 == 1)
        rc = rdmad_prep_read(r, sqe, w->lease, area_of(w), w->buffer + AREA, 2048, n);
    else
        rc = rdmad_prep_fetch_add(r, sqe, w->lease, 0, 1, n);
    if (rc == RDMAD_E_BUSY) /* another read into the same buffer is under way */
        rc = rdmad_prep_nop(r, sqe, n);
    CHECK(rc == 0, "%s", rdmad_last_error(w->session));
}

static void reap_one(struct worker *w, rdmad_ring *r, uint64_t began_ns) {
    const struct rdmad_cqe *cqe;
    char text[512];
    int rc = rdmad_ring_wait(r, (int)TEST_PATIENCE_MS, &cqe);
    CHECK(rc == 0, "ring: %s: %s", rdmad_errname(rc), rdmad_last_error(w->session));
    rdmad_ring_explain(r, cqe, text, sizeof(text));
    if (!is_too_soon(cqe->status)) {
        CHECK(cqe->status == 0, "op %llu of the ring: %s", (unsigned long long)cqe->user_data,
              text);
        if (cqe->opcode == RDMAD_OP_FADD)
            added(w, 1);
        (void)done(w, "op of the ring", 0, began_ns);
    }
    rdmad_ring_seen(r, cqe);
}

static void run_ring(struct worker *w) {
    rdmad_ring *r;
    uint64_t n = 0, reaped = 0;
    CHECK(rdmad_ring_create(w->session, DEPTH * 8, &r) == 0, "%s", rdmad_last_error(w->session));
    for (bool stop = false; !stop || reaped < n;) {
        stop = stop || stopped(w);
        uint64_t began_ns = now_ns();
        for (unsigned i = 0; !stop && n - reaped < DEPTH && i < 16; i++)
            prepare_one(w, r, n++);
        CHECK(rdmad_ring_submit(r) >= 0, "%s", rdmad_last_error(w->session));
        if (reaped < n) {
            reap_one(w, r, began_ns);
            reaped++;
        }
    }
    rdmad_ring_destroy(r);
}

static void listen_and_close(struct worker *w) {
    rdmad_service *service;
    uint64_t began_ns = now_ns();
    int rc = rdmad_listen(w->session, "upgraded", NULL, &service);
    if (rc == RDMAD_E_EXISTS && load_by_before) /* left there by that library */
        sleep_ms(1);
    else
        (void)done(w, "listen", rc, began_ns);
    rdmad_service_close(service);
}

/* Requests, too, wait for the next daemon. */
static void run_calls(struct worker *w) {
    while (!stopped(w)) {
        rdmad_lease *l;
        uint64_t began_ns = now_ns(), was;
        if (!done(w, "attach", rdmad_lease_attach(w->session, w->load->shared->uri, 0, &l),
                  began_ns))
            continue;
        began_ns = now_ns();
        if (done(w, "fetch-add", rdmad_fetch_add(l, 0, 1, &was), began_ns))
            added(w, 1);
        rdmad_lease_free(l);
        listen_and_close(w);
    }
}

/* ---- sessions -------------------------------------------------------------------------------- */

static void worker_open(struct worker *w) {
    w->session = client_with_pool(w->load->lessees, BYTES, &w->pool);
    w->lease = client_attach(w->session, w->load->shared->uri);
    w->buffer = rdmad_alloc(w->pool, 2 * AREA);
    CHECK(w->buffer, "%s", rdmad_last_error(w->session));
}

/* It was resumed, and nothing else has happened to it, but that a lease has more time, and that
 * notifications which were there and not taken are lost. Those that nobody takes are one event. */
static void expect_only_resumed(rdmad_session *s, const char *whose) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    unsigned n = 0;
    while (rdmad_next_event(s, 0, &e) == 0) {
        n += e.type == RDMAD_EVENT_SESSION_RESUMED;
        CHECK(e.type == RDMAD_EVENT_SESSION_RESUMED || e.type == RDMAD_EVENT_LEASE_RENEWED ||
                  e.type == RDMAD_EVENT_NOTIFICATIONS_LOST,
              "%s: event %u: %s", whose, e.type, e.text);
    }
    CHECK(n > 0, "%s was not resumed", whose);
}

static void *thread_main(void *arg) {
    struct worker *w = arg;
    w->run(w);
    return NULL;
}

static void process_main(void *arg) {
    struct load *l = arg;
    struct worker *w = &l->worker[0];
    while (!__atomic_load_n(&l->shared->ready, __ATOMIC_ACQUIRE))
        sleep_ms(1);
    worker_open(w);
    w->run(w);
    expect_only_resumed(w->session, "the process");
    rdmad_close(w->session);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void (*const kinds[])(struct worker *) = {run_adds,     run_adds,    run_writes_and_reads,
                                                 run_batches,  run_ring,    run_calls,
                                                 run_compares, run_notifies};
#define WORKERS (sizeof(kinds) / sizeof(kinds[0]))

static void load_grant(struct load *l) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    terms.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE | RDMAD_RIGHT_ATOMIC;
    terms.ttl_ms = 3600000; /* longer than it takes in the guest of tests/vm */
    l->owner = client_with_pool(l->owners, 2 * BYTES, &l->pool);
    l->memory = rdmad_alloc(l->pool, BYTES);
    CHECK(l->memory, "%s", rdmad_last_error(l->owner));
    memset(l->memory, 0, BYTES);
    CHECK(rdmad_lease_grant(l->owner, l->memory, BYTES, &terms, &l->granted) == 0, "%s",
          rdmad_last_error(l->owner));
    snprintf(l->shared->uri, sizeof(l->shared->uri), "%s", rdmad_lease_uri(l->granted));
}

struct load *load_prepare(struct tdaemon *owners, struct tdaemon *lessees) {
    struct load *l = calloc(1, sizeof(*l));
    CHECK(l, "out of memory");
    l->owners = owners;
    l->lessees = lessees;
    l->shared =
        mmap(NULL, sizeof(*l->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(l->shared != MAP_FAILED, "mmap");
    for (unsigned i = 0; i < WORKERS; i++)
        l->worker[i] = (struct worker){.load = l, .index = i, .run = kinds[i]};
    l->process = client_fork(process_main, l);
    return l;
}

void load_begin(struct load *l) {
    load_grant(l);
    __atomic_store_n(&l->shared->ready, true, __ATOMIC_RELEASE);
    CHECK(pthread_create(&l->taker, NULL, take_notices, l) == 0, "thread");
    for (unsigned i = 1; i < WORKERS; i++) {
        worker_open(&l->worker[i]);
        CHECK(pthread_create(&l->worker[i].thread, NULL, thread_main, &l->worker[i]) == 0,
              "thread");
    }
    load_expect_resumed(l);
}

struct load *load_start(struct tdaemon *d) {
    struct load *l = load_prepare(d, d);
    load_begin(l);
    return l;
}

void load_expect_resumed(struct load *l) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    for (unsigned i = 0; i < WORKERS; i++) {
        const uint64_t *ops = &l->shared->tally[i].ops;
        uint64_t before = __atomic_load_n(ops, __ATOMIC_RELAXED);
        while (__atomic_load_n(ops, __ATOMIC_RELAXED) < before + 2) {
            CHECK(now_ms() < deadline, "worker %u does not go on", i);
            sleep_ms(1);
        }
    }
}

void load_end(struct load *l) {
    uint64_t adds = 0, ops = 0, worst_ns = 0, word;
    __atomic_store_n(&l->shared->stop, true, __ATOMIC_RELAXED);
    for (unsigned i = 1; i < WORKERS; i++)
        pthread_join(l->worker[i].thread, NULL);
    pthread_join(l->taker, NULL);
    client_expect_ok(l->process);
    for (unsigned i = 0; i < WORKERS; i++) {
        const struct tally *t = &l->shared->tally[i];
        adds += t->adds;
        ops += t->ops;
        worst_ns = t->worst_ns > worst_ns ? t->worst_ns : worst_ns;
        if (i == 0)
            continue;
        expect_only_resumed(l->worker[i].session, "a thread");
        rdmad_close(l->worker[i].session);
    }
    memcpy(&word, l->memory, sizeof(word));
    CHECK(word == adds, "%llu adds were done, and the word says %llu", (unsigned long long)adds,
          (unsigned long long)word);
    expect_only_resumed(l->owner, "the owner");
    printf("  %llu ops, %llu adds; the longest took %.0f ms\n", (unsigned long long)ops,
           (unsigned long long)adds, (double)worst_ns / 1e6);
    rdmad_close(l->owner);
    munmap(l->shared, sizeof(*l->shared));
    free(l);
}
