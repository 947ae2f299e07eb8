/* SPDX-License-Identifier: MIT */
/*
 * two.h - an owner and a lessee, on one daemon or on two, each with a pool: what tests of leases
 * begin with that make their leases themselves. (pair.h has a lease and a channel made already.)
 *
 *     static void promise(struct two *t) {
 *         rdmad_lease *own = two_grant(t, 0, 0, 0);
 *         rdmad_lease *l = client_attach(t->lessee, rdmad_lease_uri(own));
 *         ...
 *     }
 *     two_each_route(promise);
 *
 * Both clients live in the test's process. What goes wrong here ends the case.
 */
#ifndef RDMAD_TEST_TWO_H
#define RDMAD_TEST_TWO_H

#include "tests/support/client.h"

enum { TWO_POOL = 8 << 20, TWO_LEASE = 64 << 10 };

/* An owner at a, a lessee at b; b is a on route local. */
struct two {
    struct tdaemon *a, *b;
    rdmad_session *owner, *lessee;
    rdmad_pool *owner_pool, *lessee_pool;
    char *theirs, *mine;         /* the owner's memory and the lessee's */
    rdmad_service *service;      /* of the owner, if the test makes one */
    char uri[RDMAD_URI_MAX + 1]; /* its */
};

/* Calls promise once for each route that is to be tried, with daemons and clients of its own. */
void two_each_route(void (*promise)(struct two *t));

/* The owner grants the first TWO_LEASE bytes of theirs. Zeroes: the daemon's defaults. */
rdmad_lease *two_grant(struct two *t, uint32_t rights, uint64_t ttl_ms, uint32_t flags);

#endif
