/* SPDX-License-Identifier: MIT */
/*
 * listener.h - where connections of peers arrive.
 */
#ifndef RDMAD_FABRIC_TCP_LISTENER_H
#define RDMAD_FABRIC_TCP_LISTENER_H

#include "daemon/fabric/tcp/instance.h"

int listener_open(struct tcp *t, struct error *err);
void listener_close(struct tcp *t);  /* and all offers and strangers */
void listener_timers(struct tcp *t); /* old tokens, late strangers, a paused listener */

#endif
