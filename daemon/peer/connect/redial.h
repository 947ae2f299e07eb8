/* SPDX-License-Identifier: MIT */
/*
 * redial.h - whether what was lost with a connection to a peer may come back with the next one.
 */
#ifndef RDMAD_PEER_CONNECT_REDIAL_H
#define RDMAD_PEER_CONNECT_REDIAL_H

#include "daemon/peer/control/record.h"

/* Whether time can mend it: what is asked for may not be there yet, there is no room for the
 * moment, or no connection. */
bool redial_may_mend(int code);
/* Whether p, lost for that reason, is one to be dialled again. */
bool redial_is_worth(const struct peer *p, int why);

#endif
