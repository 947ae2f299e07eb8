/* SPDX-License-Identifier: MIT */
/*
 * endurance.h - what a daemon holds at rest, time after time: printed as first, last and slope, and
 * judged. What is counted has to be the same each time of a life; memory, and connections that come
 * and go, must not grow.
 *
 *     struct endurance *e = endurance_new("A");
 *     for each round: ... endurance_sample(e, daemon) once everything is over ...
 *     endurance_judge(e)
 *
 * A daemon that was restarted or upgraded begins a life of its own.
 */
#ifndef RDMAD_TEST_ENDURANCE_H
#define RDMAD_TEST_ENDURANCE_H

#include "tests/support/harness.h"

struct endurance;

/* device: RDMA device of the daemon; NULL: it is not over verbs. */
struct endurance *endurance_new(const char *name, const char *device);
/* Also a line for each quantity in the file that RDMAD_SOAK_CSV names. */
void endurance_sample(struct endurance *e, struct tdaemon *d);
/* Prints, ends the case if something was held for longer than it should, and frees e. */
void endurance_judge(struct endurance *e);

#endif
