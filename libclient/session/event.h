/* SPDX-License-Identifier: MIT */
/*
 * event.h - events: what the daemon says without being asked.
 */
#ifndef RDMAD_LIBCLIENT_EVENT_H
#define RDMAD_LIBCLIENT_EVENT_H

#include "libclient/base/session.h"

/* With the lock: takes an event as it came. Returns NULL, or what is wrong with it. */
const char *rdmad_event_take(struct rdmad_session *s, const struct rdmad_msg_header *h,
                             const void *body);

#endif
