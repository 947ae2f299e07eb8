/* SPDX-License-Identifier: MIT */
/*
 * complete.h - parts come back, and ops end.
 */
#ifndef RDMAD_OP_ENGINE_COMPLETE_H
#define RDMAD_OP_ENGINE_COMPLETE_H

#include "daemon/op/engine/worker.h"

void op_part_ended(struct worker *w, struct op_part *part);
/* Posts no further part and asks the fabric to let go of those posted; the op ends when it has. */
void op_cancel(struct worker *w, struct op *op, int status);
/* No part is posted and none will be: the op ends, as what its parts came to. */
void op_finish(struct worker *w, struct op *op);
void op_due(struct worker *w, struct op *op); /* its deadline may have come */

#endif
