/* SPDX-License-Identifier: MIT */
/*
 * unread.h - what sessions of ours ask of a peer waits until it is read, and is bounded.
 *
 * A question that is given up leaves its message where it is, so neither time-outs nor the number
 * of questions that wait bound what a peer that does not read just now has to read later. What is
 * beyond the connection's own bound ends it, for everybody. So questions have a quarter of that
 * bound, and are refused before; the rest is for what must be said. Of the quarter a user may have
 * half of what the others leave.
 */
#ifndef RDMAD_PEER_CONTROL_UNREAD_H
#define RDMAD_PEER_CONTROL_UNREAD_H

#include "daemon/peer/control/record.h"

/* 0: a session of that user may ask one more question of p; else RDMAD_E_BUSY. */
int unread_check(struct peer *p, struct user_id user, struct error *err);
/* Sends a question of a session of that user, and counts it. */
void unread_ask(struct peer *p, struct user_id user, const struct peer_msg *question);
void unread_forget(struct peer *p); /* nothing waits any more */

#endif
