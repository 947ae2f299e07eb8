/* SPDX-License-Identifier: MIT */
/*
 * route.h - the way that bytes go: the ops that wait for it, and whether it takes more.
 */
#ifndef RDMAD_OP_ENGINE_ROUTE_H
#define RDMAD_OP_ENGINE_ROUTE_H

#include "daemon/op/engine/share.h"
#include "daemon/op/engine/user.h"
#include "daemon/op/engine/worker.h"

void route_init(struct op_route *route, struct op_fabric *fabric);
void route_ready(struct worker *w, struct op_route *route); /* it may have something to post */
void route_full(struct op_route *route);                    /* its link said AGAIN */
/* It takes no posts any more; its ops wait with their leases. */
void route_down(struct op_route *route);
/* The fabric moved: its full links may take posts again. */
void routes_retry(struct worker *w, struct op_fabric *fabric);

#define SHARE_QUANTUM (64 * 1024) /* bytes that a session posts before another of the same user */
#define ROUTE_OP_COST 1024u       /* of a part, besides its bytes */

/* Memory for a share that share_get may need; any thread. NULL: there is none. */
struct op_share *share_spare(void);
void share_spare_free(struct op_share *spare); /* harmless with NULL */
/* Returns the session's share in the route, for one more lease: the one that is there (spare is
 * freed then), else spare. */
struct op_share *share_get(struct op_session *s, struct op_route *route, struct op_share *spare);
void share_put(struct op_share *share); /* one lease less */
/* Its route is about to be freed, and no op of it is left there: its flow is of none any more. */
void share_route_gone(struct op_share *share);
/* The share of the flow whose turn it is; NULL: none has anything to post, and the flow has left
 * the queue. */
struct op_share *flow_next_share(struct op_flow *flow);
static inline struct op_share *flow_share(struct op_flow *flow) {
    struct list *only = flow->shares.next;
    struct op_share *share = list_entry(only, struct op_share, turn);
    if (only->next != &flow->shares || only == &flow->shares || share_is_idle(share))
        return flow_next_share(flow);
    share->credit = SHARE_QUANTUM; /* it has nobody to share with */
    return share;
}
void flow_left(struct op_share *share); /* it has nothing to post any more */
/* It posted what costs so much, which counts for whose turn it is next. */
void flow_posted(struct op_flow *flow, struct op_share *share, uint64_t cost);
/* Nobody else has anything to post on the route: there is nothing to share. */
static inline bool flow_is_alone(const struct op_flow *flow) {
    return flow->route->run.next == flow->route->run.prev && flow->shares.next == flow->shares.prev;
}

/* All that anybody can queue is moved in a moment: which op ends first matters little. */
static inline bool route_is_quick(const struct op_route *route, const struct op_user *u) {
    return route->local && !u->limited;
}

/* The op has something to post: it queues on its route, or waits for its lease's key. */
void op_queue(struct worker *w, struct op *op);
void op_hold(struct op *op); /* it waits for the lease's next key */
void lease_unkey(struct op_lease *lease);
void lease_key(struct worker *w, struct op_lease *lease, const struct fabric_blob *key);

#endif
