/* SPDX-License-Identifier: MIT */
/*
 * kind.h - what some kinds of ops do otherwise than a READ or a WRITE.
 *
 * The engine moves bytes to and from a lease. What a NOTIFY, NOTIFIED, SEND or RECV does besides is
 * above it, in notify/ and channel/, and is called through this table: one for each opcode, NULL
 * for those that do nothing else (turn/kinds.c). A member may be NULL, too: there the op does what
 * a READ does.
 */
#ifndef RDMAD_OP_ENGINE_KIND_H
#define RDMAD_OP_ENGINE_KIND_H

#include <stdbool.h>
#include <stdint.h>

struct op;
struct op_lane;
struct op_request;
struct op_ring;
struct op_session;
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

    /* For ops with one more part behind their bytes (OP_TODO_LAST). One posts it, with the result
     * of fabric.post; the other says whether it has to wait for parts under way. Both or neither.
     */
    int (*post_last)(struct worker *w, struct op *op);
    bool (*last_must_wait)(const struct op *op);
    /* That part failed, or came back from a lost link. */
    void (*last_failed)(struct worker *w, struct op *op);

    /* Instead of taking back its parts from the fabric: ends the op now, or as soon as it can end.
     */
    void (*cancel)(struct worker *w, struct op *op, int status);
    /* The op ends: gives back what it holds. */
    void (*release)(struct op *op);
    /* The number of the lease that the op is about, as its owner knows it. */
    uint64_t (*lease_number)(const struct op *op);
    /* The lane that it goes by, if that is not its lease's; NULL: it goes by none. */
    struct op_lane *(*lane)(const struct op *op);
    /* The same of an sqe that is no op, or not yet. */
    struct op_lane *(*lane_named)(const struct op_session *s, const struct rdmad_sqe *sqe);
};

#endif
