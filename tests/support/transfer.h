/* SPDX-License-Identifier: MIT */
/*
 * transfer.h - client processes at work, through librdmad: an owner that grants, a lessee that
 * writes and reads for as long as it is let.
 *
 * Both run in processes of their own (client_fork) and talk to the test by pipes: the owner sends
 * its lease's URI, the lessee says when its first transfer is done. A test kills either at will.
 */
#ifndef RDMAD_TEST_TRANSFER_H
#define RDMAD_TEST_TRANSFER_H

#include "tests/support/harness.h"

#include <rdmad/rdmad.h>

enum { TRANSFER_BYTES = 8 << 20 };

/* What a lessee does about an op that fails. */
enum transfer_mind {
    TRANSFER_STRICT,   /* no op may fail: exit code 1 */
    TRANSFER_TOLERANT, /* the first failure ends it, exit code 0 if it was typed and in time */
};

struct owner {
    pid_t pid;
    char uri[RDMAD_URI_MAX + 1];
};
/* A client of d with a pool of TRANSFER_BYTES, all of it leased; it sleeps until it is killed. */
struct owner owner_start(const struct tdaemon *d);

struct lessee {
    pid_t pid;
    int to;   /* closing it asks the lessee to finish */
    int from; /* one byte when the first transfer is done */
};
/* A client of d that attaches and moves TRANSFER_BYTES to and fro, a ring full of ops at a time. */
struct lessee lessee_start(const struct tdaemon *d, const char *uri, enum transfer_mind mind);
void lessee_await_start(const struct lessee *l);
/* Asks it to finish and requires exit code 0. */
void lessee_finish(struct lessee *l);
/* Waits until it ends by itself, within ms, with exit code 0. */
void lessee_expect_end(struct lessee *l, unsigned ms);
void lessee_kill(struct lessee *l);

/* The longest that an op of a lessee may take. */
#define TRANSFER_TIMEOUT_MS (2000u * test_patience())

#endif
