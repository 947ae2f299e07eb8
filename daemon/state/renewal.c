/* SPDX-License-Identifier: MIT */
/*
 * renewal.c - the attachments of a lease stand in the order in which they have heard of its
 * deadline: whoever hears goes to the end, where new ones come, which know it. So the first one
 * tells whether all have.
 */
#include "daemon/state/renewal.h"
#include "daemon/state/lease_types.h"
#include "daemon/state/state.h"
#include <assert.h>

static struct attachment *first_behind(struct lease *l) {
    struct list *node = list_first(&l->attachments);
    struct attachment *a = node ? list_entry(node, struct attachment, node) : NULL;
    return a && a->told_ns != l->deadline_ns ? a : NULL;
}

static void attachment_tell(struct attachment *a) {
    struct lease *l = a->lease;
    list_remove(&a->node);
    list_append(&l->attachments, &a->node);
    a->told_ns = l->deadline_ns;
    if (a->stage != ATTACHMENT_HELD)
        return;
    if (a->window)
        plane_window_extend(a->window, l->deadline_ns);
    a->ops->renewed(a);
}

/* Returns how many that was. */
static unsigned tell_some(struct lease *l, unsigned most) {
    struct attachment *a;
    unsigned n = 0;
    l->busy++;
    for (; n < most && (a = first_behind(l)); n++)
        attachment_tell(a);
    l->busy--;
    return n;
}

/* Without memory for a pass all hear now. */
static void renewal_pass_set(struct renewals *rs) {
    if (!timer_set(&rs->state->timers, &rs->pass, 0))
        return;
    for (struct list *node; (node = list_pop(&rs->behind));)
        tell_some(list_entry(node, struct lease, behind), UINT32_MAX);
}

/* Leases take turns, so one with few lessees does not wait for one with many. */
static void run_pass(struct timer *timer, uint64_t now_ns) {
    struct renewals *rs = container_of(timer, struct renewals, pass);
    struct list *node;
    (void)now_ns;
    for (unsigned n = 0; n < RENEWAL_A_PASS && (node = list_pop(&rs->behind));) {
        struct lease *l = list_entry(node, struct lease, behind);
        n += tell_some(l, RENEWAL_AT_ONCE);
        if (first_behind(l))
            list_append(&rs->behind, &l->behind);
    }
    if (!list_empty(&rs->behind))
        renewal_pass_set(rs);
}

void renewals_init(struct renewals *rs, struct state *st) {
    rs->state = st;
    list_init(&rs->behind);
    timer_init(&rs->pass, run_pass);
}

void renewals_fini(struct renewals *rs) {
    assert(list_empty(&rs->behind));
    timer_unset(&rs->state->timers, &rs->pass);
}

void renewal_tell(struct renewals *rs, struct lease *l) {
    if (!list_empty(&l->behind))
        return;     /* its turn comes */
    if (!l->parent) /* a part is one of many that the same request moves */
        tell_some(l, RENEWAL_AT_ONCE);
    if (!first_behind(l))
        return;
    list_append(&rs->behind, &l->behind);
    if (!timer_is_set(&rs->pass))
        renewal_pass_set(rs);
}

void renewal_end(struct lease *l) {
    list_remove(&l->behind);
}
