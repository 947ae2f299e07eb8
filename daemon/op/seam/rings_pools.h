/* SPDX-License-Identifier: MIT */
/*
 * rings_pools.h - a session's rings and pools are freed with it.
 */
#ifndef RDMAD_OP_SEAM_RINGS_POOLS_H
#define RDMAD_OP_SEAM_RINGS_POOLS_H

#include "daemon/op/engine/worker.h"

/* All of them, with their tables. The session has no ops any more. */
void session_rings_free(struct worker *w, struct op_session *s);
void session_pools_free(struct worker *w, struct op_session *s);

#endif
