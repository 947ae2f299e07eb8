/* SPDX-License-Identifier: MIT */
/*
 * sessions.h - sessions that broke a rule are shut out.
 */
#ifndef RDMAD_OP_SEAM_SESSIONS_H
#define RDMAD_OP_SEAM_SESSIONS_H

#include "daemon/op/engine/worker.h"

/* At the end of a turn: those that worker_violated noted take no more sqes, and the control thread
 * is told. This is not done where the violation is found, because lists are being walked there. */
void sessions_shut_violated(struct worker *w);

#endif
