/* SPDX-License-Identifier: MIT */
/*
 * cancel.h - ends the ops of a name.
 */
#ifndef RDMAD_OP_ENGINE_CANCEL_H
#define RDMAD_OP_ENGINE_CANCEL_H

#include "daemon/op/engine/worker.h"

/* Cancels the ring's ops that have that user_data. Returns CANCEL's status; *cost is what that
 * took, counted in sqes. */
int ops_cancel_named(struct op_ring *r, uint64_t user_data, uint32_t *cost);
#define LOOKS_PER_SQE 8u /* ops that can be looked at while one is started */

#endif
