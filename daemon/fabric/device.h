/* SPDX-License-Identifier: MIT */
/*
 * device.h - the RDMA devices of this machine as an operator wants to see them: every port and GID,
 * and why each was or was not chosen.
 *
 * Data only, no verbs types: the control plane prints it, fabric/verbs/device/survey.c fills it in
 * and chooses by it, so what is shown is what was decided.
 */
#ifndef RDMAD_FABRIC_DEVICE_H
#define RDMAD_FABRIC_DEVICE_H

#include "daemon/base/error.h"
#include "daemon/fabric/settings.h"
#include <stddef.h>

#define DEVICE_WHY 160u

struct device_gid {
    unsigned index;
    char gid[40];     /* as ibv_devinfo prints it */
    char address[46]; /* the IP address it stands for; "" when none */
    char type[12];    /* "IB", "RoCE v1", "RoCE v2" */
    char netdev[16];  /* "" when none */
    uint8_t raw[16];
    bool unassigned; /* RoCE v2, and no interface has its address: packets would not leave */
    bool usable, chosen;
    int rank;             /* higher is better */
    char why[DEVICE_WHY]; /* one sentence: why chosen, or why not */
};

struct device_port {
    unsigned number;
    char state[24];        /* "ACTIVE", "DOWN", ... */
    char link_layer[16];   /* "Ethernet", "InfiniBand" */
    char netdev[16];       /* "" when none is known */
    char speed[32];        /* "1X 10.0 Gb/s" */
    unsigned mtu, max_mtu; /* bytes */
    unsigned lid;
    uint64_t max_message;
    bool usable, chosen;
    char why[DEVICE_WHY];
    struct device_gid *gids;
    size_t gid_count;
};

struct device_fact { /* what ibv_devinfo -v tells: "max_qp" "1048560" */
    char name[40];
    char value[80];
};

struct device_view {
    char name[64];
    char transport[16]; /* "InfiniBand", "iWARP", ... */
    char node_guid[24], firmware[64];
    char uverbs[32]; /* "/dev/infiniband/uverbs0" */
    bool usable, chosen;
    bool in_use;          /* by this daemon's fabric, now */
    char why[DEVICE_WHY]; /* chosen, or why not: no permission, no port up, no usable GID ... */
    char windows[16];     /* "windows" or "registrations"; "" while not in use */
    char self_test[DEVICE_WHY]; /* what the self-test saw; "" while not in use */
    char atomics[32];           /* what CAS and FADD are atomic with; "" while not in use */
    char services[16];          /* "RC UD UC": kinds of messages; "" while not in use */
    struct device_port *ports;
    size_t port_count;
    struct device_fact *facts;
    size_t fact_count;
};

struct device_list {
    struct device_view *devices;
    size_t count;
    int chosen; /* index, -1: none */
    /* When none: why, with the next step; what the daemon, rdmactl and doctor print. */
    struct error why;
};

struct fabric_host;

/* Looks at all devices and chooses by the settings. Opens each one, so it can take milliseconds and
 * must not run on the control thread or a worker. host may be NULL: then nothing is in_use. Fails
 * (RDMAD_E_NOMEM, RDMAD_E_SYSTEM) only when there is nothing to tell; no device is not a failure.
 */
int devices_survey(const struct fabric_settings *settings, const struct fabric_host *host,
                   struct device_list **out, struct error *err);
void device_list_free(struct device_list *list);

#endif
