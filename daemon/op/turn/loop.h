/* SPDX-License-Identifier: MIT */
/*
 * loop.h - a worker's thread: turns, spinning, sleep.
 */
#ifndef RDMAD_OP_LOOP_H
#define RDMAD_OP_LOOP_H

#include "daemon/op/engine/worker.h"

int loop_start(struct worker *w, struct error *err);
void loop_stop(struct worker *w); /* joins the thread; harmless when it never ran */

#endif
