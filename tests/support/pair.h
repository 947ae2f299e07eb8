/* SPDX-License-Identifier: MIT */
/*
 * pair.h - two clients of one daemon or of two, each with a pool, a lease and a channel between
 * them: what most tests of operations begin with.
 *
 *     struct pair p;
 *     pair_open(&p, PAIR_LINK, 1 << 20, RDMAD_RIGHTS_ALL);
 *     CHECK(!rdmad_write(p.lease, 0, p.near, 64), "%s", rdmad_last_error(p.a));
 *     pair_close(&p);
 *
 * Both clients live in the test's process, so that it can look at both memories. Nothing here
 * returns an error: what goes wrong ends the case.
 */
#ifndef RDMAD_TEST_PAIR_H
#define RDMAD_TEST_PAIR_H

#include "tests/support/harness.h"
#include <rdmad/rdmad.h>

enum pair_route { PAIR_LOCAL, PAIR_LINK };

struct pair {
    struct tdaemon *da, *db; /* the same on route local */
    rdmad_session *a, *b;
    rdmad_pool *pool_a, *pool_b;
    uint8_t *near, *far; /* a's and b's memory */
    size_t bytes;        /* of each */
    rdmad_lease *own;    /* b's grant of all of far */
    rdmad_lease *lease;  /* a's attach to it */
    rdmad_service *service;
    rdmad_channel *ca, *cb;
};

/* The first route that a suite has to take: over verbs that between two daemons, because what one
 * daemon does by itself is the same over tcp, and the guest is slow. */
enum pair_route pair_first_route(void);
/* Ends the case as skipped if a suite does not take that route. */
void pair_needs_route(enum pair_route route);

void pair_open(struct pair *p, enum pair_route route, size_t bytes, uint32_t rights);
void pair_close(struct pair *p);

/* Connects a to b's service once more: the test's to close. */
void pair_connect(struct pair *p, unsigned kind, rdmad_channel **at_a, rdmad_channel **at_b);

/* New bytes, reproducible by their seed. */
void fill_bytes(void *memory, size_t length, uint64_t seed);
/* Whether memory has the bytes of that seed; the first that differs in *at. */
bool bytes_are(const void *memory, size_t length, uint64_t seed, size_t *at);

#endif
