/* SPDX-License-Identifier: MIT */
/*
 * far_pair.h - an owner at one daemon (127.0.0.2), its lessee at another (127.0.0.1), both of whose
 * sessions outlive their daemons if nothing else is said.
 */
#ifndef RDMAD_TEST_FAR_PAIR_H
#define RDMAD_TEST_FAR_PAIR_H

#include "tests/support/harness.h"
#include <rdmad/rdmad.h>

enum { FAR_BYTES = 512 << 10 }; /* of memory and buffer */

struct far_pair {
    char config[32]; /* a file, of both daemons, which a restart reads again */
    const char *args[3];
    struct tdaemon *far, *near;
    rdmad_session *owner, *lessee;
    rdmad_pool *pool, *mine;
    char *memory, *buffer;
    rdmad_lease *granted, *attached;
};

/* settings: JSON. ttl_ms 0: that of RDMAD_LEASE_TERMS_INIT. Skips where no session can outlive its
 * daemon. */
void far_pair_up(struct far_pair *p, const char *settings, uint64_t ttl_ms, int64_t lessee_resumes);
void far_pair_down(struct far_pair *p);
/* Reads what the owner has, and writes what it then has. */
void far_pair_works(struct far_pair *p, unsigned seed);
/* Nothing has happened to the lessee's lease, but that it was renewed, if its owner's daemon counts
 * differently, or its session was resumed. */
void far_pair_expect_no_end(struct far_pair *p);

#endif
