/* SPDX-License-Identifier: MIT */
/*
 * view.c - peers and their links, for show.
 */
#include "daemon/peer/control/record.h"
#include "daemon/peer/lane/lane.h"
#include "daemon/peer/peer.h"
#include "daemon/peer/tables.h"

unsigned peers_count(const struct peers *ps) {
    return ps->count;
}

unsigned peers_fallen_back(const struct peers *ps) {
    unsigned n = 0;
    list_for_each (node, &ps->all) {
        const struct peer *p = list_entry(node, struct peer, node);
        n += p->stage == PEER_UP && p->fabric > 0;
    }
    return n;
}

void peers_view(struct peers *ps, void (*each)(void *arg, const struct peer_view *v), void *arg) {
    list_for_each (node, &ps->all) {
        struct peer *p = list_entry(node, struct peer, node);
        struct peer_view v = {
            .id = p->id,
            .direction = p->outgoing ? "out" : "in",
            .state = p->stage == PEER_UP     ? "up"
                     : p->stage == PEER_LOST ? "closing"
                                             : "connecting",
            .address = p->address,
            .node = p->name,
            .fingerprint = p->secured ? p->certificate.fingerprint : NULL,
            .not_after = p->certificate.until,
            .fabric = p->stage == PEER_UP ? peer_fabric(p)->name : "",
            .fabric_why = p->fabric_why,
            .protocol = p->version,
            .attachments = p->outgoing ? tables_of(p)->claims.used : tables_of(p)->grants.used,
            .channels = tables_of(p)->chans,
            .since_ns = p->since_ns,
        };
        each(arg, &v);
    }
}

void links_view(struct peers *ps, void (*each)(void *arg, const struct link_view *v), void *arg) {
    list_for_each (node, &ps->all)
        lanes_each(list_entry(node, struct peer, node), each, arg);
}
