/* SPDX-License-Identifier: MIT */
/*
 * lifeline.h - by what a session sees that its daemon is gone (RDMAD_MSG_LIFELINE).
 */
#ifndef RDMAD_LIBCLIENT_LIFELINE_H
#define RDMAD_LIBCLIENT_LIFELINE_H

#include "libclient/base/session.h"

/* After HELLO, also to the next daemon: s->lifeline is that one's. One that has none leaves what
 * there was: -1, or that of a daemon that is gone. */
int rdmad_lifeline_take(struct rdmad_session *s);

#endif
