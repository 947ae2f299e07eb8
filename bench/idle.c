/* SPDX-License-Identifier: MIT */
/*
 * idle.c - sessions that do nothing, and one beside them whose calls are timed. What a look at the
 * daemon costs is measured by it (bench/scrape).
 *
 * bench_idle RUNTIME_DIR SESSIONS holds so many sessions, each with a pool and a ring, and says
 * "ready". For each number of seconds on standard input it makes and destroys a small pool every
 * PACE_US for so long, each a call to the daemon's control thread, and prints
 * {"calls":...,"p50_us":...,"p99_us":...,"max_us":...} of those that make one.
 */
#include "bench/samples.h"
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { POOL_BYTES = 4096, DEPTH = 8 };
#define PACE_US 1000

static int failed(const rdmad_session *session, const char *what) {
    fprintf(stderr, "bench_idle: %s: %s\n", what, rdmad_last_error(session));
    return 1;
}

static int session_up(const char *dir, rdmad_session **out) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_pool *pool;
    rdmad_ring *ring;
    options.runtime_dir = dir;
    if (rdmad_open(&options, out))
        return failed(NULL, "open");
    if (rdmad_pool_create(*out, POOL_BYTES, 0, &pool))
        return failed(*out, "pool");
    return rdmad_ring_create(*out, DEPTH, &ring) ? failed(*out, "ring") : 0;
}

static int call(rdmad_session *session, struct samples *samples) {
    rdmad_pool *pool;
    double start = samples_now_us();
    if (rdmad_pool_create(session, POOL_BYTES, 0, &pool))
        return failed(session, "pool");
    samples_add(samples, samples_now_us() - start);
    return rdmad_pool_destroy(pool) ? failed(session, "pool") : 0;
}

static int measure(rdmad_session *session, double seconds) {
    const struct timespec pace = {.tv_nsec = PACE_US * 1000L};
    struct samples samples = {0};
    for (double start = samples_now_us(); samples_now_us() - start < seconds * 1e6;) {
        if (call(session, &samples))
            return 1;
        nanosleep(&pace, NULL);
    }
    if (!samples.count) {
        fprintf(stderr, "bench_idle: the time is too short for a call\n");
        return 1;
    }
    double p50 = samples_median(&samples); /* it sorts them */
    printf("{\"calls\":%zu,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f}\n", samples.count, p50,
           samples.us[samples.count * 99 / 100], samples.us[samples.count - 1]);
    fflush(stdout);
    samples_free(&samples);
    return 0;
}

int main(int argc, char **argv) {
    unsigned long count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    rdmad_session *session = NULL;
    double seconds;
    if (argc != 3 || count > 100000) {
        fprintf(stderr, "usage: %s RUNTIME_DIR SESSIONS\n", argv[0]);
        return 2;
    }
    for (unsigned long i = 0; i <= count; i++) /* one more, whose calls are timed */
        if (session_up(argv[1], &session))
            return 1;
    printf("ready\n");
    fflush(stdout);
    while (scanf("%lf", &seconds) == 1)
        if (measure(session, seconds))
            return 1;
    return 0; /* the end of the process is that of its sessions */
}
