/* SPDX-License-Identifier: MIT */
/*
 * transfer.c - clients at work. See transfer.h.
 */
#include "tests/support/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEPTH = 8 };
static const size_t piece = TRANSFER_BYTES / DEPTH;

struct job {
    const char *dir;
    const char *uri;
    enum transfer_mind mind;
    int in, out;
    int not_mine; /* the test's end of in: a child that held it would never see it closed */
};

static rdmad_session *session_of(const char *dir, rdmad_pool **pool) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    options.runtime_dir = dir;
    options.resume = 0; /* a daemon that dies is the end of it */
    CHECK(rdmad_open(&options, &s) == 0, "open: %s", rdmad_last_error(NULL));
    CHECK(rdmad_pool_create(s, TRANSFER_BYTES, 0, pool) == 0, "pool: %s", rdmad_last_error(s));
    return s;
}

static void make_pipe(int fds[2]) {
    CHECK(pipe2(fds, O_CLOEXEC) == 0, "pipe2: %s", strerror(errno));
}

/* ---- the owner ----------------------------------------------------------------------------- */

static void own(void *arg) {
    struct job *job = arg;
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_pool *pool;
    rdmad_lease *lease;
    rdmad_session *s = session_of(job->dir, &pool);
    terms.ttl_ms = 3600000;
    CHECK(rdmad_lease_grant(s, rdmad_pool_base(pool), TRANSFER_BYTES, &terms, &lease) == 0,
          "grant: %s", rdmad_last_error(s));
    const char *uri = rdmad_lease_uri(lease);
    CHECK(write(job->out, uri, strlen(uri) + 1) == (ssize_t)strlen(uri) + 1, "write");
    for (;;)
        pause();
}

struct owner owner_start(const struct tdaemon *d) {
    struct owner o;
    int fds[2];
    make_pipe(fds);
    struct job job = {.dir = tdaemon_dir(d), .out = fds[1]};
    o.pid = client_fork(own, &job);
    close(fds[1]);
    ssize_t n = read(fds[0], o.uri, sizeof(o.uri));
    close(fds[0]);
    CHECK(n > 0 && o.uri[n - 1] == 0, "the owner sent no URI");
    return o;
}

/* ---- the lessee ---------------------------------------------------------------------------- */

static bool asked_to_finish(int in) {
    struct pollfd p = {.fd = in, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

/* One turn: every piece once, all in flight together. Returns how many failed. */
static unsigned turn(rdmad_ring *ring, rdmad_lease *lease, char *base, bool write) {
    unsigned failed = 0;
    uint64_t start = now_ms();
    for (uint64_t i = 0; i < DEPTH; i++) {
        struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
        CHECK(sqe, "no room in the ring");
        uint64_t offset = i * piece;
        int rc = write ? rdmad_prep_write(ring, sqe, lease, offset, base + offset, piece, i)
                       : rdmad_prep_read(ring, sqe, lease, offset, base + offset, piece, i);
        CHECK(rc == 0, "prepare: %d", rc);
        rdmad_sqe_set_deadline(sqe, TRANSFER_TIMEOUT_MS);
    }
    rdmad_ring_submit(ring); /* a lost daemon shows in the completions */
    for (unsigned i = 0; i < DEPTH; i++) {
        const struct rdmad_cqe *cqe;
        int rc = rdmad_ring_wait(ring, (int)(TRANSFER_TIMEOUT_MS + TEST_PATIENCE_MS), &cqe);
        CHECK(rc == 0, "an op has no outcome after %lu ms: %s", (unsigned long)(now_ms() - start),
              rdmad_strerror(rc));
        char text[RDMAD_TEXT_MAX + 1];
        rdmad_ring_explain(ring, cqe, text, sizeof(text));
        CHECK((cqe->status == 0) == (cqe->outcome == RDMAD_DONE) && cqe->outcome <= RDMAD_UNKNOWN,
              "status %d with outcome %u", cqe->status, cqe->outcome);
        if (cqe->status && !failed++)
            printf("  lessee %d: %s\n", (int)getpid(), text);
        rdmad_ring_seen(ring, cqe);
    }
    return failed;
}

static void work(void *arg) {
    struct job *job = arg;
    rdmad_pool *pool;
    rdmad_lease *lease;
    rdmad_ring *ring;
    close(job->not_mine);
    rdmad_session *s = session_of(job->dir, &pool);
    CHECK(rdmad_lease_attach(s, job->uri, 0, &lease) == 0, "attach: %s", rdmad_last_error(s));
    CHECK(rdmad_ring_create(s, DEPTH, &ring) == 0, "ring: %s", rdmad_last_error(s));
    for (unsigned i = 0; !asked_to_finish(job->in); i++) {
        unsigned failed = turn(ring, lease, rdmad_pool_base(pool), i % 2 == 0);
        CHECK(!failed || job->mind == TRANSFER_TOLERANT, "%u ops failed", failed);
        if (i == 0)
            CHECK(write(job->out, "", 1) == 1, "write");
        if (failed)
            break;
    }
    rdmad_ring_destroy(ring);
    rdmad_lease_free(lease);
    rdmad_close(s);
}

struct lessee lessee_start(const struct tdaemon *d, const char *uri, enum transfer_mind mind) {
    int in[2], out[2];
    make_pipe(in);
    make_pipe(out);
    struct job job = {.dir = tdaemon_dir(d), .uri = uri, .mind = mind, .in = in[0], .out = out[1]};
    struct lessee l = {.to = in[1], .from = out[0]};
    job.not_mine = in[1];
    l.pid = client_fork(work, &job);
    close(in[0]);
    close(out[1]);
    return l;
}

void lessee_await_start(const struct lessee *l) {
    char byte;
    CHECK(read(l->from, &byte, 1) == 1, "the lessee ended before its first transfer");
}

static void forget(struct lessee *l) {
    if (l->to >= 0)
        close(l->to);
    close(l->from);
    l->to = l->from = -1;
}

void lessee_finish(struct lessee *l) {
    close(l->to);
    l->to = -1;
    client_expect_ok(l->pid);
    forget(l);
}

void lessee_expect_end(struct lessee *l, unsigned ms) {
    uint64_t deadline = now_ms() + ms;
    while (client_running(l->pid)) {
        CHECK(now_ms() < deadline, "the lessee still runs after %u ms", ms);
        sleep_ms(5);
    }
    client_expect_ok(l->pid);
    forget(l);
}

void lessee_kill(struct lessee *l) {
    client_kill(l->pid);
    forget(l);
}
