/* SPDX-License-Identifier: MIT */
/*
 * runnable.h - whether more threads want to run at this moment than there are CPUs.
 *
 * As /proc/loadavg says, whose fourth field is a count and no average. It takes microseconds. Two
 * more than there are CPUs (one more on a single one) are no reason: client and daemon that spin
 * for each other. False where nobody can tell, as in a container without it: then only trying
 * shows.
 */
#ifndef RDMAD_COMMON_RUNNABLE_H
#define RDMAD_COMMON_RUNNABLE_H

#include <stdbool.h>

bool rdmad_cpus_wanted(void);

/* text is /proc/loadavg's. */
bool rdmad_cpus_wanted_by(const char *text, long cpus);

#endif
