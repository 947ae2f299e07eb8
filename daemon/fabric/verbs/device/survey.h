/* SPDX-License-Identifier: MIT */
/*
 * survey.h - looking at devices, and choosing among them: what survey.c, judge.c, facts.c and
 * limits.c are to each other and to the host.
 *
 * survey.c asks the devices and writes down what they say, in device.h's words. judge.c decides on
 * that alone, so the choice is a pure function of what `rdmactl device show` prints, the settings
 * and the listen address. limits.c judges what a device can against what the settings need.
 */
#ifndef RDMAD_FABRIC_VERBS_SURVEY_H
#define RDMAD_FABRIC_VERBS_SURVEY_H

#include "daemon/fabric/device.h"
#include <infiniband/verbs.h>
#include <stdbool.h>

/* GIDs of the addresses that listen_host stands for; none of wildcards and loopback, which say
 * nothing about where data may go. */
struct listen_gids {
    uint8_t raw[FABRIC_LISTEN_MAX][16];
    unsigned count;
};

/* ---- judge.c: pure ------------------------------------------------------------------------ */

struct wish {
    const struct verbs_settings *settings;
    struct listen_gids listen;
};

/* Decides: sorts the devices by name, fills in usable, chosen, rank and why of devices, ports and
 * GIDs, and the list's chosen and why. In: everything else; a device or port whose why says
 * something already is out for that reason. Of the best GIDs that of the first device, port and
 * index is chosen. */
void judge_devices(struct device_list *list, const struct wish *wish);

/* Of the chosen port of a chosen device; NULL if nothing is. */
const struct device_port *judged_port(const struct device_list *list);
const struct device_gid *judged_gid(const struct device_port *port);

/* ---- survey.c ----------------------------------------------------------------------------- */

void survey_listen(const struct fabric_settings *settings, struct listen_gids *out);
/* Looks at all devices and judges. */
int survey_all(const struct wish *wish, struct device_list **out, struct error *err);
/* One port of an open device, judged as if it were the only one. */
int survey_open_port(struct ibv_context *context, unsigned port, const struct wish *wish,
                     struct device_list **out, struct error *err);

/* ---- facts.c ------------------------------------------------------------------------------ */

/* What ibv_devinfo -v tells of a device and of its ports. False: no memory. */
bool facts_of_device(struct device_view *view, struct ibv_context *context,
                     const struct ibv_device_attr_ex *attr);
bool facts_of_port(struct device_view *view, unsigned number, const struct ibv_port_attr *attr);
const char *port_state_name(enum ibv_port_state state);
void port_speed_text(const struct ibv_port_attr *attr, char *out, size_t size);
unsigned mtu_bytes(enum ibv_mtu mtu); /* 0 for what is none */

/* ---- limits.c: pure ----------------------------------------------------------------------- */

/* Whether a device with these limits can serve these settings at all; else a sentence in why. */
bool limits_suffice(const struct ibv_device_attr *a, const struct verbs_settings *s,
                    char why[DEVICE_WHY]);

/* What limits_lower lowered. */
enum lowered {
    LOWERED_QUEUE_DEPTH = 1,
    LOWERED_RD_ATOMIC = 2,
    LOWERED_DEST_RD_ATOMIC = 4,
    LOWERED_MAX_MESSAGE = 8,
    LOWERED_INLINE = 16, /* device.c: found by trying */
    LOWERED_MTU = 32,
};
/* Lowers s to what the device and its port can; returns a set of enum lowered. */
unsigned limits_lower(const struct ibv_device_attr *a, const struct ibv_port_attr *port,
                      struct verbs_settings *s);
/* The largest MTU that the port has active and the settings allow. */
enum ibv_mtu limits_mtu(const struct ibv_port_attr *port, const struct verbs_settings *s);

#endif
