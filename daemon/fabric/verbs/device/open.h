/* SPDX-License-Identifier: MIT */
/*
 * open.h - opens and closes a device, and asks its port how it is.
 */
#ifndef RDMAD_FABRIC_VERBS_DEVICE_OPEN_H
#define RDMAD_FABRIC_VERBS_DEVICE_OPEN_H

#include "daemon/fabric/verbs/device/choice.h"
#include "daemon/fabric/verbs/device/device.h"
#include <sys/types.h>

struct open_device {
    struct device d;
    char uverbs[32]; /* its path, and the inode it had when it was opened */
    ino_t inode;
    uint64_t opened_ns;
    char self_test[DEVICE_WHY];
    unsigned users; /* under the host's lock: how many calls of memory.c are under way on it */
};

/* Opens what was chosen, and tests it. *told, 0 at first, notes what was logged and is not to be
 * logged again by this process. */
int device_open(const struct wish *wish, const struct device_view *view, unsigned port,
                unsigned *told, struct open_device **out, struct port_now *now, struct error *err);
/* Nothing but the PD may be left on it. */
void device_close(struct open_device *o);
/* How the port is now. Fails only for lack of memory: that the port is not usable is an answer. */
int device_port(const struct wish *wish, const struct device *d, struct port_now *out,
                struct error *err);
bool device_there(const struct open_device *o); /* its file is still the same */

#endif
