/* SPDX-License-Identifier: MIT */
/*
 * tables.h - what goes over a peer's control connection: a table for each storey that uses it.
 *
 * The connection is embedded, and knows nothing of this. Only its own storey looks into a table.
 * peers.c makes them empty, and they must be empty when the peer is freed.
 */
#ifndef RDMAD_PEER_TABLES_H
#define RDMAD_PEER_TABLES_H

#include "daemon/peer/control/record.h"

/* lessee/return.c. */
struct return_state {
    struct timer again;
    uint64_t pause_ns;
    bool resting;     /* it leaves; */
    struct error why; /* of what its connection ends then */
    bool unwanted;    /* it has sent us away: it is not dialled again for leases */
};

struct peer_tables {
    struct peer peer;
    struct list adders; /* peers.c: calls that wait for hello only (peer_add) */

    /* lane/ */
    struct list lanes; /* outgoing: struct lane */
    unsigned offers;   /* incoming: of links, being made */
    uint64_t links;    /* incoming: offered, and not said to be gone */
    unsigned forgets;  /* incoming: links that the data plane is told to forget */
    uint64_t
        link_bytes; /* incoming: what all of them hold at a device, as it counts for the peer */

    struct slots claims; /* lessee/; outgoing: struct claim */
    struct return_state returning;
    struct slots grants; /* owner/; incoming: struct grant */

    /* channel/: struct chan. Outgoing: those for which we send by this connection. Incoming: those
     * for which the other daemon does. */
    struct list chans_out, chans_in;
    unsigned chans; /* in both */

    /* names/ */
    struct list watches; /* incoming: struct peer_watch */
    unsigned nwatches;
};

static inline struct peer_tables *tables_of(struct peer *p) {
    return container_of(p, struct peer_tables, peer);
}

#endif
