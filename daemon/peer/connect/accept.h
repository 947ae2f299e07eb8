/* SPDX-License-Identifier: MIT */
/*
 * accept.h - connections that others open to us.
 */
#ifndef RDMAD_PEER_CONNECT_ACCEPT_H
#define RDMAD_PEER_CONNECT_ACCEPT_H

#include "daemon/peer/control/record.h"

/* Listens on config.listen. */
int accept_start(struct peers *ps, struct error *err);
void accept_stop(struct peers *ps);
void accept_next_turn(struct peers *ps);
void accept_timed_out(struct peer *p); /* it has not said hello in time, or is still WAITING */

#endif
