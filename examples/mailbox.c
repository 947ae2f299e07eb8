/* SPDX-License-Identifier: MIT */
/*
 * mailbox - the other side of hello: leases 4 KiB to whoever has the URI, prints the URI, and shows
 * what was written.
 *
 * One-sided writes tell nobody, so a mailbox watches its memory. The last byte of a message is what
 * it must watch; here that is the NUL, so the lease is revoked first: after that no writer can be
 * half way through.
 */
#include <err.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int main(void) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    struct timespec moment = {.tv_nsec = 1000000};
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *lease;

    if (rdmad_open(NULL, &s) || rdmad_pool_create(s, 1 << 20, 0, &pool))
        errx(1, "%s", rdmad_last_error(NULL));
    char *box = rdmad_alloc(pool, 4096);
    memset(box, 0, 4096);
    terms.rights = RDMAD_RIGHT_WRITE;
    if (rdmad_lease_grant(s, box, 4095, &terms, &lease)) /* the last byte stays NUL */
        errx(1, "%s", rdmad_last_error(s));
    printf("%s\n", rdmad_lease_uri(lease));
    fflush(stdout);

    do {
        nanosleep(&moment, NULL);
        rdmad_lease_get_info(lease, &info);
    } while (__atomic_load_n(box, __ATOMIC_ACQUIRE) == '\0' && info.ttl_ms);
    if (rdmad_lease_revoke(lease))
        errx(1, "%s", rdmad_last_error(s));
    printf("%s\n", *box ? box : "(nothing came)");
    rdmad_close(s);
    return 0;
}
