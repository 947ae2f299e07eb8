/* SPDX-License-Identifier: MIT */
/*
 * handshake.h - from a connected socket to one of which we know who is at the other end.
 *
 *   (begin) --> HEARS <--> QUEUED --> SHAKES --> secured, or the connection ends
 *                 ^                     |
 *                 +---------------------+
 *
 * HEARS: it waits for the other end. QUEUED: something has come, and others are before it. SHAKES:
 * a registration thread (base/offload.h) computes with it.
 *
 * A handshake costs private-key operations of ours, and strangers decide how many begin. So none is
 * done on the control thread: clients do not wait for one. One at a time is computed, and after it
 * twice its time is none, so strangers take a third of a CPU at most. Those that we have dialled
 * come first, then those that have answered what we said: who only begins handshakes does not hold
 * up one that is under way.
 */
#ifndef RDMAD_PEER_CONTROL_HANDSHAKE_H
#define RDMAD_PEER_CONTROL_HANDSHAKE_H

#include "daemon/peer/control/record.h"

void handshakes_start(struct peers *ps);
void handshakes_stop(struct peers *ps); /* one may still be on its thread */

/* p is connected, and this node has an identity. p->peers->ops->open is called when the other end
 * has proven who it is; if it does not, p ends, and the audit log says why. */
void handshake_begin(struct peer *p);
void handshake_heard(struct peer *p); /* something has come */
/* Nothing more will come. What has come is heard if it may say why. */
void handshake_ended(struct peer *p, const struct error *why);
void handshake_forget(struct peer *p);
/* Whether the other end has answered something that cost us a step. */
bool handshake_has_reply(const struct peer *p);

#endif
