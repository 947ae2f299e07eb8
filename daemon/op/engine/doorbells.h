/* SPDX-License-Identifier: MIT */
/*
 * doorbells.h - what clients' doorbells wake, and which of them are not listened to.
 */
#ifndef RDMAD_OP_ENGINE_DOORBELLS_H
#define RDMAD_OP_ENGINE_DOORBELLS_H

#include "daemon/op/engine/worker.h"

/* A doorbell rang: wakes the ring if there is work on it, and says whether. */
bool doorbells_heard(struct worker *w, struct op_ring *r);
void doorbells_run(struct worker *w); /* looks at the rings that it does not listen to */
uint64_t doorbells_next_ns(const struct worker *w); /* when that is due */

#endif
