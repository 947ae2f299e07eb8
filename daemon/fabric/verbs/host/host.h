/* SPDX-License-Identifier: MIT */
/*
 * host.h - what the instances of the verbs fabric share: the device in use, and pools registered
 * on it.
 *
 * One device and port is in use at a time, chosen and opened by device/. The device thread
 * (thread.c) reads its asynchronous events, notices when it vanishes, takes it away from the
 * instances, closes it, and adopts one again when there is one. Instances are its members
 * (member.h); the host owns the context, the PD of pools and the pools' registrations.
 *
 * How a device goes: the host forgets it (nobody gets it any more); every member's device_going
 * runs; each closes its QPs, windows, CQs, PDs and channels, now or when its last job is back, and
 * says host_let_go; then the pools are deregistered and the context is closed, so that `rdma link
 * delete` can finish.
 *
 * Slow calls are jobs of two kinds of threads: the registrar's for what makes registrations and
 * windows, the revoker's for what ends them, so that a revocation never queues behind a
 * registration. The owner of a job is the user whose memory it is about.
 */
#ifndef RDMAD_FABRIC_VERBS_HOST_HOST_H
#define RDMAD_FABRIC_VERBS_HOST_HOST_H

#include "daemon/base/offload.h"
#include "daemon/fabric/fabric.h"
#include "daemon/fabric/verbs/device/device.h"

/* fabric_ops.host_open and .host_close. */
int host_open(const struct fabric_settings *settings, struct fabric_host **out, struct error *err);
void host_close(struct fabric_host *h);

/* Why there is no device now, to tell whoever wants a link. Any thread. */
void host_why(struct fabric_host *h, struct error *why);

/* fabric_ops.protection ("windows" or "registrations", "" while there is no device), .trouble,
 * .services and .atomics_are_cpus. Any thread. */
const char *host_protection(struct fabric_host *h);
bool host_trouble(struct fabric_host *h, struct error *why);
unsigned host_services(struct fabric_host *h);
bool host_atomics_are_cpus(struct fabric_host *h);

struct offload *host_registrar(struct fabric_host *h);
struct offload *host_revoker(struct fabric_host *h);

#endif
