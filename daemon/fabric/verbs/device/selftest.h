/* SPDX-License-Identifier: MIT */
/*
 * selftest.h - what a device enforces, seen on its own loopback.
 */
#ifndef RDMAD_FABRIC_VERBS_DEVICE_SELFTEST_H
#define RDMAD_FABRIC_VERBS_DEVICE_SELFTEST_H

#include "daemon/fabric/device.h"
#include "daemon/fabric/verbs/device/device.h"

struct selftest_result {
    bool ran;           /* a write to ourselves worked; if not, the rest means nothing */
    bool late;          /* it ran out of time, as on a machine under load: another try may help */
    bool registrations; /* hold */
    bool windows;       /* hold */
    char says[DEVICE_WHY];
};
/* Tries on loopback QPs what the device enforces. Waits for less than a second in all. */
void selftest_run(const struct device *d, const struct port_now *port, struct selftest_result *out);

#endif
