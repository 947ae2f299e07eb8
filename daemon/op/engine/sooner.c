/* SPDX-License-Identifier: MIT */
/*
 * sooner.c - a lease's ops are looked at from the first to the last, and each goes to the end.
 *
 * An owner renews as often as it likes, to later and to sooner, and lessees may have tens of
 * thousands of ops on the lease. So a turn looks at SOONER_LOOKS in all; a lease that comes nearer
 * once more goes on where it was, for as many as it has ops. Until an op is looked at it is due
 * when it was before: the lease's end finds it in any case.
 */
#include "daemon/op/engine/sooner.h"
#include "daemon/op/engine/life.h"

#define SOONER_LOOKS 512u

void lease_is_sooner(struct worker *w, struct op_lease *lease) {
    lease->to_look_at = lease->inflight;
    if (list_empty(&lease->sooner_node) && lease->to_look_at)
        list_append(&w->sooner, &lease->sooner_node);
}

/* False: none is left to look at. */
static bool look_at_next(struct worker *w, struct op_lease *lease) {
    struct list *pos = list_first(&lease->ops);
    if (!pos || !lease->to_look_at)
        return false;
    lease->to_look_at--;
    list_remove(pos);
    list_append(&lease->ops, pos);
    op_set_due(w, list_entry(pos, struct op, holds_node));
    return true;
}

/* Leases take turns, so one with few ops does not wait for one with many. */
void sooner_run(struct worker *w) {
    struct list *pos;
    for (unsigned looks = 0; looks < SOONER_LOOKS && (pos = list_pop(&w->sooner)); looks++)
        if (look_at_next(w, list_entry(pos, struct op_lease, sooner_node)))
            list_append(&w->sooner, pos);
    w->gated |= !list_empty(&w->sooner);
}
