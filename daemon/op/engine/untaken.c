/* SPDX-License-Identifier: MIT */
/*
 * untaken.c - the number of notices that nobody took, in a page of the client's.
 */
#include "daemon/op/engine/untaken.h"
#include "daemon/ipc/ring.h"
#include <assert.h>

void untaken_tell(const struct op_session *s) {
    list_for_each (node, &s->every_ring) {
        struct op_ring *r = list_entry(node, struct op_ring, session_node);
        if (r->ending)
            continue;
        ring_tell_untaken(r->ring, s->untaken + s->taken);
        return;
    }
}

void untaken_came(struct op_session *s) {
    s->untaken++;
    untaken_tell(s);
}

void untaken_taken(struct worker *w, struct op_session *s) {
    assert(s->untaken > 0);
    s->untaken--;
    s->taken++;
    if (!s->shut && list_empty(&s->untaken_node))
        list_append(&w->untaken, &s->untaken_node);
}

void untaken_gone(struct op_session *s) {
    assert(s->untaken > 0);
    s->untaken--;
    untaken_tell(s);
}

void untaken_tell_all(struct worker *w) {
    for (struct list *node; (node = list_pop(&w->untaken));) {
        struct op_session *s = list_entry(node, struct op_session, untaken_node);
        s->taken = 0;
        untaken_tell(s);
    }
}
