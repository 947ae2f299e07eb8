/* SPDX-License-Identifier: MIT */
/*
 * runnable.h - whether more threads want to run at this moment than there are CPUs.
 *
 * From the fourth field of /proc/loadavg, which is a count and no average; reading it takes
 * microseconds. Two more than there are CPUs (one more, if there is only one) do not count: they
 * may be a client and a daemon that spin for each other. False where it cannot be read, or is not
 * the kernel's, as in some containers: there only trying shows.
 */
#ifndef RDMAD_COMMON_RUNNABLE_H
#define RDMAD_COMMON_RUNNABLE_H

#include <stdbool.h>

bool rdmad_cpus_wanted(void);

/* The same; text is what /proc/loadavg says. */
bool rdmad_cpus_wanted_by(const char *text, long cpus);

#endif
