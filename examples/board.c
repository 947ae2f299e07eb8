/* SPDX-License-Identifier: MIT */
/*
 * board NAME READERS SECONDS TEXT - one to many: TEXT is published as NAME until so many readers
 * have read and released it, or the time is over, whichever is first; then tells which it was.
 *
 * Readers need nothing special: `rdmactl fetch rdmad://HOST:PORT/NAME`, or examples/fetch. After
 * the end no reader, however late or slow, reaches the memory: it can be used for something else.
 */
#include <err.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    struct rdmad_lease_audit audit = RDMAD_LEASE_AUDIT_INIT;
    struct rdmad_event e = RDMAD_EVENT_INIT;
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *lease;

    if (argc != 5 || atoi(argv[2]) < 1 || atoi(argv[3]) < 1)
        errx(2, "usage: board NAME READERS SECONDS TEXT");
    if (rdmad_open(NULL, &s) || rdmad_pool_create(s, 1 << 20, 0, &pool))
        errx(1, "%s", rdmad_last_error(NULL));
    size_t size = strlen(argv[4]);
    char *memory = rdmad_alloc(pool, size + 1);
    memcpy(memory, argv[4], size + 1);
    terms.name = argv[1];
    terms.rights = RDMAD_RIGHT_READ;
    terms.ends_after = (uint32_t)atoi(argv[2]);
    terms.ttl_ms = (uint64_t)atoi(argv[3]) * 1000;
    if (rdmad_lease_grant(s, memory, size, &terms, &lease))
        errx(1, "%s", rdmad_last_error(s));
    printf("%s\n", rdmad_lease_uri(lease));
    fflush(stdout);
    do {
        if (rdmad_next_event(s, -1, &e))
            errx(1, "%s", rdmad_last_error(s));
    } while (e.type != RDMAD_EVENT_LEASE_ENDED);
    if (rdmad_lease_get_audit(lease, &audit))
        errx(1, "%s", rdmad_last_error(s));
    printf("%u readers came: %s\n", audit.attached_total, e.text);
    rdmad_close(s);
    return e.reason != RDMAD_E_LEASE_RELEASED; /* 1: the time was over first */
}
