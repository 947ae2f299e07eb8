/* SPDX-License-Identifier: MIT */
/*
 * sqe_moves.h - what fuzz_sqe reads, and sqe_seeds writes: a byte that says what the lease is
 * (SQE_LEASE_*, its rights below), then what a client does with its ring, a byte each (SQE_MOVES)
 * and what follows it.
 */
#ifndef RDMAD_TESTS_FUZZ_SQE_MOVES_H
#define RDMAD_TESTS_FUZZ_SQE_MOVES_H

/* Of the first byte; the lowest four bits are rights. */
#define SQE_LEASE_LINK 16u   /* reached by a link: a margin before its deadline counts */
#define SQE_LEASE_ENDED 32u  /* its time is over, but nobody said so */
#define SQE_LEASE_REASON 64u /* it has ended */
#define SQE_LEASE_GONE 128u  /* its owner's daemon has */

enum {
    SQE_SUBMIT,  /* an sqe follows: into the next slot, and published; with HANDLES as below */
    SQE_TAIL,    /* sq_tail is what follows */
    SQE_HEAD,    /* cq_head is what follows; with HANDLES it is what was published */
    SQE_WORDS,   /* cq_wait and alive */
    SQE_FLUSH,   /* the daemon publishes */
    SQE_END,     /* an op ends that was taken; with HANDLES it says nothing */
    SQE_LOOK,    /* the daemon is about to sleep, asks for a sign of life */
    SQE_REWRITE, /* an sqe follows, over the slot that is looked at next, not published */
    SQE_MOVES
};
#define SQE_HANDLES 8u /* the sqe's pool and lease are those that there are, if not 0 */

#endif
