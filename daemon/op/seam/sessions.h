/* SPDX-License-Identifier: MIT */
/*
 * sessions.h - of sessions, what a turn asks.
 */
#ifndef RDMAD_OP_SEAM_SESSIONS_H
#define RDMAD_OP_SEAM_SESSIONS_H

#include "daemon/op/engine/worker.h"

/* Those of worker_violated take no more sqes, and the control thread is told. Not where it was
 * found out, for lists were being walked there. */
void sessions_shut_violated(struct worker *w);

#endif
