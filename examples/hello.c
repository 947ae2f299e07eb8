/* SPDX-License-Identifier: MIT */
/* hello URI - ten lines that write into the memory of another process, on this machine or another.
 * Start examples/mailbox there; it prints the URI. */
#include <err.h>
#include <rdmad/rdmad.h>
#include <string.h>

int main(int argc, char **argv) {
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *there;

    if (argc != 2)
        errx(2, "usage: hello URI");
    if (rdmad_open(NULL, &s) || rdmad_pool_create(s, 1 << 20, 0, &pool) ||
        rdmad_lease_attach(s, argv[1], 0, &there))
        errx(1, "%s", rdmad_last_error(NULL));
    char *buf = rdmad_alloc(pool, 4096);
    memcpy(buf, "hello", 6);
    if (rdmad_write(there, 0, buf, 6))
        errx(1, "%s", rdmad_last_error(s));
    rdmad_close(s);
    return 0;
}
