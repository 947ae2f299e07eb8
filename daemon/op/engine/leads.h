/* SPDX-License-Identifier: MIT */
/*
 * leads.h - to which peer an op leads: the lane that it goes by, or would go by. For those who tell
 * of it; the op's way is route.h's.
 */
#ifndef RDMAD_OP_ENGINE_LEADS_H
#define RDMAD_OP_ENGINE_LEADS_H

#include "daemon/op/engine/worker.h"

/* NULL: it is local, or has nothing to do with a lease or a channel. */
struct op_lane *leads_op(const struct op *op);
/* Of an op that has no channel yet, or an sqe that becomes none: whatever else is wrong with it. */
struct op_lane *leads_sqe(const struct worker *w, const struct op_session *s,
                          const struct rdmad_sqe *sqe);

#endif
