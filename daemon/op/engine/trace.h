/* SPDX-License-Identifier: MIT */
/*
 * trace.h - a worker's part of a trace: which ops are of it, and what is put into its ring.
 *
 * A worker has a list of those who trace, which is NULL as long as nobody does: that is all that an
 * op looks at then. While somebody does, an op that is wanted becomes a note as it ends. How long
 * it took is known when its completion was published (tally.h), so notes are settled at the same
 * moments: put into the ring, or left out because the op was too fast. Nothing here allocates,
 * waits, or points to what may be freed.
 */
#ifndef RDMAD_OP_ENGINE_TRACE_H
#define RDMAD_OP_ENGINE_TRACE_H

#include "daemon/op/engine/trace_ring.h"
#include "daemon/op/engine/worker.h"

#define TRACE_NOTES 64u

struct op_trace {
    struct op_trace *next; /* in worker->traces */
    struct worker *worker;
    struct mail begin_mail, end_mail;
    struct plane_trace_filter filter;
    unsigned count; /* of notes; their span_ns is when the op was taken */
    struct plane_traced notes[TRACE_NOTES];
    struct trace_ring ring;
};

static inline bool trace_is_on(const struct worker *w) {
#ifdef RDMAD_NO_TRACE /* for tests/probes.py, which counts what this costs */
    (void)w;
    return false;
#else
    return __builtin_expect(w->traces != NULL, 0);
#endif
}

void trace_add(struct worker *w, struct op_trace *t);
void trace_remove(struct worker *w, struct op_trace *t);

/* If trace_is_on: an op begins; it ends as result says, and still has all that it belongs to; an
 * sqe was answered that never became one. */
void trace_began(struct worker *w, const struct op *op, const struct rdmad_sqe *sqe);
void trace_ended(struct worker *w, const struct op *op, const struct op_result *result);
void trace_answered(struct worker *w, const struct op_session *s, const struct rdmad_sqe *sqe,
                    const struct op_request *rq, const struct op_result *result);

/* What was noted was published at that time. */
void trace_settle(struct worker *w, uint64_t now_ns);

#endif
