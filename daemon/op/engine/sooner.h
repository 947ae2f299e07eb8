/* SPDX-License-Identifier: MIT */
/*
 * sooner.h - a lease's deadline came nearer: its ops hear of it, a few a turn.
 */
#ifndef RDMAD_OP_ENGINE_SOONER_H
#define RDMAD_OP_ENGINE_SOONER_H

#include "daemon/op/engine/worker.h"

/* The lease's deadline_ns is an earlier one now. A later one needs nothing: the wheel finds that
 * out when it comes to the old moment. */
void lease_is_sooner(struct worker *w, struct op_lease *lease);
/* Once a turn. */
void sooner_run(struct worker *w);

#endif
