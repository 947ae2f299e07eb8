/* SPDX-License-Identifier: MIT */
/*
 * event.h - what the daemon says unasked.
 */
#ifndef RDMAD_LIBCLIENT_EVENT_H
#define RDMAD_LIBCLIENT_EVENT_H

#include "libclient/base/session.h"

/* With the lock: an event as it came. Returns a sentence when the wire does not allow it. */
const char *rdmad_event_take(struct rdmad_session *s, const struct rdmad_msg_header *h,
                             const void *body);

#endif
