/* SPDX-License-Identifier: MIT */
/*
 * ends.c - whatever ends many ops ends only some of them in a turn.
 *
 * A session may have 65536 ops that wait, and so may one pool, lease or channel of it; of a lease
 * at its owner all lessees' ops end with it, which may be many sessions'. When such a thing goes,
 * its ops are doomed: moved to another list at once, and canceled a few a turn, so that no other
 * session waits for more than those. Until the last is gone the thing stays, and the call that
 * asked for its end is not answered.
 *
 * A pool's RECVs have a list. Its transfers are looked for among all of its session's, some a turn,
 * from the first to the last, and each that was looked at goes to the end. Pools that go together
 * share one such walk, which begins anew with each.
 *
 * How many in a turn is per_turn.h's to say, so no session's end waits for those of the others.
 *
 * Nothing new begins on a ring that is ending, so what is doomed is all that it has. Doomed ops do
 * not send or receive any more (op_ending), and nothing more is posted of those of a lease that has
 * ended (submit.c), so to everybody else they have all ended at once.
 */
#include "daemon/op/engine/ends.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/life.h"
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

void ends_doom_pool(struct op_session *s, struct op_pool *pool) {
    pool->ending = true;
    list_splice(&pool->doomed, &pool->waits);
    if (!pool->inflight)
        return;
    s->looking = true;
    s->to_look_at = s->inflight - s->charged - s->waits;
    list_for_each (pos, &s->every_ring) {
        struct op_ring *r = list_entry(pos, struct op_ring, session_node);
        r->to_look_at = r->inflight - r->nwaits;
    }
}

/* False: the rest is for the next turn. */
static bool look_at(struct op_session *s, struct list *ops, uint32_t *to_look_at, int status) {
    for (struct list *pos; *to_look_at && (pos = list_first(ops)); --*to_look_at) {
        struct op *op = list_entry(pos, struct op, home_node);
        if (!ends_may(s))
            return false;
        list_remove(pos);
        list_append(ops, pos);
        if (op->pool && op->pool->ending)
            op_cancel(s->worker, op, status);
    }
    return true;
}

/* Once a turn, whichever of the pools asks. */
static void look_for_endings(struct op_session *s, int status) {
    if (!s->looking || s->looked_turn == s->worker->turns)
        return;
    bool all = look_at(s, &s->own, &s->to_look_at, status);
    list_for_each (pos, &s->every_ring) {
        struct op_ring *r = list_entry(pos, struct op_ring, session_node);
        all = all && look_at(s, &r->ops, &r->to_look_at, status);
    }
    s->looking = !all;
    s->looked_turn = all ? 0 : s->worker->turns;
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
    if (pool->inflight)
        look_for_endings(s, status);
    return !pool->inflight;
}

static bool has_more_to_post(const struct op *op) {
    return op->todo || op->posted < op->length || !list_empty(&op->again) || list_empty(&op->parts);
}

void ends_doom_lease(struct op_lease *lease) {
    assert(lease->reason);
    list_splice(&lease->doomed, &lease->ops);
}

bool ends_lease(struct op_session *s, struct op_lease *lease) {
    for (struct list *pos; (pos = list_first(&lease->doomed));) {
        struct op *op = list_entry(pos, struct op, holds_node);
        if (!ends_may(s))
            return false;
        list_remove(pos);
        list_append(&lease->ops, pos);
        if (lease->lands && !has_more_to_post(op))
            op_set_due(s->worker, op);
        else
            op_cancel(s->worker, op, lease->reason);
    }
    return !lease->inflight;
}
