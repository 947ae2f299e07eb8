/* SPDX-License-Identifier: MIT */
/*
 * names.c - a table of a ring's ops by name. It is made at the ring's first CANCEL, and kept until
 * no op is in flight. A client that never cancels pays nothing for it.
 */
#include "daemon/op/engine/names.h"
#include "daemon/op/engine/batch.h"
#include <assert.h>

void op_name(struct op_ring *r, struct op *op) {
    assert(r->tagged && !op->tagged && op->ring == r);
    op->tagged = true;
    tags_add(&r->tags, &op->tag);
    if (op->batch)
        batch_tag(op->batch);
}

void op_unname(struct op_ring *r, struct op *op) {
    assert(op->tagged && op->ring == r);
    op->tagged = false;
    tags_remove(&r->tags, &op->tag);
}

void ring_name_all(struct op_ring *r) {
    assert(!r->tagged);
    r->tagged = true;
    list_for_each (pos, &r->ops)
        op_name(r, list_entry(pos, struct op, home_node));
    list_for_each (pos, &r->waits)
        op_name(r, list_entry(pos, struct op, home_node));
}

void ring_forget_names(struct op_ring *r) {
    assert(!r->inflight);
    r->tagged = false;
    tags_fini(&r->tags);
    tags_fini(&r->batch_tags);
}
