/* SPDX-License-Identifier: MIT */
/*
 * loop.h - the thread around the turns.
 */
#ifndef RDMAD_OP_TURN_LOOP_H
#define RDMAD_OP_TURN_LOOP_H

#include "daemon/op/engine/worker.h"

int loop_init(struct worker *w, struct error *err);
void loop_fini(struct worker *w);
int loop_start(struct worker *w, struct error *err);
void loop_stop(struct worker *w); /* joins the thread; harmless when it never ran */
int loop_watch_ring(struct worker *w, struct op_ring *r, struct error *err);
void loop_unwatch_ring(struct worker *w, struct op_ring *r);
void loop_listen_ring(struct worker *w, struct op_ring *r, bool listen); /* to its knocks */

#endif
