/* SPDX-License-Identifier: MIT */
/*
 * bench_messages.c - the client's side of bench send: a stream of messages at depths above 1, at
 * depth 1 a ping-pong of which half a round is the latency, as ib_send_lat counts it. Both in terms
 * of a window of sends and one of receives, each with a buffer of its own.
 */
#include "rdmactl/bench_messages.h"
#include "rdmactl/bench_stop.h"
#include <stdio.h>
#include <string.h>

#define MESSAGES_WAIT_MS 10000
#define WARMUP UINT64_C(200)
#define WARMUP_BYTES (UINT64_C(64) << 20)

struct messages {
    struct bench_run *run;
    rdmad_channel *channel;
    uint8_t *out, *in; /* depth buffers to send; one to receive */
    uint64_t sent, done;
    uint64_t ended; /* the number of the send that ended last */
    bool stop;
};

static uint64_t messages_warmup(const struct bench_run *run) {
    uint64_t count = run->bytes ? WARMUP_BYTES / run->bytes + 1 : WARMUP;
    if (!run->seconds_ms && count > run->iterations)
        count = run->iterations;
    return count < WARMUP ? count : WARMUP;
}

static int messages_failed(const struct messages *c, int rc) {
    return bench_note(c->run, rc, NULL);
}

static int messages_send(struct messages *c) {
    struct bench_run *run = c->run;
    struct rdmad_sqe *sqe = rdmad_ring_reserve(run->ring);
    if (!sqe)
        return bench_note(run, RDMAD_E_INTERNAL, "the ring is full although its ops completed");
    uint8_t *from = c->out + c->sent % run->depth * run->stride;
    int rc = rdmad_prep_send(run->ring, sqe, c->channel, from, run->bytes, ++c->sent);
    return rc ? messages_failed(c, rc) : 0;
}

static int messages_take(struct messages *c, const char *what) {
    struct bench_run *run = c->run;
    const struct rdmad_cqe *cqe;
    int rc = rdmad_ring_wait(run->ring, MESSAGES_WAIT_MS, &cqe);
    if (rc)
        return bench_note(run, rc, rc == RDMAD_E_TIMEOUT ? what : NULL);
    int status = cqe->status;
    if (status) {
        char why[RDMAD_TEXT_MAX + 1];
        rdmad_ring_explain(run->ring, cqe, why, sizeof(why));
        bench_note(run, status, why);
    }
    c->ended = cqe->user_data;
    rdmad_ring_seen(run->ring, cqe);
    return status;
}

static int messages_submit(struct messages *c) {
    int rc = rdmad_ring_submit(c->run->ring);
    return rc < 0 ? messages_failed(c, rc) : 0;
}

/* ---- depth 1 ------------------------------------------------------------------------------- */

/* One message there and one back: the receive is posted first. */
static int messages_round_trip(struct messages *c) {
    struct bench_run *run = c->run;
    struct rdmad_sqe *sqe = rdmad_ring_reserve(run->ring);
    if (!sqe)
        return bench_note(run, RDMAD_E_INTERNAL, "the ring is full although its ops completed");
    int rc = rdmad_prep_recv(run->ring, sqe, c->channel, c->in, run->bytes, 0);
    if (rc)
        return messages_failed(c, rc);
    if ((rc = messages_send(c)) || (rc = messages_submit(c)))
        return rc;
    for (unsigned i = 0; !rc && i < 2; i++)
        rc = messages_take(c, "bench serve does not answer");
    return rc;
}

static int messages_play(struct messages *c, uint64_t count, uint64_t until_ns) {
    uint64_t then = bench_now_ns();
    for (uint64_t i = 0; !c->stop && i < count && then < until_ns; i++) {
        int rc = messages_round_trip(c);
        if (rc)
            return rc;
        uint64_t now = bench_now_ns();
        hist_record(&c->run->hist, (now - then) / 2);
        then = now;
        c->stop = bench_asked();
    }
    return 0;
}

static int messages_ping_pong(struct messages *c) {
    struct bench_run *run = c->run;
    int rc = messages_play(c, messages_warmup(run), UINT64_MAX);
    hist_reset(&run->hist);
    uint64_t start = bench_now_ns();
    if (!rc)
        rc = run->seconds_ms ? messages_play(c, UINT64_MAX, start + run->seconds_ms * 1000000)
                             : messages_play(c, run->iterations, UINT64_MAX);
    /* Each iteration is two messages, one each way. */
    run->elapsed_ns = (bench_now_ns() - start) / 2;
    run->done = run->hist.count;
    return rc;
}

/* ---- larger depths ------------------------------------------------------------------------- */

static int messages_stream(struct messages *c, uint64_t count, uint64_t until_ns) {
    struct bench_run *run = c->run;
    uint64_t first = c->done, sample = 0, sample_ns = 0;
    int rc = 0;
    while (!rc && c->done < first + count && (!c->stop || c->done < c->sent)) {
        bool any = false;
        for (; !rc && !c->stop && c->sent < first + count && c->sent - c->done < run->depth;
             any = true)
            rc = messages_send(c);
        if (!rc && any)
            rc = messages_submit(c);
        if (!sample) {
            sample = c->sent;
            sample_ns = bench_now_ns();
        }
        if (!rc)
            rc = messages_take(c, "bench serve takes no messages");
        c->done++;
        if (c->ended == sample) { /* sends may end in another order than they went */
            uint64_t now = bench_now_ns();
            hist_record(&run->hist, now - sample_ns);
            sample = 0;
            c->stop |= now >= until_ns;
        }
        c->stop |= bench_asked();
    }
    return rc;
}

static int messages_streams(struct messages *c) {
    struct bench_run *run = c->run;
    int rc = messages_stream(c, messages_warmup(run), UINT64_MAX);
    hist_reset(&run->hist);
    uint64_t start = bench_now_ns(), first = c->done;
    if (!rc)
        rc = run->seconds_ms ? messages_stream(c, UINT64_MAX / 2, start + run->seconds_ms * 1000000)
                             : messages_stream(c, run->iterations, UINT64_MAX);
    run->elapsed_ns = bench_now_ns() - start;
    run->done = c->done - first;
    return rc;
}

/* ---- the client ---------------------------------------------------------------------------- */

static int messages_greet(struct messages *c) {
    struct bench_run *run = c->run;
    struct bench_greeting greeting = {.magic = BENCH_MAGIC,
                                      .bytes = run->bytes,
                                      .depth = (uint32_t)run->depth,
                                      .poll = (uint32_t)run->poll};
    memcpy(c->in, &greeting, sizeof(greeting));
    int rc = rdmad_send(c->channel, c->in, sizeof(greeting));
    return rc ? messages_failed(c, rc) : 0;
}

int bench_messages(struct bench_run *run, const char *service) {
    struct messages c = {.run = run};
    rdmad_pool *pool;
    uint64_t in = run->stride < 64 ? 64 : run->stride;
    int rc = rdmad_pool_create(run->session, run->depth * run->stride + in, 0, &pool);
    if (!rc)
        rc = rdmad_connect(run->session, service, RDMAD_CHANNEL_RELIABLE, 0, &c.channel);
    if (rc)
        return messages_failed(&c, rc);
    c.in = rdmad_pool_base(pool);
    c.out = c.in + in;
    memset(c.in, 0, run->depth * run->stride + in);
    rc = messages_greet(&c);
    if (!rc)
        rc = run->depth == 1 ? messages_ping_pong(&c) : messages_streams(&c);
    if (rc)
        rdmad_channel_abort(c.channel); /* nothing of it is worth waiting for */
    else
        rdmad_channel_close(c.channel);
    return rc;
}
