/* SPDX-License-Identifier: MIT */
/*
 * rings.h - whether a ring is looked at, and what is published on it.
 */
#ifndef RDMAD_OP_ENGINE_RINGS_H
#define RDMAD_OP_ENGINE_RINGS_H

#include "daemon/op/engine/worker.h"

/* It is flushed at the end of the turn, or between two slices of it. */
static inline void rings_dirty(struct worker *w, struct op_ring *r) {
    if (list_empty(&r->dirty_node))
        list_append(&w->dirty, &r->dirty_node);
}
void rings_flush(struct worker *w);
void rings_flush_early(struct worker *w); /* in mid-turn: no wakeup that is owed is tried */
/* One of them, now. Returns whether its client was woken. */
bool ring_publish(const struct op_ring *r, bool owed);
/* When to flush again though nothing else happens: UINT64_MAX, or a client is still to be woken. */
uint64_t rings_next_ns(const struct worker *w);
/* Which is in no list: it is polled from now on, or from its session's resume. */
void rings_heat(struct op_ring *r);
void rings_wake(struct worker *w, struct op_ring *r); /* a parked ring is polled again */
bool rings_park(struct worker *w, struct op_ring *r); /* false: it has work */
/* All that are polled, and whose user is not aside, until one has work: false. */
bool rings_park_all(struct worker *w);
/* There was nothing on it: parked, if that lasts longer than quiet_ns already. */
void rings_rest(struct worker *w, struct op_ring *r);
/* Likewise: whether it is still from now on. */
bool rings_still(const struct worker *w, struct op_ring *r);
void rings_stir(struct op_ring *r); /* an op of it has ended: it is still no more */
/* It is in no list, and nothing but a heat makes it polled again. */
void rings_forget(struct op_ring *r);
/* Whether the worker has something to do: an sqe with room for its answer, or a ring that is
 * broken. */
bool rings_has_work(struct op_ring *r);
static inline bool rings_are_polled(const struct op_session *s) {
    return !list_empty(&s->hot) || !list_empty(&s->quiet);
}
void rings_throttle(struct op_ring *r); /* until an op of its session ends: */
void rings_unthrottle(struct worker *w, struct op_session *s);
/* Nothing is taken from the session's rings until the resume. What was taken goes on. */
void rings_pause(struct op_session *s);
void rings_resume(struct worker *w, struct op_session *s);
/* One reservation in the cq becomes a cqe, or is given back. */
void ring_tell(struct worker *w, struct op_ring *r, uint64_t user_data, uint8_t opcode,
               const struct op_result *result);
void ring_tell_nothing(struct worker *w, struct op_ring *r);

#endif
