/* SPDX-License-Identifier: MIT */
/*
 * route.c - a way for bytes, and whether it takes more just now.
 *
 * A route is in worker->runnable while an op waits on it and its link takes posts. One whose link
 * said AGAIN waits in worker->full instead, until an op on it completes or its fabric moved at all:
 * what made it full need not have been our ops.
 */
#include "daemon/op/worker.h"

void route_init(struct op_route *route, struct seat *seat, struct fabric_link *link) {
    *route = (struct op_route){.seat = seat, .link = link};
    list_init(&route->run);
    list_init(&route->node);
}

void route_ready(struct worker *w, struct op_route *route) {
    if (route->full) {
        route->full = false;
        list_remove(&route->node);
    }
    if (!list_empty(&route->run) && list_empty(&route->node))
        list_append(&w->runnable, &route->node);
}

void route_full(struct worker *w, struct op_route *route) {
    route->full = true;
    list_remove(&route->node);
    list_append(&w->full, &route->node);
}

void routes_retry(struct worker *w) {
    for (struct list *pos; (pos = list_first(&w->full));)
        route_ready(w, list_entry(pos, struct op_route, node));
}

void route_lose(struct worker *w, struct op_route *route) {
    route->lost = true;
    list_remove(&route->node);
    for (struct list *pos; (pos = list_first(&route->run));)
        op_cancel(w, list_entry(pos, struct op, node), RDMAD_E_PEER_LOST);
}
