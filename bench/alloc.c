/* SPDX-License-Identifier: MIT */
/*
 * alloc.c - what a piece of registered memory costs a client of rdmad: rdmad_alloc and rdmad_free
 * of BYTES from a pool that the daemon has made and registered before.
 *
 * bench_alloc RUNTIME_DIR BYTES SECONDS prints {"us":...,"pool_us":...,"pool_bytes":...}: a pair of
 * calls, the median over batches, and what the pool itself cost once.
 */
#include "bench/samples.h"
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 64, PIECES = 64 };

static int failed(const rdmad_session *session) {
    fprintf(stderr, "bench_alloc: %s\n", rdmad_last_error(session));
    return 1;
}

/* One batch; every other turn keeps a piece for a while, so that the pool is not always empty. */
static int batch(rdmad_pool *pool, size_t bytes, double *us) {
    double start = samples_now_us();
    for (int i = 0; i < BATCH / 2; i++) {
        char *kept = rdmad_alloc(pool, bytes), *piece = rdmad_alloc(pool, bytes);
        if (!kept || !piece)
            return -1;
        *(volatile char *)piece = 1;
        rdmad_free(pool, kept);
        rdmad_free(pool, piece);
    }
    *us = (samples_now_us() - start) / BATCH;
    return 0;
}

int main(int argc, char **argv) {
    size_t bytes = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;
    double seconds = argc == 4 ? strtod(argv[3], NULL) : 0;
    if (!bytes || bytes > (SIZE_MAX >> 8) || !(seconds > 0)) {
        fprintf(stderr, "usage: %s RUNTIME_DIR BYTES SECONDS\n", argv[0]);
        return 2;
    }
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_session *session;
    rdmad_pool *pool;
    options.runtime_dir = argv[1];
    if (rdmad_open(&options, &session))
        return failed(NULL);
    double start = samples_now_us();
    if (rdmad_pool_create(session, PIECES * bytes, 0, &pool))
        return failed(session);
    double pool_us = samples_now_us() - start, us = 0;
    struct samples samples = {0};
    for (start = samples_now_us(); samples_now_us() - start < seconds * 1e6;) {
        if (batch(pool, bytes, &us))
            return failed(session);
        samples_add(&samples, us);
    }
    printf("{\"us\":%.4f,\"pool_us\":%.1f,\"pool_bytes\":%zu}\n", samples_median(&samples), pool_us,
           rdmad_pool_size(pool));
    samples_free(&samples);
    rdmad_close(session);
    return 0;
}
