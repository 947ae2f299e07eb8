/* SPDX-License-Identifier: MIT */
/*
 * limits.h - the limits that a configuration means, on this machine.
 */
#ifndef RDMAD_STATE_LIMITS_H
#define RDMAD_STATE_LIMITS_H

#include "daemon/config/config.h"
#include "daemon/state/quota.h"

/* What is configured as 0 is a share of the machine. Mappings are never more than the kernel gives
 * a process (vm.max_map_count), whatever is configured. */
void limits_of(const struct config *c, struct quota_limits *out);

/* 0, or a sentence about what is configured and cannot be had on this machine. */
int limits_check(const struct config *c, const struct quota_limits *limits, struct error *err);

#endif
