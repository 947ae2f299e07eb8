/* SPDX-License-Identifier: MIT */
/*
 * kind.h - what some kinds of ops do otherwise than a READ or a WRITE.
 *
 * The engine moves bytes to and from a lease. What a NOTIFY, NOTIFIED, SEND or RECV does besides
 * stands above it, in notify/ and channel/, and is called through this table: there is one for each
 * opcode, NULL for those that do nothing else (turn/kinds.c). Any member may be NULL, too: then the
 * op does there what a READ does.
 */
#ifndef RDMAD_OP_ENGINE_KIND_H
#define RDMAD_OP_ENGINE_KIND_H

#include <stdbool.h>
#include <stdint.h>

struct op;
struct op_request;
struct op_ring;
struct rdmad_sqe;
struct worker;

struct op_kind {
    /* An sqe whose form is good and whose pool and lease are there: starts the op, or returns the
     * status with which it is refused. */
    int (*admit)(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                 struct op_request *rq);
    /* Instead of op_queue. */
    void (*start)(struct worker *w, struct op *op);
    /* It waits behind a fence as a note of its sqe, and is admitted when it starts. */
    bool admitted_late;

    /* It has one part more, behind its bytes (OP_TODO_LAST): posts that, with the result of
     * fabric.post; and whether that has to wait for parts under way. Both or neither. */
    int (*post_last)(struct worker *w, struct op *op);
    bool (*last_must_wait)(const struct op *op);
    /* That part failed, or came back from a lost link. */
    void (*last_failed)(struct worker *w, struct op *op);

    /* Instead of taking back what is posted: ends it now, or when that can be. */
    void (*cancel)(struct worker *w, struct op *op, int status);
    /* It ends: gives back what it holds. */
    void (*release)(struct op *op);
    /* The owner's number of the lease that it is about. */
    uint64_t (*lease_number)(const struct op *op);
};

#endif
