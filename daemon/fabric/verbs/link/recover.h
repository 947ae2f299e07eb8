/* SPDX-License-Identifier: MIT */
/*
 * recover.h - what was posted comes back, and a link whose ops fail ends.
 */
#ifndef RDMAD_FABRIC_VERBS_LINK_RECOVER_H
#define RDMAD_FABRIC_VERBS_LINK_RECOVER_H

#include "daemon/fabric/verbs/link/link.h"

void lane_ended(struct queue *q, struct wr_slot *slot, const struct ibv_wc *wc);
void lane_break(struct verbs_lane *lane); /* its ops come back flushed */
/* The link has failed. Of several calls the first one's why counts. */
void link_fail(struct verbs_link *l, const struct error *why);
/* Destroys the QPs, then gives back every op with status. */
void link_tear_down(struct verbs_link *l, int status);
void link_settle(struct verbs_link *l); /* tells what is to be told: it is up, it is lost */
void link_look(struct verbs_link *l);   /* for timers */

#endif
