/* SPDX-License-Identifier: MIT */
/*
 * ways.h - chooses the way of connecting; fabric_ops.offer.
 */
#ifndef RDMAD_FABRIC_VERBS_CONNECT_WAYS_H
#define RDMAD_FABRIC_VERBS_CONNECT_WAYS_H

#include "daemon/fabric/verbs/instance/instance.h"

void ways_device_came(struct verbs *v); /* chooses the way of links of ours */
int verbs_offer(struct fabric *f, uint64_t peer, bool secured, const struct fabric_blob *hello,
                struct fabric_blob *out, struct error *err);

#endif
