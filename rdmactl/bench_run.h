/* SPDX-License-Identifier: MIT */
/*
 * bench_run.h - one measurement of rdmactl bench: what was asked, what is used, what came out.
 *
 * cmd_bench.c sets it up and prints; bench_stream.c keeps a ring full (bandwidth, rate, and at
 * depth 1 the latency of whole completions); bench_pingpong.c plays ping-pong.
 */
#ifndef RDMACTL_BENCH_RUN_H
#define RDMACTL_BENCH_RUN_H

#include "rdmactl/bench.h"
#include "rdmactl/hist.h"

enum bench_op { BENCH_NOP, BENCH_READ, BENCH_WRITE, BENCH_SEND, BENCH_CAS, BENCH_FADD };

struct bench_run {
    /* asked */
    enum bench_op op;
    uint64_t bytes, depth, iterations, span;
    uint64_t seconds_ms; /* 0: iterations count */
    enum bench_poll poll;
    const char *uri; /* NULL: nop without one */

    /* used */
    rdmad_session *session;
    rdmad_pool *pool;
    rdmad_ring *ring;
    rdmad_lease *lease;
    uint64_t stride; /* from one op's memory to the next's, within span */
    /* The same on this side. READs in flight need a buffer each, WRITEs may share one. */
    uint64_t local_span;
    uint64_t max_message;
    char service[RDMAD_URI_MAX + 1]; /* of bench send */
    char atomics[RDMAD_URI_MAX + 1]; /* the lease for cas and fadd */

    /* came out */
    uint64_t done, errors, elapsed_ns;
    struct hist hist;
    char why[RDMAD_TEXT_MAX + 1]; /* of the first error */
    char why_code[40];
};

/* Both return 0, or RDMAD_E_* with why when the run could not go on; errors counts failed ops. */
int bench_stream(struct bench_run *run);
int bench_pingpong(struct bench_run *run);

/* Notes the first error; returns rc. text NULL: the library's last words. */
int bench_note(struct bench_run *run, int rc, const char *text);

#endif
