/* SPDX-License-Identifier: MIT */
/*
 * turn.h - how much of what peers say is heard in one turn of the loop.
 */
#ifndef RDMAD_PEER_CONTROL_TURN_H
#define RDMAD_PEER_CONTROL_TURN_H

#include "daemon/peer/control/record.h"

int turn_start(struct peers *ps, struct error *err);
void turn_stop(struct peers *ps);
void turn_request(struct peers *ps);                      /* there is something for the next turn */
void turn_heard(struct peer *p);                          /* it has sent something */
void turn_ended(struct peer *p, const struct error *why); /* nothing more will come */
void turn_forget(struct peer *p);

#endif
