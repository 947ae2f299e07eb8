/* SPDX-License-Identifier: MIT */
/*
 * why_next.h - what to do about it: the last sentence of rdmactl why. Internal to ctl/.
 */
#ifndef RDMAD_CTL_WHY_NEXT_H
#define RDMAD_CTL_WHY_NEXT_H

#include <jansson.h>

/* What is to be done about an object of which events are remembered, the oldest first. The last one
 * that calls for something decides, unless a later one says that it is over. NULL: nothing is. */
const char *why_next(const json_t *events);
/* The same of an error alone: of a lease that ended, of an op that failed. NULL: no error. */
const char *why_next_of(int code);

#endif
