/* SPDX-License-Identifier: MIT */
/*
 * route.c - a way for bytes, and whether it takes more just now.
 *
 * A route is in worker->runnable exactly while an op waits on it and its link takes posts. A link
 * that said AGAIN leaves the list and comes back with the next completion.
 */
#include "daemon/op/worker.h"

void route_init(struct op_route *route, struct seat *seat, struct fabric_link *link) {
    *route = (struct op_route){.seat = seat, .link = link};
    list_init(&route->run);
    list_init(&route->node);
}

void route_ready(struct worker *w, struct op_route *route) {
    route->full = false;
    if (!list_empty(&route->run) && list_empty(&route->node))
        list_append(&w->runnable, &route->node);
}

void route_full(struct op_route *route) {
    route->full = true;
    list_remove(&route->node);
}

void route_lose(struct worker *w, struct op_route *route) {
    route->lost = true;
    list_remove(&route->node);
    for (struct list *pos; (pos = list_first(&route->run));)
        op_cancel(w, list_entry(pos, struct op, node), RDMAD_E_PEER_LOST);
}
