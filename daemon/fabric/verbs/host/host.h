/* SPDX-License-Identifier: MIT */
/*
 * host.h - what the instances of the verbs fabric share: the device in use, and pools registered
 * on it.
 *
 * One device and port is in use at a time, chosen by survey.c. A keeper thread of the host opens it
 * (device.c), tests what it enforces (selftest.c), reads its asynchronous events, notices when it
 * vanishes, takes it away from the instances, closes it, and adopts one again when there is one.
 * Instances are told by mail, on their own worker's thread, and own everything that they make on
 * the device; the host owns the context, the PD of pools and the pools' registrations.
 *
 * How a device goes: the host forgets it (nobody gets it any more); every member's device_going
 * runs; each closes its QPs, windows, CQs, PDs and channels, now or when its last job is back, and
 * says host_let_go; then the pools are deregistered and the context is closed, so that `rdma link
 * delete` can finish.
 *
 * Two threads for slow calls: the registrar for what makes registrations and windows, the revoker
 * for what ends them, so that a revocation never queues behind a registration.
 */
#ifndef RDMAD_FABRIC_VERBS_HOST_H
#define RDMAD_FABRIC_VERBS_HOST_H

#include "daemon/base/offload.h"
#include "daemon/fabric/device.h"
#include "daemon/fabric/fabric.h"
#include <infiniband/verbs.h>

/* An open device. Constant from when an instance first sees it until the last lets go. */
struct device {
    struct fabric_host *host;
    struct ibv_context *context;
    struct ibv_pd *pd; /* of pools and initiators; pools have no remote rights in it */
    struct ibv_device_attr_ex attr;
    char name[64];
    unsigned port;
    uint8_t link_layer; /* IBV_LINK_LAYER_* */
    bool iwarp;
    uint64_t max_message; /* of the port */
    bool windows;         /* leases get type-2 windows, else registrations */
    unsigned services;    /* fabric_ops.services */
    /* What is configured, lowered to what the device can: QPs are made by this. mtu is port_now's.
     */
    struct verbs_settings settings;
};

/* Whether RC transfers either way can be to memory that is not pinned. */
static inline bool device_has_odp(const struct device *d) {
    const uint32_t needed = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    const struct ibv_odp_caps *odp = &d->attr.odp_caps;
    return (odp->general_caps & IBV_ODP_SUPPORT) &&
           (odp->per_transport_caps.rc_odp_caps & needed) == needed;
}

static inline bool device_has_atomics(const struct device *d) {
    return d->attr.orig_attr.atomic_cap != IBV_ATOMIC_NONE;
}

/* What changes while a device is open; instances have copies. */
struct port_now {
    bool usable;
    struct error why; /* when it is not: what to tell who wants a link */
    union ibv_gid gid;
    uint8_t gid_index;
    uint16_t lid;
    enum ibv_mtu mtu; /* the largest that the port and the settings allow */
};

/* An instance, as the host sees it. All functions run on the worker, from mailbox_drain. */
struct host_member {
    struct mailbox mailbox; /* the member drains it in its poll; jobs answer to it too */
    struct list node;
    struct fabric_host *host;
    struct host_seat *seat; /* host.c's own */
    void (*device_came)(struct host_member *m, struct device *d, const struct port_now *port);
    void (*port_changed)(struct host_member *m, const struct port_now *port);
    /* An event of a QP, maybe of another instance. */
    void (*qp_event)(struct host_member *m, uint32_t qp_num, enum ibv_event_type event);
    void (*device_going)(struct host_member *m, const struct error *why);
};

/* host.c. The device in use now is in *d and *port, NULL if there is none. Later news comes by
 * mail. leave: the member holds nothing of the device; no mail comes after it. It may deliver what
 * waits in the mailbox, so not from inside a delivery. */
int host_join(struct fabric_host *h, struct host_member *m, struct device **d,
              struct port_now *port, struct error *err);
void host_leave(struct host_member *m);
/* Answers device_going: the member holds nothing of the device any more. */
void host_let_go(struct host_member *m);
/* Why there is no device now, for who wants a link. Any thread. */
void host_why(struct fabric_host *h, struct error *why);
/* A verb failed as it only does on a broken device (EIO, ENODEV): it is let go of and opened again.
 * Any thread; d is compared, not looked into. */
void host_device_failed(struct fabric_host *h, const struct device *d, const struct error *why);
/* "windows" or "registrations", "" while there is no device; fabric_ops.protection. Any thread. */
const char *host_protection(struct fabric_host *h);

/* fabric_ops.services and .atomics_are_cpus. Any thread. */
unsigned host_services(struct fabric_host *h);
bool host_atomics_are_cpus(struct fabric_host *h);

struct offload *host_registrar(struct fabric_host *h);
struct offload *host_revoker(struct fabric_host *h);
const struct verbs_settings *host_settings(const struct fabric_host *h);

int host_open(const struct fabric_settings *settings, struct fabric_host **out, struct error *err);
void host_close(struct fabric_host *h);

/* memory.c. The registration of m on d; NULL when it failed when d was adopted. A member that has d
 * may use what this returns until it lets go of d. */
int memory_add(struct fabric_host *h, void *base, uint64_t bytes, struct fabric_memory **out,
               struct error *err);
void memory_remove(struct fabric_memory *m);
struct ibv_mr *memory_mr(const struct fabric_memory *m, const struct device *d);
/* Where in it that address is. */
uint64_t memory_offset(const struct fabric_memory *m, const void *at);

#endif
