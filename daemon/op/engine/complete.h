/* SPDX-License-Identifier: MIT */
/*
 * complete.h - parts come back, and ops end.
 */
#ifndef RDMAD_OP_ENGINE_COMPLETE_H
#define RDMAD_OP_ENGINE_COMPLETE_H

#include "daemon/op/engine/worker.h"

void op_part_ended(struct worker *w, struct op_part *part);
/* Posts no further part, takes back what the fabric lets go of, finishes when nothing is left. */
void op_cancel(struct worker *w, struct op *op, int status);
/* Nothing of it is posted and nothing is to be: it ends as what it came to. */
void op_finish(struct worker *w, struct op *op);
void op_due(struct worker *w, struct op *op); /* its deadline is looked at */

#endif
