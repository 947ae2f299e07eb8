/* SPDX-License-Identifier: MIT */
/*
 * cm.h - what target.c asks of cm.c; a link's side of it is in link.h.
 *
 * A peer that says in its hello that it comes by rdma_cm is offered a port and a token. Its
 * connection request shows the token, once and in time; only then a target is made for it.
 */
#ifndef RDMAD_FABRIC_VERBS_CM_H
#define RDMAD_FABRIC_VERBS_CM_H

#include "daemon/fabric/verbs/verbs.h"

int cm_offer(struct vpeer *p, struct fabric_blob *out, struct error *err);
unsigned cm_offers(const struct vpeer *p); /* that are not taken up */
void cm_offers_drop(struct vpeer *p);
void cm_target_gone(struct target *t); /* ends its connection, if it came by rdma_cm */
void cm_timers(struct verbs *v);
void cm_close(struct verbs *v); /* also when the device goes; the last of all */

#endif
