/* SPDX-License-Identifier: MIT */
/*
 * join.h - nodes that join the cluster, or renew their certificates, where the CA is.
 *
 *   (handshake) --> ASKING --> ANSWERING --> TELLING --> closed
 *                      |           |             |
 *                      +-----------+-------------+--> closed, when its time is over
 *
 * They come to the daemon's port and agree on another protocol in the handshake (ALPN
 * rdmad-join/1). From then on the connection is no peer's: there is one request and one reply
 * (pki/join_server.h). ANSWERING: a registration thread signs and writes files. A connection that
 * ends then keeps its place until that is done, and what was signed or refused is audited.
 *
 * Who joins has no certificate yet, so everybody can come. There are JOIN_PLACES at a time: half
 * for strangers, half for nodes that have shown a good certificate. Of its half, one source has at
 * most half of what is free, and JOIN_PATIENCE_NS for all of it; one request is answered at a time.
 * A source that was refused JOIN_REFUSALS times within JOIN_WINDOW_NS is not heard until that is
 * over. A stranger's source is his address, a node's is its name: who else is at its address,
 * without its key, takes nothing from it. What fails for the CA's own reasons does not count.
 */
#ifndef RDMAD_PEER_CONNECT_JOIN_H
#define RDMAD_PEER_CONNECT_JOIN_H

#include "daemon/peer/control/record.h"

#define JOIN_PLACES 16u
#define JOIN_REFUSALS 8u
#define JOIN_WINDOW_NS (60 * NSEC_PER_SEC)
#define JOIN_PATIENCE_NS (15 * NSEC_PER_SEC)

int joins_new(struct peers *ps, struct error *err);
void joins_free(struct peers *ps); /* an answer may still be on its thread, and is audited */

/* p has shaken hands as one that joins: its connection goes over to here, and p ends. */
void join_take(struct peer *p);

#endif
