/* SPDX-License-Identifier: MIT */
/*
 * submit.h - ops start, and their parts go to the fabric.
 */
#ifndef RDMAD_OP_ENGINE_SUBMIT_H
#define RDMAD_OP_ENGINE_SUBMIT_H

#include "daemon/op/engine/worker.h"

/* An admitted sqe becomes an op. worker_can_start must have said yes. */
void op_start(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq);
/* The op, which is in no queue, starts as its kind does. */
void op_begin(struct worker *w, struct op *op);
/* Starts an op of the daemon's own for a session, through a lease that only the caller knows. Like
 * any op it waits while the lease has no key, and goes on over a new link of the lane. pool and
 * lease count it. Instead of a cqe, ended is called: then nothing counts the op any more, but its
 * memory is still there. NULL: out of memory. */
struct op *op_start_own(struct worker *w, struct op_session *s, struct op_pool *pool,
                        struct op_lease *lease, const struct rdmad_sqe *what, uint64_t deadline_ns,
                        void (*ended)(struct worker *w, struct op *op, int status, uint8_t outcome),
                        void *arg);
/* Posts parts on every route that takes them; returns how many. */
unsigned submit_run(struct worker *w);
/* The same before the channels have their turn, for routes to which those left no room. */
unsigned submit_overtaken(struct worker *w);

#endif
