/* SPDX-License-Identifier: MIT */
/*
 * device.h - an open RDMA device and its port, as everybody in verbs/ sees them.
 *
 * open.c makes one, the host (host/) gives it out and takes it away again.
 */
#ifndef RDMAD_FABRIC_VERBS_DEVICE_DEVICE_H
#define RDMAD_FABRIC_VERBS_DEVICE_DEVICE_H

#include "daemon/base/error.h"
#include "daemon/fabric/settings.h"
#include <infiniband/verbs.h>
#include <stdbool.h>

/* An open device. Constant from when an instance first sees it until the last lets go. */
struct device {
    struct ibv_context *context;
    struct ibv_pd *pd; /* of pools and initiators; pools have no remote rights in it */
    struct ibv_device_attr_ex attr;
    char name[64];
    unsigned port;
    uint8_t link_layer; /* IBV_LINK_LAYER_* */
    bool iwarp;
    uint64_t max_message; /* of the port */
    bool memory_windows;  /* leases get type-2 ones, else registrations */
    unsigned services;    /* fabric_ops.services */
    /* The settings by which QPs are made: what is configured, lowered to what the device can. The
     * mtu is in port_now. */
    struct verbs_settings settings;
};

/* Whether RC transfers in both directions can use memory that is not pinned. */
static inline bool device_has_odp(const struct device *d) {
    const uint32_t needed = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    const struct ibv_odp_caps *odp = &d->attr.odp_caps;
    return (odp->general_caps & IBV_ODP_SUPPORT) &&
           (odp->per_transport_caps.rc_odp_caps & needed) == needed;
}

/* Linux's Soft-RoCE (rxe_hdr.h, RXE_VENDOR_ID) may end a READ whose last packet was lost: it takes
 * the acknowledgement of something else for it (rxe_comp.c). */
static inline bool device_ends_reads_early(const struct device *d) {
    return d->attr.orig_attr.vendor_id == 0xffffff;
}

static inline bool device_has_atomics(const struct device *d) {
    return d->attr.orig_attr.atomic_cap != IBV_ATOMIC_NONE;
}

/* Whether it says that it has memory windows of type 2. */
static inline bool device_has_memory_windows(const struct device *d) {
    const unsigned type_2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    return d->attr.orig_attr.max_mw > 0 && (d->attr.orig_attr.device_cap_flags & type_2) != 0;
}

/* What changes while a device is open; instances have copies. */
struct port_now {
    bool usable;
    struct error why; /* if it is not usable: what to tell whoever wants a link */
    union ibv_gid gid;
    uint8_t gid_index;
    uint16_t lid;
    enum ibv_mtu mtu; /* the largest that the port and the settings allow */
};

#endif
