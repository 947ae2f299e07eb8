/* SPDX-License-Identifier: MIT */
/*
 * array_reader URI - for each line of standard input reads a whole lease by one call and prints the
 * nanoseconds that it took: what tests/python/array_reader.py is compared with.
 */
#include <err.h>
#include <inttypes.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <time.h>

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *lease;
    char line[16];

    if (argc != 2)
        errx(2, "usage: array_reader URI");
    if (rdmad_open(NULL, &s) || rdmad_lease_attach(s, argv[1], 0, &lease))
        errx(1, "%s", rdmad_last_error(NULL));
    rdmad_lease_get_info(lease, &info);
    if (rdmad_pool_create(s, info.length, 0, &pool))
        errx(1, "%s", rdmad_last_error(s));
    void *array = rdmad_alloc(pool, info.length);
    if (!array)
        errx(1, "%s", rdmad_last_error(s));
    while (fgets(line, sizeof(line), stdin)) {
        uint64_t begun = now_ns();
        if (rdmad_read(lease, 0, array, info.length))
            errx(1, "%s", rdmad_last_error(s));
        printf("%" PRIu64 "\n", now_ns() - begun);
        fflush(stdout);
    }
    rdmad_close(s);
    return 0;
}
