/* SPDX-License-Identifier: MIT */
/*
 * names.h - finds the ops of a ring by their user_data.
 */
#ifndef RDMAD_OP_ENGINE_NAMES_H
#define RDMAD_OP_ENGINE_NAMES_H

#include "daemon/op/engine/worker.h"

/* A ring's ops have names from its first CANCEL on, until none is in flight. */
void ring_name_all(struct op_ring *r);
void ring_forget_names(struct op_ring *r); /* none is in flight */
void op_name(struct op_ring *r, struct op *op);
void op_unname(struct op_ring *r, struct op *op);

#endif
