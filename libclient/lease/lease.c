/* SPDX-License-Identifier: MIT */
/*
 * lease.c - the table, what a lease tells, and what is known of it.
 */
#include "libclient/lease/lease.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/sized.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ----------------------------------------------------------------------------- */

static uint64_t lease_number_of(const struct rdmad_lease *lease) {
    return rdmad_lease_is_own(lease) ? lease->id : lease->handle;
}

static struct rdmad_lease **lease_bucket(struct rdmad_session *s, uint64_t number) {
    /* Handles differ in low bits (index) or in high ones (generation): fold them. */
    return &s->lease[(number ^ number >> 32) % RDMAD_LEASE_BUCKETS];
}

struct rdmad_lease *rdmad_lease_find(struct rdmad_session *s, bool owner, uint64_t number) {
    struct rdmad_lease *l = *lease_bucket(s, number);

    while (l && (rdmad_lease_is_own(l) != owner || lease_number_of(l) != number))
        l = l->next;
    return l;
}

static void lease_link(struct rdmad_lease *lease) {
    struct rdmad_lease **head = lease_bucket(lease->session, lease_number_of(lease));
    lease->next = *head;
    *head = lease;
}

/* With the lock. */
static void lease_unlink(struct rdmad_lease *lease) {
    struct rdmad_lease **at = lease_bucket(lease->session, lease_number_of(lease));
    while (*at != lease) {
        assert(*at);
        at = &(*at)->next;
    }
    *at = lease->next;
}

void rdmad_lease_renumber(struct rdmad_lease *lease, uint64_t id) {
    lease_unlink(lease);
    __atomic_store_n(&lease->id, id, __ATOMIC_RELAXED);
    lease->lent.lease = id;
    lease_link(lease);
}

void rdmad_lease_fill_number(struct rdmad_session *s, const struct rdmad_call *call,
                             void *request) {
    _Static_assert(offsetof(struct rdmad_lease_revoke_req, lease) == 0 &&
                       offsetof(struct rdmad_lease_renew_req, lease) == 0 &&
                       offsetof(struct rdmad_lease_stat_req, lease) == 0,
                   "the number comes first");
    (void)s;
    *(uint64_t *)request = call->object.lease->id;
}

void rdmad_lease_forget(struct rdmad_lease *lease) {
    struct rdmad_session *s = lease->session;
    pthread_mutex_lock(&s->lock);
    rdmad_event_unqueue(s, &lease->source);
    rdmad_lent_forget(&lease->lent);
    lease_unlink(lease);
    rdmad_event_signal(s);
    pthread_mutex_unlock(&s->lock);
    rdmad_object_retire(&lease->object, sizeof(*lease));
}

void rdmad_leases_dispose(struct rdmad_session *s) {
    for (unsigned i = 0; i < RDMAD_LEASE_BUCKETS; i++) {
        for (struct rdmad_lease *lease = s->lease[i], *next; lease; lease = next) {
            next = lease->next;
            rdmad_object_end(&lease->object, RDMAD_KIND_LEASE, lease->id, "rdmad_close");
            rdmad_object_retire(&lease->object, sizeof(*lease));
        }
    }
}

int rdmad_lease_owner_only(const struct rdmad_lease *lease, const char *what) {
    if (rdmad_lease_is_own(lease))
        return 0;
    return rdmad_fail(lease->session, RDMAD_E_PERM, "only its owner can %s lease %llu", what,
                      (unsigned long long)lease->id);
}

int rdmad_lease_lessee_only(const struct rdmad_lease *lease, const char *what) {
    if (!rdmad_lease_is_own(lease))
        return 0;
    return rdmad_fail(lease->session, RDMAD_E_PERM,
                      "lease %llu was granted by this session, not attached to: it cannot be %s",
                      (unsigned long long)lease->id, what);
}

/* ---- the way in ---------------------------------------------------------------------------- */

struct rdmad_lease *rdmad_lease_new(struct rdmad_session *s, enum rdmad_lease_side side) {
    struct rdmad_lease *lease = calloc(1, sizeof(*lease));

    if (!lease) {
        rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a lease");
        return NULL;
    }
    rdmad_object_init(&lease->object, RDMAD_KIND_LEASE);
    lease->session = s;
    lease->side = side;
    return lease;
}

/* The ttl counts from when the daemon is asked that grants it, not from when it was waited for. */
static void lease_fill_asked(struct rdmad_session *s, const struct rdmad_call *call,
                             void *request) {
    (void)s;
    (void)request;
    call->object.lease->deadline_ns = rdmad_boottime_ns(); /* the ttl comes on top */
}

int rdmad_lease_make(struct rdmad_lease *lease, struct rdmad_call *call, rdmad_lease **out) {
    call->fill = lease_fill_asked;
    int rc = rdmad_control_call(lease->session, call);
    if (rc) {
        rdmad_lent_end(lease->session, &lease->lent);
        free(lease);
    } else {
        *out = lease;
    }
    return rc;
}

void rdmad_lease_accept(struct rdmad_lease *lease, uint64_t ttl_ns) {
    lease->deadline_ns = rdmad_ns_later(lease->deadline_ns, ttl_ns);
    lease_link(lease);
}

/* ---- events -------------------------------------------------------------------------------- */

/* What happened first is told first. */
static bool lease_take_event(struct rdmad_event_source *source, struct rdmad_event *out) {
    struct rdmad_lease *lease = RDMAD_SOURCE_OF(source, struct rdmad_lease);
    out->lease = lease;
    out->lease_id = lease->id;
    out->user = lease->user;
    if (lease->tell_renewed) {
        lease->tell_renewed = false;
        out->type = RDMAD_EVENT_LEASE_RENEWED;
        snprintf(out->text, sizeof(out->text), "lease %llu was renewed",
                 (unsigned long long)lease->id);
    } else {
        lease->tell_ended = false;
        out->type = RDMAD_EVENT_LEASE_ENDED;
        out->reason = lease->ended;
        memcpy(out->text, lease->ended_text, sizeof(out->text));
    }
    return lease->tell_ended;
}

static void lease_queue_event(struct rdmad_lease *lease) {
    lease->source.take = lease_take_event;
    rdmad_event_queue(lease->session, &lease->source);
}

void rdmad_lease_ended(struct rdmad_lease *lease, int reason, const char *text) {
    if (lease->ended)
        return;
    lease->ended = reason;
    lease->ended_ns = rdmad_boottime_ns();
    snprintf(lease->ended_text, sizeof(lease->ended_text), "%s", text);
    lease->tell_ended = true;
    rdmad_lent_back(&lease->lent);
    lease_queue_event(lease);
}

void rdmad_lease_on_ended(struct rdmad_session *s, const void *body) {
    struct rdmad_ev_lease_ended e;
    struct rdmad_lease *lease;
    memcpy(&e, body, sizeof(e));
    e.text[RDMAD_TEXT_MAX] = '\0';
    lease = rdmad_lease_find(s, e.handle == 0, e.handle ? e.handle : e.lease);
    if (lease)
        rdmad_lease_ended(lease, e.reason, e.text);
}

void rdmad_lease_on_renewed(struct rdmad_session *s, const void *body) {
    struct rdmad_ev_lease_renewed e;
    memcpy(&e, body, sizeof(e));
    struct rdmad_lease *lease = rdmad_lease_find(s, false, e.handle);
    if (!lease || lease->ended)
        return;
    lease->deadline_ns = rdmad_boottime_ns() + e.ttl_ns;
    lease->tell_renewed = true;
    lease_queue_event(lease);
}

/* ---- what is known of it ------------------------------------------------------------------- */

/* The daemon gives one that is kept alive a whole ttl again whenever half of it is over, without a
 * word to its owner. */
static uint64_t lease_ends_ns(const struct rdmad_lease *lease, uint64_t now) {
    uint64_t half = lease->grant.ttl_ns / 2, began = lease->deadline_ns - lease->grant.ttl_ns;
    bool kept = rdmad_lease_is_own(lease) && (lease->grant.flags & RDMAD_LEASE_KEEP_ALIVE);
    if (!kept || !half || now < began)
        return lease->deadline_ns;
    return rdmad_ns_later(lease->deadline_ns, (now - began) / half * half);
}

void rdmad_lease_get_info(const rdmad_lease *lease, struct rdmad_lease_info *out) {
    RDMAD_LIVE(lease, LEASE);
    struct rdmad_session *s = lease->session;
    uint64_t now = rdmad_boottime_ns();
    rdmad_sized_must(&rdmad_sized_lease_info, out, __func__);
    pthread_mutex_lock(&s->lock);
    rdmad_control_look(s);
    struct rdmad_lease_info full = {.id = lease->id,
                                    .length = lease->length,
                                    .rights = lease->rights,
                                    .ended = lease->ended       ? lease->ended
                                             : rdmad_is_lost(s) ? RDMAD_E_DAEMON_LOST
                                                                : 0,
                                    .uri = lease->uri,
                                    .fabric = lease->fabric};
    uint64_t ends_ns = lease_ends_ns(lease, now);
    if (!full.ended && ends_ns > now)
        full.ttl_ms = rdmad_ns_to_ms(ends_ns - now);
    pthread_mutex_unlock(&s->lock);
    rdmad_sized_fill(&rdmad_sized_lease_info, out, &full);
}

const char *rdmad_lease_uri(const rdmad_lease *lease) {
    RDMAD_LIVE(lease, LEASE);
    return lease->uri;
}
