/* SPDX-License-Identifier: MIT */
/*
 * in_use.h - the device in use, from when it is chosen to when it is closed (enum host_use).
 *
 * To be called only by the device thread, and by whoever starts and stops it.
 */
#ifndef RDMAD_FABRIC_VERBS_HOST_IN_USE_H
#define RDMAD_FABRIC_VERBS_HOST_IN_USE_H

#include "daemon/base/clock.h"
#include "daemon/base/error.h"

#define IN_USE_LOOK_NS NSEC_PER_SEC /* looks are no further apart while something is amiss */

struct fabric_host;

/* Looks for a device and gives it to the members. */
int in_use_adopt(struct fabric_host *h, struct error *err);
/* The same, and if there is none sets when to try again. */
void in_use_search(struct fabric_host *h, uint64_t now_ns);
/* Asks the port how it is, tells members of a change. */
void in_use_look(struct fabric_host *h);
/* The device goes: members are told. */
void in_use_lose(struct fabric_host *h, const struct error *why);
/* Loses it if a member has said that it failed. */
void in_use_take_failure(struct fabric_host *h);
/* Closes the device if nobody has it any more. */
void in_use_finish(struct fabric_host *h, uint64_t now_ns);
/* Closes it: there is no member. */
void in_use_close(struct fabric_host *h);

#endif
