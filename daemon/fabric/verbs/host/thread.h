/* SPDX-License-Identifier: MIT */
/*
 * thread.h - the device thread of a host.
 */
#ifndef RDMAD_FABRIC_VERBS_HOST_THREAD_H
#define RDMAD_FABRIC_VERBS_HOST_THREAD_H

#include "daemon/base/error.h"

struct fabric_host;

/* Adopts a device on the caller's thread, which must go well, and starts. */
int device_thread_start(struct fabric_host *h, struct error *err);
void device_thread_stop(struct fabric_host *h); /* the device is closed */

#endif
