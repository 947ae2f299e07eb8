/* SPDX-License-Identifier: MIT */
/*
 * choice.h - which device, port and GID are used, and why not the others: a pure function of what
 * `rdmactl device show` prints, the settings and the listen address.
 */
#ifndef RDMAD_FABRIC_VERBS_DEVICE_CHOICE_H
#define RDMAD_FABRIC_VERBS_DEVICE_CHOICE_H

#include "daemon/fabric/device.h"

/* GIDs of the addresses that listen_host stands for; none when it is a wildcard or loopback, which
 * say nothing about where data may go. */
struct listen_gids {
    uint8_t raw[FABRIC_LISTEN_MAX][16];
    unsigned count;
};

struct wish {
    const struct verbs_settings *settings;
    struct listen_gids listen;
};

/* Decides: sorts the devices by name, fills in usable, chosen, rank and why of devices, ports and
 * GIDs, and the list's chosen and why. Everything else is input. A device or port whose why is
 * already set is not used, for that reason. Among GIDs that are equally good, that of the first
 * device, port and index is chosen. */
void devices_choose(struct device_list *list, const struct wish *wish);

/* The port, or the port's GID, that is chosen; NULL: none is. */
const struct device_port *devices_chosen_port(const struct device_list *list);
const struct device_gid *port_chosen_gid(const struct device_port *port);

#endif
