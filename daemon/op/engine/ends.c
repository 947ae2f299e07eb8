/* SPDX-License-Identifier: MIT */
/*
 * ends.c - whatever ends many ops ends only some of them in a turn.
 *
 * A session may have 65536 ops that wait, and so may one pool, lease or channel of it. When such a
 * thing goes, its ops are doomed: moved to another list at once, and canceled a few a turn, so that
 * no other session waits for more than those. Until the last is gone the thing stays, and the call
 * that asked for its end is not answered.
 *
 * How many in a turn is per_turn.h's to say, so no session's end waits for those of the others.
 *
 * Nothing new begins on a ring that is ending, so what is doomed is all that it has. Doomed ops do
 * not send or receive any more (op_ending), so to everybody else they have all ended at once.
 */
#include "daemon/op/engine/ends.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/worker.h"
#include <assert.h>

static const struct per_turn_most most_ends = {.session = 256, .all = 1024, .last = 32};

bool ends_may(struct op_session *s) {
    struct worker *w = s->worker;
    bool may = per_turn_take(&s->ends, &w->ends, w->turns, &most_ends);
    w->ends_left |= !may;
    return may;
}

static struct list *home_of(const struct op *op) {
    if (!op->ring)
        return &op->session->own;
    return op->charged ? &op->ring->ops : &op->ring->waits;
}

/* Each goes back to its own list first, because it may not end at once. */
static bool cancel_doomed(struct op_session *s, struct list *doomed, int status) {
    for (struct list *pos; (pos = list_first(doomed));) {
        struct op *op = list_entry(pos, struct op, home_node);
        if (!ends_may(s))
            return false;
        list_remove(pos);
        list_append(home_of(op), pos);
        op_cancel(s->worker, op, status);
    }
    return true;
}

void ends_doom_ring(struct op_ring *r) {
    r->ending = true;
    list_splice(&r->doomed, &r->ops);
    list_splice(&r->doomed, &r->waits);
}

bool ends_ring(struct op_ring *r, int status) {
    assert(r->ending);
    return cancel_doomed(r->session, &r->doomed, status) && !r->inflight;
}

void ends_doom_session(struct op_session *s) {
    list_splice(&s->doomed, &s->own);
    list_for_each (pos, &s->every_ring)
        ends_doom_ring(list_entry(pos, struct op_ring, session_node));
}

bool ends_session(struct op_session *s, int status) {
    bool all = cancel_doomed(s, &s->doomed, status);
    list_for_each (pos, &s->every_ring)
        all &= cancel_doomed(s, &list_entry(pos, struct op_ring, session_node)->doomed, status);
    return all && !s->inflight;
}

bool ends_pool(struct op_session *s, struct op_pool *pool, int status) {
    assert(pool->ending);
    for (struct list *pos; (pos = list_first(&pool->doomed));) {
        if (!ends_may(s))
            return false;
        list_remove(pos);
        list_append(&pool->waits, pos);
        op_cancel(s->worker, list_entry(pos, struct op, holds_node), status);
    }
    return !pool->inflight;
}
