/* SPDX-License-Identifier: MIT */
/*
 * kinds.h - the table of kinds that every worker has; engine/kind.h.
 */
#ifndef RDMAD_OP_TURN_KINDS_H
#define RDMAD_OP_TURN_KINDS_H

#include <rdmad/abi.h>

struct op_kind;

extern const struct op_kind *const op_kinds[RDMAD_OP_COUNT];

#endif
