/* SPDX-License-Identifier: MIT */
/*
 * prompt.c - rings that are looked at between slices of long local ops.
 */
#include "daemon/op/engine/prompt.h"
#include "daemon/op/engine/admit.h"

void prompt_forget(struct op_ring *r) {
    if (list_empty(&r->prompt_node))
        return;
    list_remove(&r->prompt_node);
    r->session->user->prompt--;
    r->session->worker->nprompt--;
}

static void prompt_remember(struct worker *w, struct op_ring *r) {
    struct op_user *u = r->session->user;
    r->looks_in_vain = 0;
    if (!list_empty(&r->prompt_node) || u->limited || u->prompt >= PROMPT_OF_USER ||
        w->nprompt >= PROMPT_MOST)
        return;
    list_append(&w->prompt, &r->prompt_node);
    u->prompt++;
    w->nprompt++;
}

void prompt_note(struct worker *w) {
    list_for_each (pos, &w->dirty) {
        struct op_ring *r = list_entry(pos, struct op_ring, dirty_node);
        if (r->inflight == 0 && r->last_bytes <= PROMPT_BYTES && !r->ending)
            prompt_remember(w, r);
    }
}

unsigned prompt_serve(struct worker *w) {
    unsigned found = 0;
    list_for_each_safe (pos, &w->prompt) {
        struct op_ring *r = list_entry(pos, struct op_ring, prompt_node);
        if (ring_serve_early(w, r)) {
            r->looks_in_vain = 0;
            found++;
        } else if (++r->looks_in_vain >= PROMPT_LOOKS) {
            user_spend_beside(r->session->user, PROMPT_COST);
            prompt_forget(r);
        }
    }
    return found;
}
