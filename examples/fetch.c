/* SPDX-License-Identifier: MIT */
/*
 * fetch URI FILE - reads a lease into FILE with one-sided reads of 1 MiB, 8 under way at a time.
 *
 * Completions come in any order, so each piece is written where it belongs; a piece's buffer is
 * free for the next one when its bytes are in the file.
 */
#include <err.h>
#include <fcntl.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <unistd.h>

#define PIECE (UINT64_C(1) << 20)
#define DEPTH 8u

static rdmad_session *session;
static rdmad_ring *ring;
static rdmad_lease *lease;

static struct piece {
    char *buffer;
    uint64_t offset, length;
} piece[DEPTH];

static void ask(struct piece *p, uint64_t offset, uint64_t total) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);

    p->offset = offset;
    p->length = total - offset < PIECE ? total - offset : PIECE;
    if (!sqe ||
        rdmad_prep_read(ring, sqe, lease, p->offset, p->buffer, p->length, (uint64_t)(p - piece)))
        errx(1, "%s", rdmad_last_error(session));
}

static void write_whole(int fd, const struct piece *p) {
    uint64_t done = 0;

    while (done < p->length) {
        ssize_t n = pwrite(fd, p->buffer + done, p->length - done, (off_t)(p->offset + done));
        if (n < 0)
            err(1, "write");
        done += (uint64_t)n;
    }
}

static void fetch(int fd, uint64_t total) {
    const struct rdmad_cqe *cqe;
    uint64_t asked = 0, arrived = 0;
    char why[512];

    for (unsigned i = 0; i < DEPTH && asked < total; i++) {
        ask(&piece[i], asked, total);
        asked += piece[i].length;
    }
    while (arrived < total) {
        if (rdmad_ring_submit(ring) < 0 || rdmad_ring_wait(ring, -1, &cqe))
            errx(1, "%s", rdmad_last_error(session));
        struct piece *p = &piece[cqe->user_data];
        if (cqe->status) {
            rdmad_ring_explain(ring, cqe, why, sizeof(why));
            errx(1, "%s", why);
        }
        rdmad_ring_seen(ring, cqe);
        write_whole(fd, p);
        arrived += p->length;
        if (asked < total) {
            ask(p, asked, total);
            asked += p->length;
        }
    }
}

int main(int argc, char **argv) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_pool *pool;

    if (argc != 3)
        errx(2, "usage: fetch URI FILE");
    if (rdmad_open(NULL, &session) || rdmad_pool_create(session, DEPTH * PIECE, 0, &pool) ||
        rdmad_ring_create(session, DEPTH, &ring) || rdmad_lease_attach(session, argv[1], 0, &lease))
        errx(1, "%s", rdmad_last_error(NULL));
    for (unsigned i = 0; i < DEPTH; i++)
        piece[i].buffer = rdmad_alloc(pool, PIECE);
    rdmad_lease_get_info(lease, &info);

    int fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        err(1, "%s", argv[2]);
    fetch(fd, info.length);
    if (close(fd))
        err(1, "%s", argv[2]);
    printf("%llu bytes over %s\n", (unsigned long long)info.length, info.fabric);
    rdmad_close(session);
    return 0;
}
