/* SPDX-License-Identifier: MIT */
/*
 * bench_side.c - one side of a ping-pong, the same at client and server, and how both wait.
 */
#include "common/ringword.h"
#include "common/runnable.h"
#include "rdmactl/bench.h"
#include <sched.h>
#include <stdio.h>
#include <time.h>

#define SPIN_TURNS 20u            /* before the first look at the clock */
#define YIELD_NS UINT64_C(200000) /* then give way, as long as libraries are advised to spin */
#define NAP_MIN_NS UINT64_C(50000)
#define NAP_MAX_NS UINT64_C(100000000)
#define NAP_SHARE 16 /* then sleep a share of what was waited: late by that share at most */
#define COMPLETION_MS 10000
#define LOOK_MS 100 /* how often over is asked meanwhile */

uint64_t bench_now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

int64_t bench_spin_us(enum bench_poll poll) {
    return poll == POLL_BUSY ? 10000000 : poll == POLL_EVENT ? 0 : -1;
}

/* What was learned of others on our CPU is kept from one wait to the next. */
void bench_wait_start(struct bench_wait *w, enum bench_poll poll) {
    if (!w->used)
        rdmad_crowd_doubt(&w->crowd);
    *w = (struct bench_wait){.poll = poll, .used = true, .crowd = w->crowd};
}

static void nap(uint64_t waited_ns) {
    uint64_t ns = waited_ns / NAP_SHARE;
    ns = ns < NAP_MIN_NS ? NAP_MIN_NS : ns > NAP_MAX_NS ? NAP_MAX_NS : ns;
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

uint64_t bench_wait_turn(struct bench_wait *w) {
    if (w->turns++ < SPIN_TURNS) {
        ringword_pause();
        return 0;
    }
    uint64_t now = bench_now_ns();
    if (!w->since_ns)
        w->since_ns = now;
    uint64_t waited = now - w->since_ns;
    bool spins = w->poll == POLL_BUSY || (w->poll == POLL_ADAPTIVE && waited < YIELD_NS);
    if (!spins || rdmad_crowd_lasts(&w->crowd, now, rdmad_cpus_wanted)) {
        w->napped = true;
        nap(waited);
    } else {
        sched_yield();
        rdmad_crowd_seen(&w->crowd, now, bench_now_ns());
    }
    return waited;
}

static int side_reap(struct bench_side *side, const struct rdmad_cqe *cqe) {
    int status = cqe->status;
    if (status)
        rdmad_ring_explain(side->ring, cqe, side->why, sizeof(side->why));
    rdmad_ring_seen(side->ring, cqe);
    side->completed++;
    return status;
}

static int side_failed(struct bench_side *side, int rc) {
    snprintf(side->why, sizeof(side->why), "%s", rdmad_last_error(side->session));
    return rc;
}

static bool side_is_over(const struct bench_side *side) {
    return side->over && side->over(side->user);
}

/* The next completion. */
static int side_wait(const struct bench_side *side, const struct rdmad_cqe **cqe) {
    int rc = RDMAD_E_TIMEOUT;
    for (int ms = 0; rc == RDMAD_E_TIMEOUT && ms < COMPLETION_MS; ms += LOOK_MS) {
        rc = rdmad_ring_wait(side->ring, LOOK_MS, cqe);
        if (rc == RDMAD_E_TIMEOUT && side_is_over(side))
            rc = RDMAD_E_CANCELED;
    }
    return rc;
}

int bench_send(struct bench_side *side) {
    const struct rdmad_cqe *cqe;
    int rc;
    while (!rdmad_ring_peek(side->ring, &cqe))
        if ((rc = side_reap(side, cqe)))
            return rc;
    /* The message before the last went out of the same buffer. */
    while (side->completed + 1 < side->sent) {
        rc = side_wait(side, &cqe);
        if (rc)
            return side_failed(side, rc);
        if ((rc = side_reap(side, cqe)))
            return rc;
    }
    uint64_t number = ++side->sent;
    uint8_t *out = side->out[number & 1];
    out[side->bytes - 1] = (uint8_t)number;
    struct rdmad_sqe *sqe = rdmad_ring_reserve(side->ring);
    if (!sqe) {
        snprintf(side->why, sizeof(side->why), "the ring is full although its ops completed");
        return RDMAD_E_INTERNAL;
    }
    rc = rdmad_prep_write(side->ring, sqe, side->to, BENCH_HEAD_BYTES, out, side->bytes, number);
    if (!rc)
        rc = rdmad_ring_submit(side->ring);
    return rc < 0 ? side_failed(side, rc) : 0;
}

int bench_expect(struct bench_side *side, uint64_t number, uint64_t patience_ns) {
    bench_wait_start(&side->wait, side->poll);
    /* The daemon writes the last byte last; acquire keeps what we read next behind it. */
    while (__atomic_load_n(side->last, __ATOMIC_ACQUIRE) != (uint8_t)number) {
        uint64_t waited = bench_wait_turn(&side->wait);
        if (waited > patience_ns) {
            snprintf(side->why, sizeof(side->why), "no message came for %.1f s",
                     (double)patience_ns / 1e9);
            return RDMAD_E_TIMEOUT;
        }
        if (waited && side_is_over(side))
            return RDMAD_E_CANCELED;
    }
    if (side->wait.since_ns && !side->wait.napped)
        rdmad_crowd_hit(&side->wait.crowd);
    return 0;
}
