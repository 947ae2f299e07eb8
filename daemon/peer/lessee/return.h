/* SPDX-License-Identifier: MIT */
/*
 * return.h - leases of a peer that was lost, and may come back.
 *
 * The happy path: the connection to a peer is lost; the claims of sessions that outlive their own
 * daemon are AWAY instead of ended, and ops on them wait in the data plane (return_claim); the peer
 * is dialled again after a pause, then again after longer ones (return_begin); when it is up each
 * claim gets its lane back and asks for its lease by the same URI (return_ask_all); the owner has
 * resumed its session and lease meanwhile, or has never gone; the claim is LIVE with a new number
 * and key, and ops go on (return_take). What was under way at the loss has ended with what is known
 * of it; none is repeated but what was not begun, and READs.
 *
 * It ends as a lost lease does today: after peer.return_ms, by an answer that no time changes, or
 * with the lease's own deadline.
 *
 * A peer that leaves in order says so, and gets the time to be left with nothing under way
 * (return_rest): then no op has an unknown outcome.
 */
#ifndef RDMAD_PEER_LESSEE_RETURN_H
#define RDMAD_PEER_LESSEE_RETURN_H

#include "daemon/peer/lessee/claim.h"

void return_init(struct peer *p);
void return_forget(struct peer *p); /* before it is freed */

/* p is lost for that reason. Whether the claim, whose handle is the data plane's, is AWAY now; else
 * it has to end. */
bool return_claim(struct claim *c, const struct error *why);
/* After return_claim was called for all: dials p again when it is time, if any claim waits for
 * that. */
void return_begin(struct peer *p);
/* p is UP: asks for all leases that are AWAY. */
void return_ask_all(struct peer *p);
/* The answer to a claim that is ASKED_AGAIN. */
void return_take(struct claim *c, const struct peer_attach_rep *m);
/* p says that it leaves. True: claims wait for its return, so what is under way may end first; then
 * the connection ends for that reason. False: nothing has to be waited for. */
bool return_rest(struct peer *p, const struct error *why);

#endif
