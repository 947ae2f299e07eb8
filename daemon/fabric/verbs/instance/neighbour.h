/* SPDX-License-Identifier: MIT */
/*
 * neighbour.h - whether the kernel knows the link-layer address behind a GID.
 */
#ifndef RDMAD_FABRIC_VERBS_INSTANCE_NEIGHBOUR_H
#define RDMAD_FABRIC_VERBS_INSTANCE_NEIGHBOUR_H

#include "daemon/fabric/verbs/instance/instance.h"

/* Whether the kernel knows the way to that GID. If not, it has begun to look for it. */
bool neighbour_known(const struct verbs *v, const uint8_t gid[16]);

#endif
