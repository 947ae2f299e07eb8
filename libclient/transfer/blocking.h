/* SPDX-License-Identifier: MIT */
/*
 * blocking.h - one op from submission to its end, for any number of threads at once.
 *
 * The happy path: submit on a ring that threads share, under its mutex, then wait. One of the
 * threads that wait sleeps on the ring for all of them (without the mutex, so others may submit
 * meanwhile), hands every completion to the thread that waits for it, and when its own has come
 * lets another take its place. A single thread pays for an uncontended mutex and nothing else.
 *
 * Ops that end soon by themselves share one ring, and wait for a free entry if they must. Ops that
 * may wait for somebody else's program (a receive, a notification, a send whose receiver is slow)
 * have other rings, as many as it takes for each to have an entry, so they never stand in the way.
 *
 * A timeout is the op's deadline at the daemon. The call returns what became of the op there: a
 * message that arrived as the time ran out is received, not lost.
 */
#ifndef RDMAD_LIBCLIENT_BLOCKING_H
#define RDMAD_LIBCLIENT_BLOCKING_H

#include "libclient/base/session.h"

/* An op, or (with segments) a batch of READs or WRITEs; what its opcode does not use is zero. */
struct rdmad_want {
    uint8_t opcode, flags;
    uint32_t imm;
    struct rdmad_lease *lease;
    uint64_t channel; /* its number: another thread may close it meanwhile */
    uint64_t offset;
    void *buffer;
    size_t length;
    uint64_t compare, swap;
    uint64_t timeout_ns; /* 0: the daemon's default for such ops */
    const struct rdmad_segment *segments;
    unsigned count;
};

/* Returns its status, with the sentence for rdmad_last_error and the outcome for
 * rdmad_last_outcome. cqe may be NULL. */
int rdmad_blocking_do(struct rdmad_session *s, const struct rdmad_want *want,
                      struct rdmad_cqe *cqe);
/* The most segments that one want can have. Not 0: there is no ring, which is told. */
int rdmad_blocking_segments(struct rdmad_session *s, unsigned *most);
/* For calls of several ops, of which some were done before: what rdmad_last_outcome says. */
void rdmad_blocking_part_done(void);
/* For calls that fail before they ask for an op. */
void rdmad_blocking_untouched(void);
/* timeout_ms of a call as a want's timeout_ns. */
uint64_t rdmad_blocking_timeout(int timeout_ms);

int rdmad_blocking_new(struct rdmad_session *s);
void rdmad_blocking_free(struct rdmad_blocking *b);

#endif
