/* SPDX-License-Identifier: MIT */
/*
 * far_load.h - threads at work on a far_pair's lease: additions to its first word, of each of which
 * it is known what it has found, and long writes, so that something is always under way.
 */
#ifndef RDMAD_TEST_FAR_LOAD_H
#define RDMAD_TEST_FAR_LOAD_H

#include "tests/integration/far_pair.h"

struct far_load;

struct far_load *far_load_start(struct far_pair *p);
/* How long the longest addition took since somebody last asked, one that goes on not counted. */
double far_load_longest_ms(struct far_load *load);
/* Waits for an addition that began after this call. */
void far_load_expect_progress(struct far_load *load);
/* Ends it when each op has ended, and prints what came of them. Additions must be in the word once:
 * those that are done, and perhaps those of unknown outcome. Ops may only have failed because the
 * peer was lost, or their time or the lease's was over. Returns how many were not done. */
uint64_t far_load_stop(struct far_load *load);

#endif
