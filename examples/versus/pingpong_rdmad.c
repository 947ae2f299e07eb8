/* SPDX-License-Identifier: MIT */
/* pingpong_rdmad [URI] - a thousand messages there and back. Without a URI: who answers. */
#include <err.h>
#include <rdmad/rdmad.h>
#include <stdio.h>

enum { ROUNDS = 1000 };

int main(int argc, char **argv) {
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_service *service;
    rdmad_channel *c;
    if (rdmad_open(NULL, &s) || rdmad_pool_create(s, 4096, 0, &pool))
        errx(1, "%s", rdmad_last_error(NULL));
    char *buf = rdmad_alloc(pool, 64);
    if (argc == 2) {
        if (rdmad_connect(s, argv[1], RDMAD_CHANNEL_RELIABLE, 0, &c))
            errx(1, "%s", rdmad_last_error(s));
    } else {
        if (rdmad_listen(s, "pingpong", NULL, &service))
            errx(1, "%s", rdmad_last_error(s));
        printf("%s\n", rdmad_service_uri(service));
        fflush(stdout);
        if (rdmad_accept(service, NULL, -1, &c))
            errx(1, "%s", rdmad_last_error(s));
    }
    for (int i = 0; i < ROUNDS; i++)
        if ((argc == 2 && rdmad_send(c, buf, 64)) || rdmad_recv(c, buf, 64, -1, NULL) ||
            (argc != 2 && rdmad_send(c, buf, 64)))
            errx(1, "%s", rdmad_last_error(s));
    printf("%d rounds\n", ROUNDS);
    rdmad_channel_close(c);
    rdmad_close(s);
    return 0;
}
