/* SPDX-License-Identifier: MIT */
/*
 * part.h - the parts of an op.
 */
#ifndef RDMAD_OP_ENGINE_PART_H
#define RDMAD_OP_ENGINE_PART_H

#include "daemon/op/engine/kind.h"
#include "daemon/op/engine/worker.h"
#include <stddef.h>
#include <string.h>

/* In blocks: for all at once compilers choose an instruction that takes longer to start than this
 * whole function. The last block may reach beyond bytes. */
#define OP_CLEAR_BLOCK 32u
static inline void op_clear(void *at, size_t bytes) {
    for (uint8_t *block = at, *end = block + bytes; block < end; block += OP_CLEAR_BLOCK)
        memset(block, 0, OP_CLEAR_BLOCK);
}
_Static_assert(sizeof(struct op) - offsetof(struct op, first) >= OP_CLEAR_BLOCK,
               "room for the last block");
_Static_assert(sizeof(struct fabric_op) % OP_CLEAR_BLOCK == 0, "none is needed");

bool op_has_more(const struct op *op);                        /* something to post, now or later */
struct op_part *op_part_get(struct worker *w, struct op *op); /* NULL: out of memory */
void op_part_posted(struct op *op, struct op_part *part);
void op_part_put(struct worker *w, struct op_part *part); /* its memory is free again */

/* What its kind posts behind the bytes has to wait for those under way. */
static inline bool op_last_must_wait(const struct op *op) {
    return op->todo == OP_TODO_LAST && op->kind->last_must_wait(op);
}

#endif
