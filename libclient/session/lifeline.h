/* SPDX-License-Identifier: MIT */
/*
 * lifeline.h - by what a session sees that its daemon's process is gone (RDMAD_MSG_LIFELINE).
 */
#ifndef RDMAD_LIBCLIENT_LIFELINE_H
#define RDMAD_LIBCLIENT_LIFELINE_H

#include "libclient/base/session.h"

/* After HELLO, also to the next daemon: s->lifeline is that one's, or -1 if it has none. */
int rdmad_lifeline_take(struct rdmad_session *s);

#endif
