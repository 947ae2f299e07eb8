/* SPDX-License-Identifier: MIT */
/*
 * copy.h - the way of an op through the local fabric: post, cancel and poll of struct fabric_ops.
 */
#ifndef RDMAD_FABRIC_LOCAL_COPY_H
#define RDMAD_FABRIC_LOCAL_COPY_H

#include "daemon/fabric/local/instance.h"

int local_post(struct fabric_link *link, struct fabric_op *op);
void local_cancel(struct fabric_op *op, int status);
unsigned local_poll(struct fabric *f);
/* Ends every op for which which(op, what) holds; they complete in the next poll. */
void local_stop(struct local *l, bool (*which)(const struct fabric_op *, const void *),
                const void *what, int status);

#endif
