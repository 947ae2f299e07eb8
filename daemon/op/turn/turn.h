/* SPDX-License-Identifier: MIT */
/*
 * turn.h - a worker at work: one turn of its loop.
 *
 * worker_turn does everything that can be done now and never waits; what happens depends only on
 * its now_ns, mails, rings and fabrics. loop.c runs it on a thread, spins and sleeps. Tests run it
 * by hand on a scripted clock.
 */
#ifndef RDMAD_OP_TURN_H
#define RDMAD_OP_TURN_H

#include "daemon/op/engine/worker.h"

/* settings, events, control and hosts (one a fabric, NULL where it has none) must outlive the
 * worker. */
int worker_init(struct worker *w, unsigned index, const struct plane_settings *settings,
                const struct plane_events *events, struct mailbox *control,
                struct fabric_host *const *hosts, uint64_t now_ns, struct error *err);
/* Every session, lane and window must be gone, and the thread must not run. Also for a worker whose
 * worker_init failed. */
void worker_fini(struct worker *w);

/* One turn; returns how much happened, 0 for nothing. */
unsigned worker_turn(struct worker *w, uint64_t now_ns);
/* When the next turn is due if nothing comes in; CLOCK_NEVER: none is. */
uint64_t worker_next_ns(struct worker *w);

#endif
