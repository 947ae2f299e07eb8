/* SPDX-License-Identifier: MIT */
/*
 * route.c - the way that bytes go: whether it is there, and whether it takes more just now.
 *
 * A route is in worker->runnable while an op waits on it and its link takes posts. One whose link
 * said AGAIN waits in the list of full ones of its fabric instead, until an op on it completes or
 * that fabric moves anything: it may be full for something else than our ops.
 *
 * Sessions take turns on a route, and the ops of a session take turns within that: a session with a
 * thousand large ops gets no more of it than one with a single op. A share whose ops went away
 * meanwhile stays in the queue until its turn comes.
 *
 * A route that is down has no ops in its queue. They are in the held lists of their leases, because
 * a lease needs a key before its ops can go on.
 */
#include "daemon/op/engine/route.h"
#include <assert.h>
#include <stdlib.h>

void route_init(struct op_route *route, struct op_fabric *fabric) {
    *route = (struct op_route){.fabric = fabric};
    list_init(&route->run);
    list_init(&route->node);
}

void route_ready(struct worker *w, struct op_route *route) {
    if (!route->up)
        return;
    if (route->full) {
        route->full = false;
        list_remove(&route->node);
    }
    if (!list_empty(&route->run) && list_empty(&route->node))
        list_append(&w->runnable, &route->node);
}

void route_full(struct op_route *route) {
    assert(route->up && !route->full);
    route->full = true;
    list_remove(&route->node);
    list_append(&route->fabric->full, &route->node);
}

void routes_retry(struct worker *w, struct op_fabric *fabric) {
    for (struct list *pos; (pos = list_first(&fabric->full));)
        route_ready(w, list_entry(pos, struct op_route, node));
}

void route_down(struct op_route *route) {
    route->up = route->full = false;
    list_remove(&route->node);
    for (struct list *turn; (turn = list_pop(&route->run));) {
        struct op_share *share = list_entry(turn, struct op_share, turn);
        for (struct list *pos; (pos = list_first(&share->ops));)
            op_hold(list_entry(pos, struct op, node));
    }
}

struct op_share *share_get(struct op_session *s, struct op_route *route, struct op_share *spare) {
    list_for_each (pos, &s->shares) {
        struct op_share *share = list_entry(pos, struct op_share, node);
        if (share->route != route)
            continue;
        free(spare);
        share->leases++;
        return share;
    }
    *spare = (struct op_share){.route = route, .leases = 1};
    list_init(&spare->node);
    list_init(&spare->turn);
    list_init(&spare->ops);
    list_append(&s->shares, &spare->node);
    return spare;
}

void share_put(struct op_share *share) {
    assert(share->leases > 0);
    if (--share->leases)
        return;
    list_remove(&share->node);
    list_remove(&share->turn);
    free(share);
}

void op_hold(struct op *op) {
    assert(op->lease);
    list_remove(&op->node);
    list_append(&op->lease->held, &op->node);
}

void op_queue(struct worker *w, struct op *op) {
    struct op_route *route = op->route;
    if (!route->up || !op->lease->keyed) {
        op_hold(op);
        return;
    }
    struct op_share *share = op->lease->share;
    list_append(&share->ops, &op->node);
    if (list_empty(&share->turn))
        list_append(&route->run, &share->turn);
    if (!route->full)
        route_ready(w, route);
}

void lease_unkey(struct op_lease *lease) {
    lease->keyed = false;
}

void lease_key(struct worker *w, struct op_lease *lease, const struct fabric_blob *key) {
    struct list held;
    lease->key = *key;
    lease->keyed = true;
    list_init(&held);
    list_splice(&held, &lease->held);
    for (struct list *pos; (pos = list_pop(&held));)
        op_queue(w, list_entry(pos, struct op, node));
}
