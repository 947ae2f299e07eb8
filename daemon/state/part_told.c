/* SPDX-License-Identifier: MIT */
/*
 * part_told.c - parts of an owner's leases come and go, and its library hears of it.
 *
 * The memory of the first part whose end could not be told becomes the event that says that all is
 * void; of others nothing is kept.
 */
#include "daemon/state/part_told.h"
#include "daemon/state/origin.h"
#include "daemon/state/pool.h"
#include <assert.h>
#include <rdmad/wire.h>
#include <stdlib.h>

static struct lease *part_of_event(struct late_event *e) {
    return container_of(e, struct lease, late_end);
}

static void part_send(struct late_event *e) {
    struct lease *l = part_of_event(e);
    struct rdmad_part part = {.lease = l->id,
                              .parent = l->parent->id,
                              .pool = l->pool->handle,
                              .offset = l->terms.offset,
                              .length = l->terms.length,
                              .deadline_ns = l->deadline_ns,
                              .rights = l->terms.rights,
                              .max_attaches = l->terms.max_attaches};
    origin_part_proof(l->owner, &part, part.proof);
    l->part_told = true;
    session_send(l->owner, RDMAD_EV_LEASE_PART, 0, &part, sizeof(part), NULL, 0);
}

void part_tell(struct lease *l) {
    assert(l->parent);
    if (!origin_is_set(l->owner) || l->owner->version < RDMAD_ABI_PARTS || l->stage != LEASE_LIVE)
        return;
    if (!l->late_end.send)
        late_event_init(&l->late_end, part_send);
    session_tell(l->owner, &l->late_end);
}

static void parts_send_void(struct late_event *e) {
    struct lease *ended = part_of_event(e);
    struct session *s = ended->owner;
    const struct rdmad_part none = {.lease = 0};
    free(ended);
    s->parts_void = false;
    session_send(s, RDMAD_EV_LEASE_PART, 0, &none, sizeof(none), NULL, 0);
    list_for_each (node, &s->leases) {
        struct lease *l = list_entry(node, struct lease, owner_node);
        if (l->parent)
            part_tell(l);
    }
}

void part_tell_end(struct lease *l) {
    struct session *s = l->owner;
    const struct rdmad_part end = {.lease = l->id};
    quota_discharge(&l->charge);
    if (l->late_end.send)
        late_event_drop(&l->late_end);
    if (l->part_told && !s->closing && !s->parts_void) {
        if (session_lags(s)) {
            s->parts_void = true;
            late_event_init(&l->late_end, parts_send_void);
            session_tell(s, &l->late_end);
            return;
        }
        session_send(s, RDMAD_EV_LEASE_PART, 0, &end, sizeof(end), NULL, 0);
    }
    free(l);
}

void parts_forget_untold(struct session *s) {
    list_for_each_safe (node, &s->late_events) {
        struct late_event *e = list_entry(node, struct late_event, node);
        if (e->send != part_send && e->send != parts_send_void)
            continue;
        late_event_drop(e);
        if (e->send == parts_send_void)
            free(part_of_event(e));
    }
    s->parts_void = false;
}
