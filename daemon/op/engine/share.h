/* SPDX-License-Identifier: MIT */
/*
 * share.h - which of a session's ops on a route posts next, a part at a time.
 *
 * The ops that have begun, of which a part was posted, and those that have not share the session's
 * part of the route in equal bytes. Those that have not begin in the order in which they came, so a
 * small op waits for what came before it to begin, never for it to end. Of those that have begun
 * the first SHARE_TURNS take turns, the others wait until one of these has nothing left to post. If
 * all took turns, the first of a thousand equal ops would end when nearly all had been moved, and
 * with a rate all might be past their deadlines by then. Where all that can be queued is moved in a
 * moment (route_is_quick) they do take turns: equal parts of ops on one lease meet in the cache.
 *
 * Inline, because every op that queues passes here.
 */
#ifndef RDMAD_OP_ENGINE_SHARE_H
#define RDMAD_OP_ENGINE_SHARE_H

#include "daemon/op/engine/op.h"

#define SHARE_TURNS 8u

static inline bool share_is_idle(const struct op_share *share) {
    return list_empty(&share->fresh) && list_empty(&share->begun);
}

/* Of a share that is not idle. It stays where it is. */
static inline struct op *share_next(struct op_share *share) {
    bool fresh =
        list_empty(&share->begun) || (share->fresh_credit > 0 && !list_empty(&share->fresh));
    return list_entry(list_first(fresh ? &share->fresh : &share->begun), struct op, node);
}

/* The next one has posted what costs so much, and leaves the queue. */
static inline void share_served(struct op_share *share, struct op *op, uint64_t cost) {
    list_remove(&op->node);
    if (op->begun) /* those that have not begun save up one part of it, no more */
        share->fresh_credit = (share->fresh_credit > 0 ? 0 : share->fresh_credit) + (int64_t)cost;
    else if (list_empty(&share->begun))
        share->fresh_credit = 0;
    else
        share->fresh_credit -= (int64_t)cost;
}

/* Behind the others that take turns. */
static inline void share_turn(struct op_share *share, struct op *op) {
    struct list *at = share->begun.next;
    for (unsigned before = 1; before < SHARE_TURNS && at != &share->begun; before++)
        at = at->next;
    list_append(at, &op->node);
}

/* The op has something to post. all: all that have begun take turns. */
static inline void share_add(struct op_share *share, struct op *op, bool all) {
    if (!op->posted && list_empty(&op->again)) {
        list_append(&share->fresh, &op->node);
    } else if (op->begun && !all) {
        share_turn(share, op);
    } else {
        op->begun = true;
        list_append(&share->begun, &op->node);
    }
}

#endif
