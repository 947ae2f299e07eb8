/* SPDX-License-Identifier: MIT */
/*
 * doorbells.h - clients that ring their doorbells, and those that do nothing else.
 */
#ifndef RDMAD_OP_ENGINE_DOORBELLS_H
#define RDMAD_OP_ENGINE_DOORBELLS_H

#include "daemon/op/engine/worker.h"

/* A doorbell rang: wakes the ring if there is work on it, and says whether. */
bool doorbells_heard(struct worker *w, struct op_ring *r);
void doorbells_run(struct worker *w);               /* looks at rings that it is deaf to */
uint64_t doorbells_next_ns(const struct worker *w); /* when that is due */

#endif
