/* SPDX-License-Identifier: MIT */
/*
 * lease_told.c - what is said of a lease's end, and how its owner's client comes to hear of it.
 *
 * A client that reads is told at once, and the lease is gone. For one that does not, the lease
 * itself waits, with nothing left of it but its number, its reason and its charge: so there is no
 * queue that many ends could overflow, no memory that could be missing, and a client that never
 * reads has no more than limits.leases_per_session of them.
 */
#include "daemon/state/lease_told.h"
#include "daemon/base/clock.h"
#include "daemon/state/part_told.h"
#include <inttypes.h>
#include <rdmad/wire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int lease_ended_error(uint64_t id, int reason, uint64_t ago_ns, struct error *err) {
    char ago[48] = "";
    if (ago_ns >= NSEC_PER_SEC / 10)
        snprintf(ago, sizeof(ago), " %" PRIu64 ".%" PRIu64 " s ago", ago_ns / NSEC_PER_SEC,
                 ago_ns % NSEC_PER_SEC / (NSEC_PER_SEC / 10));
    switch (reason) {
    case RDMAD_E_LEASE_EXPIRED:
        return error_set(err, reason, "lease %" PRIu64 " expired%s; ask its owner for a new one",
                         id, ago);
    case RDMAD_E_LEASE_REVOKED:
        return error_set(err, reason, "lease %" PRIu64 " was revoked by its owner%s", id, ago);
    case RDMAD_E_LEASE_ADMIN:
        return error_set(err, reason,
                         "lease %" PRIu64 " was revoked by an administrator of its owner's "
                         "machine%s, not by its owner",
                         id, ago);
    case RDMAD_E_LEASE_RELEASED:
        return error_set(err, reason,
                         "lease %" PRIu64 " was released by whom it was for%s; ask its owner for a "
                         "new one",
                         id, ago);
    case RDMAD_E_LEASE_ORPHANED:
        return error_set(err, reason, "lease %" PRIu64 " ended%s: its owner is gone", id, ago);
    default:
        return error_set(err, reason, "lease %" PRIu64 " ended%s: %s", id, ago, error_text(reason));
    }
}

static void lease_free_told(struct lease *l) {
    late_event_drop(&l->late_end);
    quota_discharge(&l->charge);
    free(l);
}

static void lease_send_end(struct late_event *e) {
    struct lease *l = container_of(e, struct lease, late_end);
    struct rdmad_ev_lease_ended ev = {.lease = l->id, .reason = l->reason};
    struct error why;
    lease_ended_error(l->id, l->reason, 0, &why);
    memcpy(ev.text, why.text, sizeof(ev.text));
    session_send(l->owner, RDMAD_EV_LEASE_ENDED, 0, &ev, sizeof(ev), NULL, 0);
    lease_free_told(l);
}

void lease_tell_owner(struct lease *l) {
    if (l->parent) {
        part_tell_end(l);
    } else if (l->requested) {
        quota_discharge(&l->charge);
        free(l);
    } else {
        late_event_init(&l->late_end, lease_send_end);
        session_tell(l->owner, &l->late_end);
    }
}

void leases_forget_untold(struct session *s) {
    parts_forget_untold(s);
    list_for_each_safe (node, &s->late_events) {
        struct late_event *e = list_entry(node, struct late_event, node);
        if (e->send == lease_send_end)
            lease_free_told(container_of(e, struct lease, late_end));
    }
}
