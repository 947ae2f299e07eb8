/* SPDX-License-Identifier: MIT */
/*
 * member.h - how an instance gets the device in use, and lets go of it.
 *
 * A member is told by mail, on its own worker's thread, and owns everything that it makes on the
 * device. When the device goes, each member closes its QPs, windows, CQs, PDs and channels, now or
 * when its last job is back, and says host_let_go.
 */
#ifndef RDMAD_FABRIC_VERBS_HOST_MEMBER_H
#define RDMAD_FABRIC_VERBS_HOST_MEMBER_H

#include "daemon/base/list.h"
#include "daemon/base/mailbox.h"
#include "daemon/fabric/verbs/device/device.h"

struct fabric_host;

/* An instance, as the host sees it. All functions run on the worker, from mailbox_drain. */
struct host_member {
    struct mailbox mailbox; /* the member drains it in its poll; jobs answer to it too */
    struct list node;
    struct fabric_host *host;
    struct host_notice *notice; /* member.c's own */
    void (*device_came)(struct host_member *m, struct device *d, const struct port_now *port);
    void (*port_changed)(struct host_member *m, const struct port_now *port);
    /* An event of a QP, maybe of another instance. */
    void (*qp_event)(struct host_member *m, uint32_t qp_num, enum ibv_event_type event);
    void (*device_going)(struct host_member *m, const struct error *why);
};

/* host_join: *d and *port are the device in use now; *d is NULL if there is none. Changes are told
 * by mail. host_leave: the member must hold nothing of the device, and no mail comes afterwards. It
 * may deliver what waits in the mailbox, so it must not be called from inside a delivery. */
int host_join(struct fabric_host *h, struct host_member *m, struct device **d,
              struct port_now *port, struct error *err);
void host_leave(struct host_member *m);
/* Answers device_going: the member holds nothing of the device any more. */
void host_let_go(struct host_member *m);
/* A verb failed in a way that only a broken device causes (EIO, ENODEV): the device is let go of
 * and opened again. Any thread; d is compared, not looked into. */
void host_device_failed(struct fabric_host *h, const struct device *d, const struct error *why);

/* ---- for in_use.c and events.c: what members are told. All need the lock. ------------------- */

void members_device_came(struct fabric_host *h);
void members_port_changed(struct fabric_host *h);
void members_device_going(struct fabric_host *h, const struct error *why);
void members_qp_event(struct fabric_host *h, uint32_t qp_num, enum ibv_event_type event);
/* Whether one has not let go of the device yet. */
bool members_hold_device(const struct fabric_host *h);

#endif
