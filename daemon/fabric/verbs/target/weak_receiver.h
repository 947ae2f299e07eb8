/* SPDX-License-Identifier: MIT */
/*
 * weak_receiver.h - where weak messages of a peer arrive (wire/page.h).
 */
#ifndef RDMAD_FABRIC_VERBS_TARGET_WEAK_RECEIVER_H
#define RDMAD_FABRIC_VERBS_TARGET_WEAK_RECEIVER_H

#include "daemon/fabric/verbs/target/target.h"

/* The peer requests a receiver. False: no honest peer sends this request. */
bool weak_receiver_requested(struct verbs_target *t, const void *bytes, size_t size);
void weak_receivers_timers(struct verbs *v);       /* those that wait for a way are tried again */
void weak_receivers_close(struct verbs_target *t); /* their QPs and registrations */
void weak_receivers_free(struct verbs_target *t);

#endif
