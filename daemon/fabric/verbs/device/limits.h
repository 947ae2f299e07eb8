/* SPDX-License-Identifier: MIT */
/*
 * limits.h - what a device can, against what the settings ask. Pure functions.
 */
#ifndef RDMAD_FABRIC_VERBS_DEVICE_LIMITS_H
#define RDMAD_FABRIC_VERBS_DEVICE_LIMITS_H

#include "daemon/fabric/device.h"
#include <infiniband/verbs.h>
#include <stdbool.h>

/* Whether a device with these limits can serve these settings at all; else a sentence in why. */
bool limits_suffice(const struct ibv_device_attr *a, const struct verbs_settings *s,
                    char why[DEVICE_WHY]);

/* What limits_lower lowered. */
enum lowered {
    LOWERED_QUEUE_DEPTH = 1,
    LOWERED_RD_ATOMIC = 2,
    LOWERED_DEST_RD_ATOMIC = 4,
    LOWERED_MAX_MESSAGE = 8,
    LOWERED_INLINE = 16, /* open.c: found by trying */
    LOWERED_MTU = 32,
};
/* Lowers s to what the device and its port can; returns a set of enum lowered. */
unsigned limits_lower(const struct ibv_device_attr *a, const struct ibv_port_attr *port,
                      struct verbs_settings *s);
/* The largest MTU that the port has active and the settings allow. */
enum ibv_mtu limits_mtu(const struct ibv_port_attr *port, const struct verbs_settings *s);

#endif
