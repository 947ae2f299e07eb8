/* SPDX-License-Identifier: MIT */
/*
 * leases.h - a session's leases are freed with it.
 */
#ifndef RDMAD_OP_SEAM_LEASES_H
#define RDMAD_OP_SEAM_LEASES_H

#include "daemon/op/engine/worker.h"

/* All of them, with their table. The session must have no ops any more. */
void session_leases_free(struct worker *w, struct op_session *s);

#endif
