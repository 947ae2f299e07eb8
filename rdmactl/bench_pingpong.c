/* SPDX-License-Identifier: MIT */
/*
 * bench_pingpong.c - the client's side of a ping-pong of WRITEs; half a round trip is the latency,
 * as ib_write_lat and ucx_perftest count it. bench.h tells the protocol.
 */
#include "rdmactl/bench_run.h"
#include "rdmactl/bench_stop.h"
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define READY_NS (UINT64_C(15) * 1000000000)
#define PATIENCE_NS (UINT64_C(10) * 1000000000)
#define WARMUP 200u
#define LOOK_NS UINT64_C(50000000) /* how often events are looked after */

struct pingpong {
    struct bench_run *run;
    struct bench_side side;
    uint8_t *base; /* of the pool: head, incoming data, two buffers */
    uint64_t nonce;
    rdmad_lease *own; /* what the server writes to */
    uint64_t looked_ns;
};

/* A signal, or the end of the lease that messages go to: the server's answer never comes then. */
static bool pingpong_over(void *user) {
    struct pingpong *p = user;
    struct rdmad_event event = RDMAD_EVENT_INIT;
    uint64_t now = bench_now_ns();
    if (bench_asked())
        return true;
    if (now - p->looked_ns < LOOK_NS)
        return false;
    p->looked_ns = now;
    while (!rdmad_next_event(p->run->session, 0, &event)) {
        bool ours = event.lease == p->run->lease || event.lease == p->own;
        if (event.type != RDMAD_EVENT_LEASE_ENDED || !ours)
            continue;
        bench_note(p->run, event.reason, event.text);
        return true;
    }
    return false;
}

/* Places a field of the server's head. */
static int pingpong_put(struct pingpong *p, uint64_t offset, const void *value, size_t size) {
    memcpy(p->side.out[0], value, size);
    int rc = rdmad_write(p->run->lease, offset, p->side.out[0], size);
    return rc ? bench_note(p->run, rc, NULL) : 0;
}

static int pingpong_grant(struct pingpong *p, struct bench_request *request) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    terms.rights = RDMAD_RIGHT_WRITE;
    terms.max_attaches = 1;
    terms.ttl_ms = p->run->seconds_ms + 600000;
    int rc = rdmad_lease_grant(p->run->session, p->base, BENCH_HEAD_BYTES + p->run->bytes, &terms,
                               &p->own);
    if (rc)
        return bench_note(p->run, rc, NULL);
    request->nonce = p->nonce;
    request->bytes = p->run->bytes;
    request->poll = p->run->poll;
    snprintf(request->uri, sizeof(request->uri), "%s", rdmad_lease_uri(p->own));
    return 0;
}

/* Calls the server and waits until it is attached to our memory. */
static int pingpong_invite(struct pingpong *p) {
    struct bench_request request = {0};
    const volatile uint64_t *ready = (const volatile uint64_t *)(const void *)p->base;
    struct bench_wait wait = {0};
    *(uint64_t *)(void *)p->base = 0;
    p->base[BENCH_HEAD_BYTES + p->run->bytes - 1] = 0;
    int rc = pingpong_grant(p, &request);
    if (!rc)
        rc = pingpong_put(p, offsetof(struct bench_head, request), &request, sizeof(request));
    if (!rc)
        rc = pingpong_put(p, offsetof(struct bench_head, doorbell), &p->nonce, sizeof(p->nonce));
    bench_wait_start(&wait, POLL_ADAPTIVE);
    while (!rc && *ready != p->nonce) {
        uint64_t waited = bench_wait_turn(&wait);
        if (waited && pingpong_over(p))
            return bench_note(p->run, RDMAD_E_CANCELED, "interrupted");
        if (waited > READY_NS)
            return bench_note(p->run, RDMAD_E_TIMEOUT,
                              "bench serve does not answer: it may be serving another client, "
                              "have ended, or not reach this daemon (see its messages)");
    }
    return rc;
}

static int pingpong_play(struct pingpong *p, uint64_t first, uint64_t count, uint64_t until_ns,
                         struct hist *hist) {
    uint64_t then = bench_now_ns();
    for (uint64_t number = first; number < first + count && then < until_ns; number++) {
        int rc = bench_send(&p->side);
        if (!rc)
            rc = bench_expect(&p->side, number, PATIENCE_NS);
        if (rc == RDMAD_E_CANCELED && bench_asked())
            break;
        if (rc)
            return bench_note(p->run, rc, p->side.why);
        uint64_t now = bench_now_ns();
        hist_record(hist, (now - then) / 2);
        then = now;
        if (bench_asked())
            break;
    }
    return 0;
}

static int pingpong_measure(struct pingpong *p) {
    struct bench_run *run = p->run;
    hist_reset(&run->hist);
    int rc = pingpong_play(p, 1, WARMUP, UINT64_MAX, &run->hist);
    if (rc)
        return rc;
    hist_reset(&run->hist);
    uint64_t start = bench_now_ns();
    rc = run->seconds_ms ? pingpong_play(p, WARMUP + 1, UINT64_MAX / 2,
                                         start + run->seconds_ms * 1000000, &run->hist)
                         : pingpong_play(p, WARMUP + 1, run->iterations, UINT64_MAX, &run->hist);
    /* Each iteration is two messages of the same kind, one each way. */
    run->elapsed_ns = (bench_now_ns() - start) / 2;
    run->done = run->hist.count;
    return rc;
}

int bench_pingpong(struct bench_run *run) {
    struct pingpong p = {.run = run, .base = rdmad_pool_base(run->pool)};
    if (run->bytes > run->max_message)
        return bench_note(run, RDMAD_E_RANGE,
                          "bench serve takes smaller messages only: start it with a larger -s");
    uint64_t room = (run->bytes + 63) & ~UINT64_C(63);
    room = room < sizeof(struct bench_request) ? (sizeof(struct bench_request) + 63) & ~UINT64_C(63)
                                               : room;
    p.side = (struct bench_side){
        .session = run->session,
        .ring = run->ring,
        .to = run->lease,
        .last = p.base + BENCH_HEAD_BYTES + run->bytes - 1,
        .out = {p.base + BENCH_HEAD_BYTES + room, p.base + BENCH_HEAD_BYTES + 2 * room},
        .bytes = run->bytes,
        .poll = run->poll,
        .over = pingpong_over,
        .user = &p};
    while (!p.nonce)
        if (getrandom(&p.nonce, sizeof(p.nonce), 0) != (ssize_t)sizeof(p.nonce))
            p.nonce = bench_now_ns();
    int rc = pingpong_invite(&p);
    if (!rc)
        rc = pingpong_measure(&p);
    if (bench_asked()) /* the end of the session tells the server, and waits for nobody */
        return rc;
    if (!rc)
        rc = pingpong_put(&p, offsetof(struct bench_head, stop), &p.nonce, sizeof(p.nonce));
    rdmad_lease_free(p.own);
    return rc;
}
