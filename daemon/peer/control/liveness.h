/* SPDX-License-Identifier: MIT */
/*
 * liveness.h - whether the other end is still there, and whether we still need it.
 */
#ifndef RDMAD_PEER_CONTROL_LIVENESS_H
#define RDMAD_PEER_CONTROL_LIVENESS_H

#include "daemon/peer/control/record.h"

/* How long accepted connections may take to say hello. */
#define PEER_HELLO_NS (3 * NSEC_PER_SEC)

/* For a new record: its hello is late after attach.timeout_ms, or after PEER_HELLO_NS if we
 * accepted the connection. */
void liveness_start(struct peer *p);
/* It has said hello, and we answer later, within peer.dead_ms. */
void liveness_wait(struct peer *p);
void liveness_stop(struct peer *p);
void liveness_update(struct peer *p); /* its needs, or its stage, have changed */

#endif
