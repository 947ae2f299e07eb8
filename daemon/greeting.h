/* SPDX-License-Identifier: MIT */
/*
 * greeting.h - what a daemon that is ready says of itself: to the log, and to the service manager.
 */
#ifndef RDMAD_GREETING_H
#define RDMAD_GREETING_H

#include "daemon/state/state.h"

struct handover; /* handover.h */
struct manager;  /* manager.h */

void greeting_log(const struct state *st);
/* That it is ready, also after a reload. */
void greeting_manager(const struct state *st, struct manager *m);
/* If there was a life before: sets st->upgraded, with how long clients have waited until now. */
void greeting_upgraded(struct state *st, const struct handover *before);

#endif
