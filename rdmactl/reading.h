/* SPDX-License-Identifier: MIT */
/*
 * reading.h - ranges of a lease, by pipelined one-sided READs.
 *
 * A small pool is cut into slots. Each piece is read into one, waits until all before it have been
 * taken, is taken, and the slot is used again. So READs are in flight while somebody takes what has
 * come, it is taken in order, and the memory needed does not grow with the lease. A daemon that
 * answers nothing for as long as an answer may take is told of and given up; time in which it was
 * not asked is not its.
 */
#ifndef RDMACTL_READING_H
#define RDMACTL_READING_H

#include "rdmactl/cli.h"
#include <rdmad/rdmad.h>
#include <stdbool.h>
#include <stdint.h>

#define READING_SLOTS 64u /* at most */
/* Of a reader that says again, instead of a report: a daemon is lost, and why is in lost. No READ
 * is under way any more. */
#define READING_LOST 3

struct reading {
    rdmad_session *session;
    rdmad_lease *lease;
    rdmad_pool *pool;
    rdmad_ring *ring;
    unsigned slots;
    uint32_t piece;               /* bytes */
    uint64_t from, bytes;         /* what is read of the lease, cut into pieces */
    const uint64_t *wanted;       /* the numbers of count pieces, rising; NULL: the first count */
    uint64_t count, asked, taken; /* pieces */
    uint64_t arrived_mask;        /* slots */
    unsigned inflight;            /* READs that have not ended */
    double heard_s, more_s;       /* more: than an answer may take, as a daemon has to come first */
    int failed;                   /* RDMAD_E_*, of what failed last */
    bool again;
    bool paused;         /* nothing is asked of the daemon as long as it is */
    struct failure lost; /* code "": nothing is */
    int (*take)(void *arg, uint64_t piece, const void *data, uint64_t size);
    void *arg;
};

/* All that return int return an exit code and report, or READING_LOST. The session and the lease
 * stay the caller's; pool and ring end with the session. */
int reading_open(struct reading *r, rdmad_session *session, rdmad_lease *lease);
/* From now on these pieces of [from, from + bytes). */
void reading_start(struct reading *r, uint64_t from, uint64_t bytes, uint32_t piece);
/* Waits a moment at most, and has take called for what has come. */
int reading_turn(struct reading *r);
bool reading_over(const struct reading *r);
/* After READING_LOST: asks again for what was not taken; the first answer may take so much longer.
 * restore: with a new session or lease, after reading_open, for what was
 * to be read before. */
void reading_repeat(struct reading *r, double patience_s);
void reading_restore(struct reading *r, const struct reading *was);
/* Whether time may mend what has failed so. */
bool reading_may_come(int rc);
/* READING_LOST if r wants it, and it may come; else reports. */
int reading_failed(struct reading *r, int rc, const char *why);
/* A range at once, into memory. */
int reading_copy(struct reading *r, uint64_t from, void *to, uint64_t bytes);

#endif
