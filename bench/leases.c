/* SPDX-License-Identifier: MIT */
/*
 * leases.c - what attaching to a lease and releasing it cost while many are alive.
 *
 * bench_leases OWNER_DIR LESSEE_DIR LIVE: a session of the daemon at OWNER_DIR grants LIVE leases
 * of a page each, a session of the one at LESSEE_DIR attaches to them all and keeps them. Then, for
 * each line that comes in, a number of seconds, it releases one after the other and attaches to it
 * again, around and around, so that LIVE leases are alive all the time, and all but one attached;
 * and prints
 * {"live":...,"fabric":"...","us":...,"attach_us":...,"release_us":...}: medians; us is of a
 * release and an attach together.
 */
#include "bench/samples.h"
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE ((size_t)4096)
#define TTL_MS 3600000u

struct market {
    rdmad_session *owner, *lessee;
    size_t live, next;
    rdmad_lease **granted, **attached;
};

static int failed(const rdmad_session *session) {
    fprintf(stderr, "bench_leases: %s\n", rdmad_last_error(session));
    return 1;
}

static int open_session(const char *dir, rdmad_session **out) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    options.runtime_dir = dir;
    return rdmad_open(&options, out) ? failed(NULL) : 0;
}

static int attach(struct market *m, size_t i) {
    const char *uri = rdmad_lease_uri(m->granted[i]);
    return rdmad_lease_attach(m->lessee, uri, 0, &m->attached[i]) ? failed(m->lessee) : 0;
}

static int fill(struct market *m) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_pool *pool;
    terms.ttl_ms = TTL_MS;
    if (rdmad_pool_create(m->owner, m->live * PAGE, 0, &pool))
        return failed(m->owner);
    char *base = rdmad_pool_base(pool);
    for (size_t i = 0; i < m->live; i++) {
        if (rdmad_lease_grant(m->owner, base + i * PAGE, PAGE, &terms, &m->granted[i]))
            return failed(m->owner);
        if (attach(m, i))
            return 1;
    }
    return 0;
}

static int measure(struct market *m, double seconds) {
    struct samples both = {0}, attaches = {0}, releases = {0};
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    double start = samples_now_us(), now = start;
    for (; now - start < seconds * 1e6; m->next = (m->next + 1) % m->live) {
        double first = now;
        rdmad_lease_free(m->attached[m->next]);
        m->attached[m->next] = NULL;
        double second = samples_now_us();
        if (attach(m, m->next))
            return 1;
        now = samples_now_us();
        samples_add(&releases, second - first);
        samples_add(&attaches, now - second);
        samples_add(&both, now - first);
    }
    rdmad_lease_get_info(m->attached[0], &info);
    printf("{\"live\":%zu,\"fabric\":\"%s\",\"us\":%.2f,\"attach_us\":%.2f,\"release_us\":%.2f}\n",
           m->live, info.fabric, samples_median(&both), samples_median(&attaches),
           samples_median(&releases));
    fflush(stdout);
    samples_free(&both);
    samples_free(&attaches);
    samples_free(&releases);
    return 0;
}

static int serve(struct market *m) {
    char line[64];
    while (fgets(line, sizeof(line), stdin)) {
        double seconds = strtod(line, NULL);
        if (!(seconds > 0)) {
            fprintf(stderr, "bench_leases: not a number of seconds: %s", line);
            return 2;
        }
        if (measure(m, seconds))
            return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct market m = {.live = argc == 4 ? strtoull(argv[3], NULL, 10) : 0};
    if (!m.live || m.live > 1048576) {
        fprintf(stderr, "usage: %s OWNER_DIR LESSEE_DIR LIVE\n", argv[0]);
        return 2;
    }
    m.granted = calloc(m.live, sizeof(rdmad_lease *));
    m.attached = calloc(m.live, sizeof(rdmad_lease *));
    int rc = !m.granted || !m.attached;
    if (!rc)
        rc = open_session(argv[1], &m.owner);
    if (!rc)
        rc = open_session(argv[2], &m.lessee);
    if (!rc)
        rc = fill(&m);
    if (!rc)
        rc = serve(&m);
    /* The sessions take with them what is theirs; the records of leases die with the program. */
    if (m.lessee)
        rdmad_close(m.lessee);
    if (m.owner)
        rdmad_close(m.owner);
    free(m.granted);
    free(m.attached);
    return rc;
}
