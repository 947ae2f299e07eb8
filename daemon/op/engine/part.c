/* SPDX-License-Identifier: MIT */
/*
 * part.c - parts, of which most ops have one, inside the op; the others come from the worker.
 */
#include "daemon/op/engine/part.h"

bool op_has_more(const struct op *op) {
    return !op->stopped && (!list_empty(&op->again) || op->next < op->length || op->todo);
}

/* The inline part first: while it is free there is always one to be had. */
struct op_part *op_part_get(struct worker *w, struct op *op) {
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

void op_part_put(struct worker *w, struct op_part *part) {
    if (part == &part->op->first)
        part->op->first_used = false;
    else
        slab_put(&w->parts, part);
}

void op_part_posted(struct op *op, struct op_part *part) {
    op->todo &= (uint8_t)~OP_TODO_BEGIN;
    op->posted += part->fop.length;
    op->inflight++;
    list_remove(&part->node);
    list_append(&op->parts, &part->node);
}
