/* SPDX-License-Identifier: MIT */
/*
 * lifeline.h - by which others see that this process is gone, and all that it had with it.
 *
 * A process that is killed loses its descriptors one after the other. A client's socket may be
 * closed, and the client hear of it, while a device still carries out what was posted: that ends
 * when the kernel closes the device's descriptor, and it takes time to. So there is a pipe in which
 * nobody writes, and its writing end is the last of all to be closed. Whoever has the reading end
 * sees it hang up then.
 *
 * The kernel (since Linux 4.3) lets go of a dying process's descriptors from the highest number to
 * the lowest. The writing end lies just below all that is moved up (base/upper_fd.h), and above
 * what clients share, so that none of them can hold it up. It closes with an exec, so children that
 * are programs do not have it.
 */
#ifndef RDMAD_BASE_LIFELINE_H
#define RDMAD_BASE_LIFELINE_H

#include "daemon/base/error.h"

/* Once. The reading end is the caller's. */
int lifeline_open(int *reading_end, struct error *err);

/* The same pipe as a file of its own, for one client: whoever closes a file last waits for all
 * whose epolls watch it, and that must be the client's own. Returns a descriptor, or RDMAD_E_*. */
int lifeline_open_another(int reading_end, struct error *err);

#endif
