/* SPDX-License-Identifier: MIT */
/*
 * ends.h - whatever ends many ops ends only some of them in a turn.
 */
#ifndef RDMAD_OP_ENGINE_ENDS_H
#define RDMAD_OP_ENGINE_ENDS_H

#include "daemon/op/engine/worker.h"

/* Whether the session may end one more op in this turn. If not, the next turn follows at once. */
bool ends_may(struct op_session *s);
/* ends_doom_* puts aside all ops that the ring, session or pool has. Then the other function is
 * called once a turn until it returns true: nothing is left. */
void ends_doom_ring(struct op_ring *r);
bool ends_ring(struct op_ring *r, int status);
void ends_doom_session(struct op_session *s);
bool ends_session(struct op_session *s, int status);
void ends_doom_pool(struct op_session *s, struct op_pool *pool);
bool ends_pool(struct op_session *s, struct op_pool *pool, int status);
/* Of a lease that has a reason: nothing more is posted of its ops from now on. They end with the
 * reason; if it lands, those of which every byte is posted do when they are answered, or at its
 * deadline. */
void ends_doom_lease(struct op_lease *lease);
bool ends_lease(struct op_session *s, struct op_lease *lease);

#endif
