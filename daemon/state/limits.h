/* SPDX-License-Identifier: MIT */
/*
 * limits.h - the limits that a configuration means, on this machine.
 */
#ifndef RDMAD_STATE_LIMITS_H
#define RDMAD_STATE_LIMITS_H

#include "daemon/config/config.h"
#include "daemon/state/quota.h"

void limits_of(const struct config *c, struct quota_limits *out);

#endif
