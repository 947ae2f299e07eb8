/* SPDX-License-Identifier: MIT */
/*
 * bench_stop.h - a bench that is asked to stop ends within a second, whatever it waits for then.
 */
#ifndef RDMACTL_BENCH_STOP_H
#define RDMACTL_BENCH_STOP_H

#include <stdbool.h>

/* From now on a thread takes the signals of signals_catch. If the program has not ended soon after
 * the first one, it is ended: the session's end gives back what it holds. late: what is said then;
 * NULL: nothing, and the exit code is EXIT_GOOD. */
void bench_stop_watch(int signals, const char *late);
/* Whether a signal came. Costs as much as looking at memory. */
bool bench_asked(void);
/* What there is to say is said from here on by the caller, who ends with that code. */
void bench_stop_said(int code);

#endif
