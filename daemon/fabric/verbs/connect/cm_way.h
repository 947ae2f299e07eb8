/* SPDX-License-Identifier: MIT */
/*
 * cm_way.h - connecting by rdma_cm.
 */
#ifndef RDMAD_FABRIC_VERBS_CONNECT_CM_WAY_H
#define RDMAD_FABRIC_VERBS_CONNECT_CM_WAY_H

#include "daemon/fabric/verbs/instance/instance.h"

extern const struct connect_way connect_cm;

/* Looks at the event channel, if there is one: after a sleep, and now and then. */
void cm_way_poll(struct verbs *v);
void cm_way_timers(struct verbs *v);
void cm_way_close(struct verbs *v); /* ends every call, because the device or the instance goes */

#endif
