/* SPDX-License-Identifier: MIT */
/*
 * rouse.h - threads of ours that the kernel makes wait for a stranger's socket are woken.
 *
 * Unix sockets that are queued in each other, and that nobody has any more, are taken apart by the
 * kernel: since Linux 6.9, and in older series that have taken that over, in a thread of its own.
 * Before that, it was done in the name of whoever closed a Unix socket next, anybody's, or sent on
 * one while more than 16,000 were on their way; and who took apart a TCP socket that lingers slept
 * for as long as its owner had said. We close and send all the time.
 *
 * That sleep ends with a signal. So on such a kernel a thread of its own looks every few
 * milliseconds which of ours are still where they were, in a close or a send, and signals these.
 * Elsewhere it is not started.
 */
#ifndef RDMAD_BASE_ROUSE_H
#define RDMAD_BASE_ROUSE_H

#include "daemon/base/error.h"
#include <stdbool.h>

/* Whether this kernel does that: tried out, in a child, while this process has one thread. */
bool rouse_is_needed(void);

struct rouse;
/* Watches over all threads of the process, those that come later, too. */
int rouse_start(struct rouse **out, struct error *err);
void rouse_stop(struct rouse *r); /* NULL is allowed */

#endif
