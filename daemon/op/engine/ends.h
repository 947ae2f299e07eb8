/* SPDX-License-Identifier: MIT */
/*
 * ends.h - what ends many ops ends some of them a turn.
 */
#ifndef RDMAD_OP_ENGINE_ENDS_H
#define RDMAD_OP_ENGINE_ENDS_H

#include "daemon/op/engine/worker.h"

/* Whether the session may end one more op in this turn; if not there will be another one at once.
 */
bool ends_may(struct op_session *s);
/* What is doomed is all that it has. Then, once a turn until it is true: nothing is left. */
void ends_doom_ring(struct op_ring *r);
bool ends_ring(struct op_ring *r, int status);
void ends_doom_session(struct op_session *s);
bool ends_session(struct op_session *s, int status);
bool ends_pool(struct op_session *s, struct op_pool *pool, int status);

#endif
