/* SPDX-License-Identifier: MIT */
/*
 * steady_load OWNER LESSEE - memory of a session at the daemon in OWNER, written and read without
 * pause by one at the daemon in LESSEE, until it is told to stop by the end of its input. Says
 * "begun" after the first round, and how many there were; an op that fails or bytes that are wrong
 * end it at once. What test_renewal.sh runs while certificates change.
 */
#include <err.h>
#include <poll.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 65536, BLOCK = 4096 };

static rdmad_session *open_at(const char *dir, rdmad_pool **pool) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    options.runtime_dir = dir;
    if (rdmad_open(&options, &s) || rdmad_pool_create(s, 1 << 20, 0, pool))
        errx(1, "%s: %s", dir, rdmad_last_error(NULL));
    return s;
}

static void one_round(const rdmad_session *s, rdmad_lease *there, const char *far, char *buf,
                      unsigned long n) {
    char *back = buf + BLOCK;
    uint64_t at = n * BLOCK % BYTES;
    memset(buf, (int)(n % 251) + 1, BLOCK);
    if (rdmad_write(there, at, buf, BLOCK) || rdmad_read(there, at, back, BLOCK))
        errx(1, "round %lu: %s", n, rdmad_last_error(s));
    if (memcmp(buf, back, BLOCK) != 0 || memcmp(buf, far + at, BLOCK) != 0)
        errx(1, "round %lu: other bytes", n);
}

int main(int argc, char **argv) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    rdmad_pool *pool, *near;
    rdmad_lease *granted, *there;
    unsigned long n = 0;
    if (argc != 3)
        errx(2, "usage: steady_load OWNER LESSEE");
    rdmad_session *owner = open_at(argv[1], &pool), *lessee = open_at(argv[2], &near);
    char *far = rdmad_alloc(pool, BYTES), *buf = rdmad_alloc(near, 2 * BLOCK);
    terms.ttl_ms = 3600000;
    if (!far || !buf || rdmad_lease_grant(owner, far, BYTES, &terms, &granted))
        errx(1, "%s", rdmad_last_error(owner));
    if (rdmad_lease_attach(lessee, rdmad_lease_uri(granted), 0, &there))
        errx(1, "%s", rdmad_last_error(lessee));
    do {
        one_round(lessee, there, far, buf, n);
        if (n++ == 0) {
            puts("begun");
            fflush(stdout);
        }
    } while (poll(&input, 1, 0) == 0);
    rdmad_close(lessee);
    rdmad_close(owner);
    printf("%lu rounds\n", n);
    return 0;
}
