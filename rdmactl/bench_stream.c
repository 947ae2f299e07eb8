/* SPDX-License-Identifier: MIT */
/*
 * bench_stream.c - keeps depth ops in flight on one ring: what completes is replaced, and all that
 * was prepared in one round is submitted at once.
 *
 * The clock is read once a round at depth 1, where a round is an op and its latency the result; at
 * larger depths only for one op in flight at a time, the sample, and every so often for the end.
 */
#include "rdmactl/bench_run.h"
#include "rdmactl/bench_stop.h"
#include <stdio.h>

#define STREAM_WAIT_MS 200
#define MAX_ERRORS 16u /* then the rest would fail, too */
#define WARMUP_OPS UINT64_C(1000)
#define WARMUP_BYTES (UINT64_C(64) << 20)

struct stream {
    struct bench_run *run;
    uint64_t count, until_ns; /* the end: ops, or time when count is UINT64_MAX */
    uint64_t issued, inflight;
    uint64_t offset, local;     /* of the next op's memory there and here, after the heads */
    uint64_t sample, sample_ns; /* the op whose latency is taken, 0: none, op numbers start at 1 */
    uint64_t now_ns;
    bool stop;
};

int bench_note(struct bench_run *run, int rc, const char *text) {
    if (!run->why_code[0]) {
        snprintf(run->why_code, sizeof(run->why_code), "%s", rdmad_errname(rc));
        snprintf(run->why, sizeof(run->why), "%s", text ? text : rdmad_last_error(run->session));
    }
    return rc;
}

static void stream_advance(uint64_t *offset, uint64_t span, const struct bench_run *run) {
    *offset += run->stride;
    if (*offset + run->bytes > span)
        *offset = 0;
}

static int stream_prepare(struct stream *s, struct rdmad_sqe *sqe) {
    struct bench_run *run = s->run;
    uint64_t remote = BENCH_HEAD_BYTES + s->offset, number = ++s->issued, tries = 0;
    s->inflight++;
    if (run->op == BENCH_NOP)
        return rdmad_prep_nop(run->ring, sqe, number);
    stream_advance(&s->offset, run->span, run);
    if (run->op == BENCH_CAS)
        return rdmad_prep_cas(run->ring, sqe, run->lease, remote, 0, number, number);
    if (run->op == BENCH_FADD)
        return rdmad_prep_fetch_add(run->ring, sqe, run->lease, remote, 1, number);
    int rc;
    do {
        char *local = (char *)rdmad_pool_base(run->pool) + BENCH_HEAD_BYTES + s->local;
        stream_advance(&s->local, run->local_span, run);
        rc = run->op == BENCH_READ
                 ? rdmad_prep_read(run->ring, sqe, run->lease, remote, local, run->bytes, number)
                 : rdmad_prep_write(run->ring, sqe, run->lease, remote, local, run->bytes, number);
        /* An older READ is late and still fills this buffer: one of the others is free. */
    } while (rc == RDMAD_E_BUSY && ++tries < run->depth);
    return rc;
}

static int stream_fill(struct stream *s) {
    struct bench_run *run = s->run;
    bool any = false;
    while (!s->stop && s->inflight < run->depth && s->issued < s->count) {
        struct rdmad_sqe *sqe = rdmad_ring_reserve(run->ring);
        if (!sqe)
            break;
        int rc = stream_prepare(s, sqe);
        if (rc)
            return bench_note(run, rc, NULL);
        any = true;
    }
    if (!any)
        return 0;
    if (!s->sample) {
        s->sample = s->issued;
        s->sample_ns = run->depth == 1 && s->now_ns ? s->now_ns : bench_now_ns();
    }
    int rc = rdmad_ring_submit(run->ring);
    return rc < 0 ? bench_note(run, rc, NULL) : 0;
}

static void stream_account(struct stream *s, const struct rdmad_cqe *cqe) {
    struct bench_run *run = s->run;
    s->inflight--;
    if (cqe->user_data == s->sample) {
        s->now_ns = bench_now_ns();
        hist_record(&run->hist, s->now_ns - s->sample_ns);
        s->sample = 0;
    }
    if (!cqe->status) {
        run->done++;
        return;
    }
    char why[RDMAD_TEXT_MAX + 1];
    rdmad_ring_explain(run->ring, cqe, why, sizeof(why));
    bench_note(run, cqe->status, why);
    if (++run->errors >= MAX_ERRORS)
        s->stop = true;
}

/* Whether its time is over. */
static void stream_look_around(struct stream *s) {
    if (s->run->depth > 1)
        s->now_ns = bench_now_ns();
    if (s->now_ns >= s->until_ns)
        s->stop = true;
}

static int stream_round_trip(struct stream *s) {
    const struct rdmad_cqe *cqe;
    int rc = rdmad_ring_wait(s->run->ring, STREAM_WAIT_MS, &cqe);
    if (rc == RDMAD_E_TIMEOUT) {
        s->now_ns = bench_now_ns();
        return 0;
    }
    if (rc)
        return bench_note(s->run, rc, NULL);
    do {
        stream_account(s, cqe);
        rdmad_ring_seen(s->run->ring, cqe);
    } while (!rdmad_ring_peek(s->run->ring, &cqe));
    return 0;
}

/* Runs count ops, or until the time is over; then waits for those in flight. */
static int stream_run(struct bench_run *run, uint64_t count, uint64_t span_ns) {
    uint64_t start = bench_now_ns();
    struct stream s = {.run = run,
                       .count = count,
                       .until_ns = span_ns ? start + span_ns : UINT64_MAX,
                       .now_ns = start};
    int rc = 0;
    for (unsigned round = 0; !rc; round++) {
        rc = stream_fill(&s);
        if (rc || !s.inflight)
            break;
        rc = stream_round_trip(&s);
        if (run->depth == 1 || round % 16 == 0)
            stream_look_around(&s);
        s.stop |= bench_asked();
    }
    run->elapsed_ns = bench_now_ns() - start;
    return rc;
}

int bench_stream(struct bench_run *run) {
    uint64_t by_bytes = run->bytes ? WARMUP_BYTES / run->bytes + 1 : WARMUP_OPS;
    uint64_t warmup = by_bytes < WARMUP_OPS ? by_bytes : WARMUP_OPS;
    if (!run->seconds_ms && warmup > run->iterations)
        warmup = run->iterations;
    hist_reset(&run->hist);
    int rc = stream_run(run, warmup, 0);
    if (rc || run->errors)
        return rc;
    run->done = 0;
    hist_reset(&run->hist);
    return run->seconds_ms ? stream_run(run, UINT64_MAX, run->seconds_ms * 1000000)
                           : stream_run(run, run->iterations, 0);
}
