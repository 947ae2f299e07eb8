/* SPDX-License-Identifier: MIT */
/*
 * lanes.h - a link's queue pairs, for the ways of connecting.
 */
#ifndef RDMAD_FABRIC_VERBS_LINK_LANES_H
#define RDMAD_FABRIC_VERBS_LINK_LANES_H

#include "daemon/fabric/verbs/link/link.h"

/* Makes as many lanes; bare ones for rdma_cm. */
int link_make_queues(struct verbs_link *l, unsigned lanes, bool bare, struct error *err);
/* Every lane's queue is in RTS; the offer was the target's. link_up comes with the next poll. */
void link_connected(struct verbs_link *l, uint64_t number, uint64_t max_message,
                    const struct inbox_place *inbox);

#endif
