/* SPDX-License-Identifier: MIT */
/*
 * facts.h - what ibv_devinfo -v tells of a device and its ports, as names and values.
 */
#ifndef RDMAD_FABRIC_VERBS_DEVICE_FACTS_H
#define RDMAD_FABRIC_VERBS_DEVICE_FACTS_H

#include "daemon/fabric/device.h"
#include <infiniband/verbs.h>
#include <stdbool.h>

/* What ibv_devinfo -v tells of a device and of its ports. False: no memory. */
bool facts_of_device(struct device_view *view, struct ibv_context *context,
                     const struct ibv_device_attr_ex *attr);
bool facts_of_port(struct device_view *view, unsigned number, const struct ibv_port_attr *attr);
const char *port_state_name(enum ibv_port_state state);
void port_speed_text(const struct ibv_port_attr *attr, char *out, size_t size);
unsigned mtu_bytes(enum ibv_mtu mtu); /* 0 for what is none */

#endif
