/* SPDX-License-Identifier: MIT */
/*
 * worker.c - what everything on a worker needs.
 */
#include "daemon/op/engine/worker.h"
#include <assert.h>

bool worker_can_start(struct worker *w) {
    return slab_ready(&w->ops) && slab_ready(&w->batches);
}

void worker_violated(struct worker *w, struct op_session *s, int code, const char *why) {
    assert(s->worker == w);
    if (s->shut || !list_empty(&s->violated_node))
        return;
    error_set(&s->violated_why, code, "session %lu: %s", (unsigned long)s->id, why);
    list_append(&w->violated, &s->violated_node);
}
