/* SPDX-License-Identifier: MIT */
/*
 * failing_ops URI - a program that lives long and whose ops fail now and then. For each line "COUNT
 * OFFSET TIMEOUT_MS" of standard input it makes COUNT WRITEs of 64 bytes to the lease, from that
 * offset on, all at once and at most 8, and says with which error the last one ended. It ends with
 * its input.
 */
#include <err.h>
#include <inttypes.h>
#include <rdmad/rdmad.h>
#include <stdio.h>

static rdmad_session *session;
static rdmad_ring *ring;
static rdmad_lease *lease;
static char *buffer;

/* All are submitted at once. */
static int write_all(uint64_t count, uint64_t offset, uint64_t timeout_ms) {
    const struct rdmad_cqe *cqe;
    int status = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
        if (!sqe || rdmad_prep_write(ring, sqe, lease, offset, buffer, 64, i))
            errx(1, "%s", rdmad_last_error(session));
        rdmad_sqe_set_deadline(sqe, timeout_ms);
    }
    if (rdmad_ring_submit(ring) < 0)
        errx(1, "%s", rdmad_last_error(session));
    for (uint64_t i = 0; i < count; i++) {
        if (rdmad_ring_wait(ring, -1, &cqe))
            errx(1, "%s", rdmad_last_error(session));
        status = cqe->status;
        rdmad_ring_seen(ring, cqe);
    }
    return status;
}

int main(int argc, char **argv) {
    rdmad_pool *pool;
    uint64_t count, offset, timeout_ms;
    if (argc != 2)
        errx(2, "usage: failing_ops URI");
    if (rdmad_open(NULL, &session) || rdmad_pool_create(session, 1 << 20, 0, &pool) ||
        rdmad_ring_create(session, 8, &ring) || rdmad_lease_attach(session, argv[1], 0, &lease) ||
        !(buffer = rdmad_alloc(pool, 64)))
        errx(1, "%s", rdmad_last_error(NULL));
    printf("attached\n");
    fflush(stdout);
    while (scanf("%" SCNu64 " %" SCNu64 " %" SCNu64, &count, &offset, &timeout_ms) == 3) {
        printf("%s\n", rdmad_errname(write_all(count, offset, timeout_ms)));
        fflush(stdout);
    }
    rdmad_close(session);
    return 0;
}
