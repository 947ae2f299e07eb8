/* SPDX-License-Identifier: MIT */
/*
 * knocks.h - clients that ring their doorbells, and those that do nothing else.
 */
#ifndef RDMAD_OP_ENGINE_KNOCKS_H
#define RDMAD_OP_ENGINE_KNOCKS_H

#include "daemon/op/engine/worker.h"

/* A doorbell rang: wakes the ring if there is work on it, and says whether. */
bool knocks_heard(struct worker *w, struct op_ring *r);
void knocks_run(struct worker *w);               /* looks at rings that it is deaf to */
uint64_t knocks_next_ns(const struct worker *w); /* when that is due */

#endif
