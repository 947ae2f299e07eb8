/* SPDX-License-Identifier: MIT */
/*
 * health.h - what the kernel knows of a link's connection.
 */
#ifndef RDMAD_FABRIC_TCP_HEALTH_H
#define RDMAD_FABRIC_TCP_HEALTH_H

#include "daemon/fabric/fabric.h"

bool tcp_health(struct fabric_link *l, struct fabric_health *out);

#endif
