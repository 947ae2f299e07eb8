/* SPDX-License-Identifier: MIT */
/*
 * route.c - the way that bytes go: whether it is there, and whether it takes more just now.
 *
 * A route is in worker->runnable while an op waits on it and its link takes posts. One whose link
 * said AGAIN waits in the list of full ones of its fabric instead, until an op on it completes or
 * that fabric moves anything: it may be full for something else than our ops.
 *
 * Who is next on a route: a user (its flow), then one of that user's sessions (its share), then one
 * of that session's ops. Flows are kept in the order of their vtimes, as start-time fair queueing
 * has it: a flow's vtime grows by what it posted, and by what the user owes (flow_pay), divided by
 * the user's weight; one that had nothing to post begins where the one that was served last began.
 * So somebody with a thousand sessions and large ops gets as much of a route as somebody with a
 * single op. The shares of a flow have equal parts of it in bytes, by deficit round robin; which of
 * its ops is next says share.h. A flow or a share whose ops went away meanwhile stays in its queue
 * until its turn comes.
 *
 * A route that is down has no ops in its queue. They are in the held lists of their leases, because
 * a lease needs a key before its ops can go on.
 */
#include "daemon/op/engine/route.h"
#include "daemon/base/probe.h"
#include "daemon/op/engine/share.h"
#include "daemon/op/engine/user.h"
#include <assert.h>
#include <stdlib.h>

void route_init(struct op_route *route, struct op_fabric *fabric) {
    *route = (struct op_route){
        .fabric = fabric, .copied = !fabric->ops->memory_add, .name = fabric->ops->name};
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

static void share_down(struct op_share *share) {
    while (!share_is_idle(share))
        op_hold(share_next(share));
}

void route_down(struct op_route *route) {
    route->up = route->full = false;
    list_remove(&route->node);
    for (struct list *turn; (turn = list_pop(&route->run));) {
        struct op_flow *flow = list_entry(turn, struct op_flow, turn);
        for (struct list *pos; (pos = list_pop(&flow->shares));)
            share_down(list_entry(pos, struct op_share, turn));
    }
}

/* ---- who shares it ----------------------------------------------------------------------- */

struct op_share *share_spare(void) {
    struct op_share *share = malloc(sizeof(*share));
    struct op_flow *flow = malloc(sizeof(*flow));
    if (!share || !flow) {
        free(share);
        free(flow);
        return NULL;
    }
    share->flow = flow;
    return share;
}

void share_spare_free(struct op_share *spare) {
    if (spare)
        free(spare->flow);
    free(spare);
}

static struct op_flow *flow_get(struct op_user *u, struct op_route *route, struct op_flow *spare) {
    list_for_each (pos, &u->flows) {
        struct op_flow *flow = list_entry(pos, struct op_flow, node);
        if (flow->route != route)
            continue;
        free(spare);
        flow->sessions++;
        return flow;
    }
    *spare = (struct op_flow){
        .route = route, .user = u, .sessions = 1, .vtime = route->vtime, .settled = u->beside};
    list_init(&spare->turn);
    list_init(&spare->shares);
    list_append(&u->flows, &spare->node);
    return spare;
}

static void flow_put(struct op_flow *flow) {
    assert(flow->sessions > 0);
    if (--flow->sessions)
        return;
    list_remove(&flow->node);
    list_remove(&flow->turn);
    free(flow);
}

struct op_share *share_get(struct op_session *s, struct op_route *route, struct op_share *spare) {
    list_for_each (pos, &s->shares) {
        struct op_share *share = list_entry(pos, struct op_share, node);
        if (share->flow->route != route)
            continue;
        share_spare_free(spare);
        share->leases++;
        return share;
    }
    *spare = (struct op_share){.flow = flow_get(s->user, route, spare->flow), .leases = 1};
    list_init(&spare->node);
    list_init(&spare->turn);
    list_init(&spare->fresh);
    list_init(&spare->begun);
    list_append(&s->shares, &spare->node);
    return spare;
}

void share_put(struct op_share *share) {
    assert(share->leases > 0);
    if (--share->leases)
        return;
    list_remove(&share->node);
    list_remove(&share->turn);
    flow_put(share->flow);
    free(share);
}

void share_route_gone(struct op_share *share) {
    assert(share_is_idle(share) && list_empty(&share->turn));
    share->flow->route = NULL;
}

/* ---- whose turn it is -------------------------------------------------------------------- */

/* Behind all that are served before it. */
static void flow_place(struct op_flow *flow) {
    struct list *run = &flow->route->run, *after = run->prev;
    const struct list *first = run->next;
    if (first != run && vtime_before(flow->vtime, list_entry(first, struct op_flow, turn)->vtime))
        after = run;
    while (after != run &&
           vtime_before(flow->vtime, list_entry(after, struct op_flow, turn)->vtime))
        after = after->prev;
    list_append(after->next, &flow->turn);
}

static void flow_join(struct op_flow *flow, struct op_share *share) {
    struct op_route *route = flow->route;
    list_append(&flow->shares, &share->turn);
    if (!list_empty(&flow->turn))
        return;
    flow_lift(flow);
    if (list_empty(&route->run))
        list_append(&route->run, &flow->turn);
    else
        flow_place(flow);
}

struct op_share *flow_next_share(struct op_flow *flow) {
    for (struct list *pos; (pos = list_first(&flow->shares));) {
        struct op_share *share = list_entry(pos, struct op_share, turn);
        if (share_is_idle(share)) {
            list_remove(pos);
        } else if (share->credit > 0) {
            return share;
        } else {
            share->credit += SHARE_QUANTUM;
            list_remove(pos);
            list_append(&flow->shares, pos);
        }
    }
    list_remove(&flow->turn);
    return NULL;
}

void flow_left(struct op_share *share) {
    struct op_flow *flow = share->flow;
    list_remove(&share->turn);
    if (list_empty(&flow->shares))
        list_remove(&flow->turn);
}

void flow_posted(struct op_flow *flow, struct op_share *share, uint64_t cost) {
    struct op_route *route = flow->route;
    share->credit -= (int64_t)cost;
    route->vtime = flow->vtime;
    flow->vtime += user_vtime_of(flow->user, cost);
    flow_pay(flow);
    struct list *next = flow->turn.next;
    if (next == &route->run ||
        !vtime_before(list_entry(next, struct op_flow, turn)->vtime, flow->vtime))
        return;
    list_remove(&flow->turn);
    flow_place(flow);
}

void op_hold(struct op *op) {
    assert(op->lease);
    list_remove(&op->node);
    list_append(&op->lease->held, &op->node);
    op->begun = false;
    probe_op_held(op, op->lease->lease_id);
}

void op_queue(struct worker *w, struct op *op) {
    struct op_route *route = op->route;
    if (!route->up || !op->lease->keyed) {
        op_hold(op);
        return;
    }
    struct op_share *share = op->lease->share;
    share_add(share, op, route_is_quick(route, share->flow->user));
    probe_op_queued(op, op->posted);
    if (list_empty(&share->turn))
        flow_join(share->flow, share);
    if (!route->full)
        route_ready(w, route);
}

void lease_unkey(struct op_lease *lease) {
    lease->keyed = false;
}

void lease_key(struct worker *w, struct op_lease *lease, const struct fabric_blob *key) {
    struct list held;
    lease->key = *key;
    lease->keys++;
    lease->keyed = true;
    list_init(&held);
    list_splice(&held, &lease->held);
    for (struct list *pos; (pos = list_pop(&held));)
        op_queue(w, list_entry(pos, struct op, node));
}
