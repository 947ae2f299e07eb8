/* SPDX-License-Identifier: MIT */
/*
 * crowd.c - a user who asks for as much as it can get: sessions, each with rings, each full of
 * writes. What shares between users are measured by.
 *
 * bench_crowd RUNTIME_DIR URI SESSIONS RINGS DEPTH BYTES SPAN SECONDS first says "ready", keeps its
 * rings full, and after a second prints {"bytes_per_s":...,"ops_per_s":...} of the SECONDS that
 * follow. With 0 SECONDS it goes on until it is killed; with "flood" likewise, and it asks for so
 * much that ops may pass their deadlines, which are asked again. All sessions together write out of
 * SPAN bytes of memory, one piece after the other: by it two crowds are made to find as little in
 * the caches. It never spins: when nothing has completed it naps, so that it takes the daemon's
 * time and not that of the machine's processors.
 */
#include "bench/samples.h"
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WARMUP_US 1e6
#define NAP_NS 200000
#define FLOOD_NAP_NS 1000000 /* of who is not measured */
#define OFFSET 4096          /* into the lease: rdmactl bench serve has its own words before it */

struct crowd {
    unsigned sessions, rings, depth;
    size_t bytes, span; /* span: of a session */
    long nap_ns;
    int floods;
    struct member {
        rdmad_session *session;
        rdmad_lease *lease;
        char *from;
        size_t at;
        rdmad_ring **ring;
    } * of;
    double done_ops;
};

static int failed(const rdmad_session *session, const char *what) {
    fprintf(stderr, "bench_crowd: %s: %s\n", what, rdmad_last_error(session));
    return 1;
}

static int member_up(const struct crowd *c, struct member *m, const char *dir, const char *uri) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_pool *pool;
    options.runtime_dir = dir;
    if (rdmad_open(&options, &m->session))
        return failed(NULL, "open");
    if (rdmad_pool_create(m->session, c->span + (64 << 10), 0, &pool))
        return failed(m->session, "pool");
    m->from = rdmad_alloc(pool, c->span);
    if (!m->from || rdmad_lease_attach(m->session, uri, 0, &m->lease))
        return failed(m->session, "attach");
    m->ring = calloc(c->rings, sizeof(rdmad_ring *));
    for (unsigned i = 0; m->ring && i < c->rings; i++)
        if (rdmad_ring_create(m->session, c->depth, &m->ring[i]))
            return failed(m->session, "ring");
    return m->ring ? 0 : 1;
}

static int fill(const struct crowd *c, struct member *m, rdmad_ring *ring) {
    unsigned prepared = 0;
    for (struct rdmad_sqe *sqe; prepared < c->depth && (sqe = rdmad_ring_reserve(ring));) {
        if (rdmad_prep_write(ring, sqe, m->lease, OFFSET, m->from + m->at, c->bytes, 1)) {
            rdmad_ring_unreserve(ring, sqe);
            break;
        }
        prepared++;
        m->at += c->bytes;
        if (m->at + c->bytes > c->span)
            m->at = 0;
    }
    return prepared && rdmad_ring_submit(ring) < 0 ? failed(m->session, "submit") : 0;
}

static int reap(struct crowd *c, struct member *m, rdmad_ring *ring, unsigned *count) {
    const struct rdmad_cqe *cqe;
    for (; rdmad_ring_peek(ring, &cqe) == 0; ++*count) {
        if (cqe->status && !(c->floods && cqe->status == RDMAD_E_TIMEOUT)) {
            fprintf(stderr, "bench_crowd: a write failed: %s\n", rdmad_errname(cqe->status));
            return 1;
        }
        c->done_ops += cqe->status == 0;
        rdmad_ring_seen(ring, cqe);
    }
    return *count ? fill(c, m, ring) : 0;
}

/* One look at all rings. */
static int round_of(struct crowd *c) {
    unsigned some = 0;
    for (unsigned i = 0; i < c->sessions; i++) {
        for (unsigned k = 0; k < c->rings; k++) {
            unsigned count = 0;
            if (reap(c, &c->of[i], c->of[i].ring[k], &count))
                return 1;
            some += count;
        }
    }
    if (!some)
        nanosleep(&(struct timespec){.tv_nsec = c->nap_ns}, NULL);
    return 0;
}

static int run_for(struct crowd *c, double us) {
    for (double start = samples_now_us(); us == 0 || samples_now_us() - start < us;)
        if (round_of(c))
            return 1;
    return 0;
}

static int up(struct crowd *c, const char *dir, const char *uri) {
    c->of = c->sessions ? calloc(c->sessions, sizeof(*c->of)) : NULL;
    for (unsigned i = 0; c->of && i < c->sessions; i++) {
        if (member_up(c, &c->of[i], dir, uri))
            return 1;
        for (unsigned k = 0; k < c->rings; k++)
            if (fill(c, &c->of[i], c->of[i].ring[k]))
                return 1;
    }
    return c->of ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc != 9) {
        fprintf(stderr, "usage: %s RUNTIME_DIR URI SESSIONS RINGS DEPTH BYTES SPAN SECONDS|flood\n",
                argv[0]);
        return 2;
    }
    struct crowd c = {.sessions = (unsigned)strtoul(argv[3], NULL, 10),
                      .rings = (unsigned)strtoul(argv[4], NULL, 10),
                      .depth = (unsigned)strtoul(argv[5], NULL, 10),
                      .bytes = strtoull(argv[6], NULL, 10),
                      .span = strtoull(argv[7], NULL, 10),
                      .floods = strcmp(argv[8], "flood") == 0};
    double us = strtod(argv[8], NULL) * 1e6;
    c.nap_ns = us > 0 ? NAP_NS : FLOOD_NAP_NS;
    c.span /= c.sessions ? c.sessions : 1;
    if (c.span < c.bytes)
        c.span = c.bytes;
    if (up(&c, argv[1], argv[2]))
        return 1;
    printf("ready\n");
    fflush(stdout);
    if (us == 0)
        return run_for(&c, 0);
    if (run_for(&c, WARMUP_US))
        return 1;
    double before = c.done_ops, start = samples_now_us();
    if (run_for(&c, us))
        return 1;
    double ops = (c.done_ops - before) / (samples_now_us() - start) * 1e6;
    printf("{\"bytes_per_s\":%.0f,\"ops_per_s\":%.1f}\n", ops * (double)c.bytes, ops);
    return 0; /* the kernel ends the sessions */
}
