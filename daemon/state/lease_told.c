/* SPDX-License-Identifier: MIT */
/*
 * lease_told.c - what an owner's client hears of the end of its leases.
 *
 * A client that reads is told at once, and the lease is gone. For one that does not, the lease
 * itself waits, with nothing left of it but its number, its reason and its charge: so there is no
 * queue that many ends could overflow, no memory that could be missing, and a client that never
 * reads has no more than limits.leases_per_session of them.
 */
#include "daemon/state/lease_table.h"
#include <rdmad/wire.h>
#include <stdlib.h>
#include <string.h>

static void told(struct lease *l) {
    list_remove(&l->owner_node);
    quota_discharge(&l->charge);
    free(l);
}

static void send_end(const struct lease *l, struct session *s) {
    struct rdmad_ev_lease_ended ev = {.lease = l->id, .reason = l->reason};
    struct error why;
    lease_ended_error(l->id, l->reason, 0, &why);
    memcpy(ev.text, why.text, sizeof(ev.text));
    session_send(s, RDMAD_EV_LEASE_ENDED, 0, &ev, sizeof(ev), NULL, 0);
}

void lease_tell_owner(struct lease *l) {
    struct session *s = l->owner;
    if (!s->closing && session_lags(s)) {
        list_append(&s->leases_untold, &l->owner_node);
        return;
    }
    send_end(l, s);
    told(l);
}

void leases_tell(struct session *s) {
    struct list *node;
    while (!session_lags(s) && (node = list_first(&s->leases_untold))) {
        struct lease *l = list_entry(node, struct lease, owner_node);
        send_end(l, s);
        told(l);
    }
}

void leases_forget_untold(struct session *s) {
    struct list *node;
    while ((node = list_first(&s->leases_untold)))
        told(list_entry(node, struct lease, owner_node));
}
