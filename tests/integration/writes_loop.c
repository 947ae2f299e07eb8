/* SPDX-License-Identifier: MIT */
/*
 * writes_loop COUNT - COUNT blocking writes of 64 bytes to a lease on the same daemon, one after
 * the other. What test_wakeups.sh runs under strace.
 */
#include <err.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *granted, *lease;
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    terms.ttl_ms = 3600 * 1000; /* a busy machine takes its time */
    unsigned long count = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
    if (count == 0)
        errx(2, "usage: writes_loop COUNT");
    if (rdmad_open(NULL, &s) || rdmad_pool_create(s, 1 << 20, 0, &pool))
        errx(1, "%s", rdmad_last_error(NULL));
    char *from = rdmad_alloc(pool, 64), *to = rdmad_alloc(pool, 4096);
    if (!from || !to || rdmad_lease_grant(s, to, 4096, &terms, &granted) ||
        rdmad_lease_attach(s, rdmad_lease_uri(granted), 0, &lease))
        errx(1, "%s", rdmad_last_error(s));
    for (unsigned long i = 0; i < count; i++)
        if (rdmad_write(lease, i * 64 % 4096, from, 64))
            errx(1, "write %lu: %s", i, rdmad_last_error(s));
    rdmad_close(s);
    printf("%lu writes\n", count);
    return 0;
}
