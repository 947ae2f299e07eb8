/* SPDX-License-Identifier: MIT */
/* handover_rdmad [URI] - asks the other process for memory, fills it, hands it over. Without a URI:
 * the other process. */
#include <err.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 4096 };

int main(int argc, char **argv) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    struct rdmad_event e = RDMAD_EVENT_INIT;
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_service *service;
    rdmad_lease *there;
    if (rdmad_open(NULL, &s) || rdmad_pool_create(s, 1 << 20, 0, &pool))
        errx(1, "%s", rdmad_last_error(NULL));
    char *buf = rdmad_alloc(pool, BYTES);
    if (argc == 2) {
        memset(buf, 'x', BYTES);
        if (rdmad_lease_request(s, argv[1], BYTES, NULL, 0, &there) ||
            rdmad_write(there, 0, buf, BYTES) || rdmad_lease_hand_over(there))
            errx(1, "%s", rdmad_last_error(s));
    } else {
        terms.budget = buf;
        terms.budget_bytes = BYTES;
        if (rdmad_listen(s, "store", &terms, &service))
            errx(1, "%s", rdmad_last_error(s));
        printf("%s\n", rdmad_service_uri(service));
        fflush(stdout);
        while (e.type != RDMAD_EVENT_HANDED_OVER)
            if (rdmad_next_event(s, -1, &e))
                errx(1, "%s", rdmad_last_error(s));
        printf("%zu bytes of %c\n", e.length, *(char *)e.memory);
    }
    rdmad_close(s);
    return 0;
}
