/* SPDX-License-Identifier: MIT */
/*
 * route.h - the way that bytes go: the ops that wait for it, and whether it takes more.
 */
#ifndef RDMAD_OP_ENGINE_ROUTE_H
#define RDMAD_OP_ENGINE_ROUTE_H

#include "daemon/op/engine/worker.h"

void route_init(struct op_route *route, struct op_fabric *fabric);
void route_ready(struct worker *w, struct op_route *route); /* it may have something to post */
void route_full(struct op_route *route);                    /* its link said AGAIN */
/* It takes no posts any more; its ops wait with their leases. */
void route_down(struct op_route *route);
/* The fabric moved: its full links may take posts again. */
void routes_retry(struct worker *w, struct op_fabric *fabric);

/* Returns the session's share in the route, for one more lease: the one that is there (spare is
 * freed then), else spare. */
struct op_share *share_get(struct op_session *s, struct op_route *route, struct op_share *spare);
void share_put(struct op_share *share); /* one lease less */

/* The op has something to post: it queues on its route, or waits for its lease's key. */
void op_queue(struct worker *w, struct op *op);
void op_hold(struct op *op); /* it waits for the lease's next key */
void lease_unkey(struct op_lease *lease);
void lease_key(struct worker *w, struct op_lease *lease, const struct fabric_blob *key);

#endif
