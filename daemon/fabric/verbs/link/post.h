/* SPDX-License-Identifier: MIT */
/*
 * post.h - ops on their way to the device.
 */
#ifndef RDMAD_FABRIC_VERBS_LINK_POST_H
#define RDMAD_FABRIC_VERBS_LINK_POST_H

#include "daemon/fabric/verbs/link/link.h"

int verbs_post(struct fabric_link *link, struct fabric_op *op);
void verbs_cancel(struct fabric_op *op, int status);
void links_flush(struct verbs *v); /* posts the batches */

#endif
