/* SPDX-License-Identifier: MIT */
/* write_rdmad [URI] - one write into another process's memory. Without a URI: the other process. */
#include <err.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *lease;
    if (rdmad_open(NULL, &s) || rdmad_pool_create(s, 4096, 0, &pool))
        errx(1, "%s", rdmad_last_error(NULL));
    char *buf = rdmad_alloc(pool, 64);
    if (argc == 2) {
        strcpy(buf, "hello");
        if (rdmad_lease_attach(s, argv[1], 0, &lease) || rdmad_write_notify(lease, 0, buf, 6, 0))
            errx(1, "%s", rdmad_last_error(s));
    } else {
        if (rdmad_lease_grant(s, buf, 64, NULL, &lease))
            errx(1, "%s", rdmad_last_error(s));
        printf("%s\n", rdmad_lease_uri(lease));
        fflush(stdout);
        if (rdmad_wait_notified(lease, -1, NULL, NULL) || rdmad_lease_revoke(lease))
            errx(1, "%s", rdmad_last_error(s));
        printf("%.64s\n", buf);
    }
    rdmad_close(s);
    return 0;
}
