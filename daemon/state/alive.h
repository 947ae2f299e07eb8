/* SPDX-License-Identifier: MIT */
/*
 * alive.h - whether a session's program shows signs of life: it submits to a ring of the session,
 * takes completions from one, or looks for some.
 *
 * Nothing is done unless somebody asks. While somebody does, the worker looks at the session's
 * rings at most every ALIVE_LOOK_NS, whoever asks and how often, and wakes threads that wait at
 * them.
 */
#ifndef RDMAD_STATE_ALIVE_H
#define RDMAD_STATE_ALIVE_H

#include "daemon/state/session.h"

#define ALIVE_LOOK_NS (100 * NSEC_PER_MSEC)
/* Who wants to know asks at least as often; if nobody does for some times as long, all begins anew.
 */
#define ALIVE_ASK_NS NSEC_PER_SEC

/* For how long the program has shown none, as far as it was asked; and asks for the next. */
uint64_t alive_silent_ns(struct session *s);

#endif
