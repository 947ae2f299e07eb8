/* SPDX-License-Identifier: MIT */
/*
 * rouse.h - threads of ours that the kernel makes wait for somebody else's socket are woken.
 *
 * Unix sockets that are queued in each other, and that nobody has any more, are taken apart by the
 * kernel: since Linux 6.9, and in older series that have taken that over, in a thread of its own.
 * Older kernels do it in the thread that next closes a Unix socket, whoever's, or that sends on one
 * while more than 16,000 are on their way; and a thread that takes apart a TCP socket that lingers
 * sleeps as long as that socket's owner said. We close and send all the time.
 *
 * That sleep ends with a signal. So on such a kernel a thread looks every few milliseconds which of
 * our threads are still in the same close or send, and signals those. On other kernels it is not
 * started.
 */
#ifndef RDMAD_BASE_ROUSE_H
#define RDMAD_BASE_ROUSE_H

#include "daemon/base/error.h"
#include <stdbool.h>

/* Whether this kernel does that. Tries it out in a child; call it while this process has one
 * thread. */
bool rouse_is_needed(void);

struct rouse;
/* Watches over all threads of the process, those that come later, too. */
int rouse_start(struct rouse **out, struct error *err);
void rouse_stop(struct rouse *r); /* NULL is allowed */

#endif
