/* SPDX-License-Identifier: MIT */
/*
 * tally.h - how long ops took, by kind and route, by session and by lane, and how they failed.
 *
 * An op's time is from the turn in which its sqe was taken to the end of the turn that published
 * its completion; or from and to the moments between slices of long ops in which that was done
 * (prompt.h). All are known anyway: a turn begins with the time. So what ends in a turn is only
 * noted, and is added up when the next turn begins, or before the worker sleeps. What began
 * together, is alike and ended together is one note. Only ops that were done count here; those that
 * were not are counted by their status.
 */
#ifndef RDMAD_OP_ENGINE_TALLY_H
#define RDMAD_OP_ENGINE_TALLY_H

#include "daemon/op/engine/worker.h"

/* An op with a ring has ended as result says. */
void tally_op(struct worker *w, const struct op *op, const struct op_result *result);
/* An sqe was refused. */
void tally_refused(struct worker *w, struct op_session *s, const struct rdmad_sqe *sqe, int status,
                   uint64_t lease_id);
/* For plane_session_failures, on any thread. */
unsigned tally_failures_read(const struct op_session *s, struct plane_failure out[PLANE_FAILURES]);
/* For plane_session_hear_failures, on the control thread. */
void tally_hear_failures(struct op_session *s);

/* Adds up what was noted: it was published at that time. */
void tally_settle(struct worker *w, uint64_t now_ns);
/* The same, before something that notes point to is freed. */
static inline void tally_settle_now(struct worker *w) {
    if (w->latency.count)
        tally_settle(w, w->now_ns);
}

#endif
