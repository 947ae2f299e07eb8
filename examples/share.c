/* SPDX-License-Identifier: MIT */
/*
 * share FILE - puts FILE into leased memory, prints the URI, and holds it until the lease ends or
 * somebody interrupts. `rdmactl share` is the grown-up one.
 */
#include <err.h>
#include <fcntl.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void read_whole(int fd, char *to, size_t size) {
    while (size) {
        ssize_t n = read(fd, to, size);
        if (n < 0)
            err(1, "read");
        if (n == 0)
            errx(1, "the file has become shorter");
        to += n;
        size -= (size_t)n;
    }
}

int main(int argc, char **argv) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    struct rdmad_event e = RDMAD_EVENT_INIT;
    struct stat st;
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *lease;

    if (argc != 2)
        errx(2, "usage: share FILE");
    int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st))
        err(1, "%s", argv[1]);
    if (st.st_size == 0)
        errx(1, "%s: there is nothing in it to share", argv[1]);
    size_t size = (size_t)st.st_size;

    if (rdmad_open(NULL, &s) || rdmad_pool_create(s, size, 0, &pool))
        errx(1, "%s", rdmad_last_error(NULL));
    char *memory = rdmad_alloc(pool, size);
    read_whole(fd, memory, size);
    terms.rights = RDMAD_RIGHT_READ;
    if (rdmad_lease_grant(s, memory, size, &terms, &lease))
        errx(1, "%s", rdmad_last_error(s));
    printf("%s\n", rdmad_lease_uri(lease));
    fflush(stdout);

    do {
        if (rdmad_next_event(s, -1, &e))
            errx(1, "%s", rdmad_last_error(s));
    } while (e.type != RDMAD_EVENT_LEASE_ENDED);
    fprintf(stderr, "%s\n", e.text);
    rdmad_close(s);
    return 0;
}
