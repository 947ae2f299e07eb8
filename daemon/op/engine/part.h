/* SPDX-License-Identifier: MIT */
/*
 * part.h - the parts of an op: most have one, inside the op; the others come from the worker.
 *
 * Inline, because every op passes here.
 */
#ifndef RDMAD_OP_ENGINE_PART_H
#define RDMAD_OP_ENGINE_PART_H

#include "daemon/base/probe.h"
#include "daemon/op/engine/kind.h"
#include "daemon/op/engine/worker.h"
#include <stddef.h>
#include <string.h>

/* Clears block by block: for one large memset compilers choose an instruction that takes longer to
 * start than this whole function takes. The last block may reach beyond bytes. */
#define OP_CLEAR_BLOCK 32u
static inline void op_clear(void *at, size_t bytes) {
    for (uint8_t *block = at, *end = block + bytes; block < end; block += OP_CLEAR_BLOCK)
        memset(block, 0, OP_CLEAR_BLOCK);
}
_Static_assert(sizeof(struct op) - offsetof(struct op, first) >= OP_CLEAR_BLOCK,
               "room for the last block");
_Static_assert(sizeof(struct fabric_op) % OP_CLEAR_BLOCK == 0, "none is needed");

/* It has something to post, now or later. */
static inline bool op_has_more(const struct op *op) {
    return !op->stopped && (!list_empty(&op->again) || op->next < op->length || op->todo);
}

/* What its kind posts behind the bytes has to wait for those under way. */
static inline bool op_last_must_wait(const struct op *op) {
    return op->todo == OP_TODO_LAST && op->kind->last_must_wait(op);
}

/* NULL: out of memory. The inline part first: while it is free there is always one to be had. */
static inline struct op_part *op_part_get(struct worker *w, struct op *op) {
    struct op_part *part = &op->first;
    if (!op->first_used)
        op->first_used = true;
    else
        part = slab_get(&w->parts);
    if (part) {
        part->op = op;
        list_init(&part->node);
    }
    return part;
}

/* Its memory is free again. */
static inline void op_part_put(struct worker *w, struct op_part *part) {
    if (part == &part->op->first)
        part->op->first_used = false;
    else
        slab_put(&w->parts, part);
}

/* In place, whatever the compiler takes its probe for. */
static inline __attribute__((always_inline)) void op_part_posted(struct op *op,
                                                                 struct op_part *part) {
    probe_op_posted(op, &part->fop, op->route->name, op->lease->lease_id, part->fop.opcode,
                    part->fop.length);
    op->todo &= (uint8_t)~OP_TODO_BEGIN;
    op->posted += part->fop.length;
    op->route->ahead += part->fop.length;
    op->route->out++;
    op->inflight++;
    list_remove(&part->node);
    list_append(&op->parts, &part->node);
}

#endif
