/* SPDX-License-Identifier: MIT */
/*
 * upgrade_load.h - programs that do not know that their daemon is exchanged under them: no op of
 * theirs may fail, none may be lost, none may be done twice.
 *
 *     struct load *l = load_start(d);
 *     ... the daemon is restarted ...       load_expect_resumed(l)
 *     load_end(l);                          counts, and looks at every session's events
 *
 * One word is added to by threads and a process, by blocking calls, on a deep ring and in its
 * batches' company; others read, write (also several ranges as one), compare and swap, notify the
 * owner, and do nothing. What goes wrong ends the case with the op's own words.
 */
#ifndef RDMAD_TEST_UPGRADE_LOAD_H
#define RDMAD_TEST_UPGRADE_LOAD_H

#include "tests/support/harness.h"

struct load;

/* A daemon or the library is of release 0.1.0 as of 82b6141: there a wait for notices ended with
 * its daemon. To be set before a load begins. */
extern bool load_of_before;
/* The library is: there a service that was just being closed as its daemon ended stays at the next
 * one, under a number that nobody closes. */
extern bool load_by_before;

/* Owner and lessees at one daemon. Forks first, so call it before there are threads. */
struct load *load_start(struct tdaemon *d);
/* The owner at one, the lessees at another: the first step forks, the second makes threads. */
struct load *load_prepare(struct tdaemon *owners, struct tdaemon *lessees);
void load_begin(struct load *l);
/* Waits until the owner and all its lessees have found the next daemon, and one op of each kind was
 * done there. */
void load_expect_resumed(struct load *l);
/* Stops all of it. The word is the number of adds that were done, and no session saw anything but
 * SESSION_RESUMED. Prints how long the longest op took. */
void load_end(struct load *l);

#endif
