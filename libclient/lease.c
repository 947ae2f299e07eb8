/* SPDX-License-Identifier: MIT */
/*
 * lease.c - leases, granted and attached.
 *
 * A lease enters the session's table in the moment its reply arrives, before any later message is
 * looked at, so that no event of it is missed. Its object is made beforehand for that.
 */
#include "libclient/internal.h"

#include "common/uri.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TTL_MS 60000u
/* ---- the table ----------------------------------------------------------------------------- */

static uint64_t number_of(const struct rdmad_lease *lease) {
    return lease->owner ? lease->id : lease->handle;
}

static struct rdmad_lease **bucket(struct rdmad_session *s, uint64_t number) {
    /* Handles differ in low bits (index) or in high ones (generation): fold them. */
    return &s->lease[(number ^ number >> 32) % RDMAD_LEASE_BUCKETS];
}

struct rdmad_lease *rdmad_lease_find(struct rdmad_session *s, bool owner, uint64_t number) {
    struct rdmad_lease *l = *bucket(s, number);

    while (l && (l->owner != owner || number_of(l) != number))
        l = l->next;
    return l;
}

static void link_lease(struct rdmad_lease *lease) {
    struct rdmad_lease **head = bucket(lease->session, number_of(lease));

    lease->next = *head;
    *head = lease;
    lease->linked = true;
}

/* With the lock. */
static void unlink_lease(struct rdmad_lease *lease) {
    struct rdmad_lease **at = bucket(lease->session, number_of(lease));

    rdmad_event_forget(lease);
    rdmad_lent_forget(&lease->lent);
    if (!lease->linked)
        return;
    while (*at != lease)
        at = &(*at)->next;
    *at = lease->next;
    lease->linked = false;
}

void rdmad_leases_dispose(struct rdmad_session *s) {
    for (unsigned i = 0; i < RDMAD_LEASE_BUCKETS; i++) {
        for (struct rdmad_lease *lease = s->lease[i], *next; lease; lease = next) {
            next = lease->next;
            rdmad_object_end(&lease->object, RDMAD_KIND_LEASE, lease->id, "rdmad_close");
            rdmad_object_keep(&lease->object, sizeof(*lease));
        }
    }
}

static uint64_t later(uint64_t when_ns, uint64_t by_ns) {
    uint64_t sum;

    return __builtin_add_overflow(when_ns, by_ns, &sum) ? UINT64_MAX : sum;
}

/* ---- the owner's side ---------------------------------------------------------------------- */

static int fill_grant(struct rdmad_session *s, void *memory, size_t length,
                      const struct rdmad_lease_terms *terms, struct rdmad_lease_grant_req *out,
                      struct rdmad_lent *lent) {
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    struct rdmad_pool *pool;
    int rc;

    rc = rdmad_sized_read(s, &rdmad_sized_lease_terms, terms, &t);
    if (rc)
        return rc;
    *out = (struct rdmad_lease_grant_req){.length = length,
                                          .ttl_ns =
                                              rdmad_ms_to_ns(t.ttl_ms ? t.ttl_ms : DEFAULT_TTL_MS),
                                          .rights = t.rights ? t.rights : RDMAD_RIGHTS_DEFAULT,
                                          .scope = t.scope,
                                          .scope_uid = t.scope_uid,
                                          .max_attaches = t.max_attaches,
                                          .flags = t.flags,
                                          .ends_after = t.ends_after};
    rc = rdmad_copy_text(s, out->scope_peer, sizeof(out->scope_peer), t.scope_peer,
                         "address in scope_peer", RDMAD_E_INVAL);
    if (!rc)
        rc = rdmad_copy_text(s, out->name, sizeof(out->name), t.name, "name", RDMAD_E_NAME);
    if (rc)
        return rc;
    pthread_mutex_lock(&s->lock);
    pool = rdmad_pool_of(s, memory);
    if (pool) {
        out->pool = pool->handle;
        out->offset = (uintptr_t)memory - (uintptr_t)pool->base;
        rc = rdmad_lend(pool, memory, length, lent);
    }
    pthread_mutex_unlock(&s->lock);
    if (!pool)
        return rdmad_fail(s, RDMAD_E_RANGE,
                          "%p lies in no pool of this session: grant leases on memory that "
                          "rdmad_alloc gave out",
                          memory);
    if (rc)
        return rdmad_fail(s, rc,
                          "no room for the record of one more lease on %p: end some that are on "
                          "the same bytes",
                          memory);
    return 0;
}

static void granted(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_lease_grant_rep *reply = call->reply;
    struct rdmad_lease *lease = call->object.lease;

    (void)s;
    lease->id = lease->lent.lease = reply->lease;
    lease->deadline_ns = later(lease->deadline_ns, reply->ttl_ns);
    memcpy(lease->uri, reply->uri, sizeof(lease->uri));
    lease->uri[RDMAD_URI_MAX] = '\0';
    link_lease(lease);
}

/* NULL: has failed. */
static struct rdmad_lease *lease_new(struct rdmad_session *s, bool owner) {
    struct rdmad_lease *lease = calloc(1, sizeof(*lease));

    if (!lease) {
        rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a lease");
        return NULL;
    }
    rdmad_object_init(&lease->object, RDMAD_KIND_LEASE);
    lease->session = s;
    lease->owner = owner;
    lease->deadline_ns = rdmad_boottime_ns(); /* when the request is sent; the ttl comes on top */
    return lease;
}

static int make(struct rdmad_session *s, struct rdmad_lease *lease, struct rdmad_call *call,
                rdmad_lease **out) {
    int rc = rdmad_control_call(s, call);

    if (rc) {
        rdmad_lent_end(s, &lease->lent);
        free(lease);
    } else {
        *out = lease;
    }
    return rc;
}

int rdmad_lease_grant(rdmad_session *s, void *memory, size_t length,
                      const struct rdmad_lease_terms *terms, rdmad_lease **out) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_lease_grant_req request = {.length = 0};
    struct rdmad_lease_grant_rep reply;
    struct rdmad_lease *lease;
    int rc;

    *out = NULL;
    lease = lease_new(s, true);
    if (!lease)
        return RDMAD_E_NOMEM;
    rc = fill_grant(s, memory, length, terms, &request, &lease->lent);
    if (rc) {
        free(lease);
        return rc;
    }
    lease->length = length;
    lease->rights = request.rights;
    struct rdmad_call call = {.type = RDMAD_MSG_LEASE_GRANT,
                              .request = &request,
                              .request_size = sizeof(request),
                              .reply = &reply,
                              .reply_size = sizeof(reply),
                              .accept = granted,
                              .object.lease = lease};
    return make(s, lease, &call, out);
}

static int owners_only(const struct rdmad_lease *lease, const char *what) {
    if (lease->owner)
        return 0;
    return rdmad_fail(lease->session, RDMAD_E_PERM, "only its owner can %s lease %llu", what,
                      (unsigned long long)lease->id);
}

int rdmad_lease_renew(rdmad_lease *lease, uint64_t ttl_ms) {
    RDMAD_LIVE(lease, LEASE);
    struct rdmad_lease_renew_req request = {.lease = lease->id, .ttl_ns = rdmad_ms_to_ns(ttl_ms)};
    struct rdmad_call call = {
        .type = RDMAD_MSG_LEASE_RENEW, .request = &request, .request_size = sizeof(request)};
    uint64_t sent = rdmad_boottime_ns();
    int rc = owners_only(lease, "renew");

    if (!rc)
        rc = rdmad_control_call(lease->session, &call);
    if (rc)
        return rc;
    pthread_mutex_lock(&lease->session->lock);
    lease->deadline_ns = later(sent, request.ttl_ns);
    pthread_mutex_unlock(&lease->session->lock);
    return 0;
}

static int tell_revoke(struct rdmad_lease *lease, bool quiet) {
    struct rdmad_lease_revoke_req request = {.lease = lease->id};
    struct rdmad_call call = {.type = RDMAD_MSG_LEASE_REVOKE,
                              .request = &request,
                              .request_size = sizeof(request),
                              .quiet = quiet};

    return rdmad_control_call(lease->session, &call);
}

static int ended(struct rdmad_lease *lease) {
    int why;

    pthread_mutex_lock(&lease->session->lock);
    why = lease->ended;
    pthread_mutex_unlock(&lease->session->lock);
    return why;
}

int rdmad_lease_revoke(rdmad_lease *lease) {
    RDMAD_LIVE(lease, LEASE);
    struct rdmad_session *s = lease->session;
    int rc = owners_only(lease, "revoke");

    if (rc)
        return rc;
    if (ended(lease))
        return 0; /* its event has come: nobody can touch the memory */
    rc = tell_revoke(lease, false);
    if (rc)
        return ended(lease) ? 0 : rc; /* it ended by itself meanwhile */
    pthread_mutex_lock(&s->lock);
    rdmad_event_lease_ended(lease, RDMAD_E_LEASE_REVOKED, "the lease was revoked");
    rdmad_event_signal(s);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

int rdmad_lease_get_audit(rdmad_lease *lease, struct rdmad_lease_audit *out) {
    RDMAD_LIVE(lease, LEASE);
    struct rdmad_lease_stat_req request = {.lease = lease->id};
    struct rdmad_lease_stat_rep reply = {.lease = 0};
    struct rdmad_call call = {.type = RDMAD_MSG_LEASE_STAT,
                              .request = &request,
                              .request_size = sizeof(request),
                              .reply = &reply,
                              .reply_size = sizeof(reply)};
    int rc = owners_only(lease, "ask for the use of");

    if (!rc)
        rc = rdmad_sized_check(lease->session, &rdmad_sized_lease_audit, out);
    if (!rc)
        rc = rdmad_control_call(lease->session, &call);
    if (rc)
        return rc;
    const struct rdmad_lease_audit full = {.bytes_read = reply.bytes_read,
                                           .bytes_written = reply.bytes_written,
                                           .ops = reply.ops,
                                           .idle_ms = rdmad_ns_to_ms(reply.idle_ns),
                                           .attached = reply.attached,
                                           .attached_total = reply.attached_total,
                                           .said_bytes_read = reply.said_bytes_read,
                                           .said_bytes_written = reply.said_bytes_written,
                                           .said_ops = reply.said_ops};
    rdmad_sized_fill(&rdmad_sized_lease_audit, out, &full);
    return 0;
}

/* ---- the lessee's side --------------------------------------------------------------------- */

static void attached(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_lease_attach_rep *reply = call->reply;
    struct rdmad_lease *lease = call->object.lease;

    (void)s;
    lease->id = reply->lease;
    lease->handle = reply->handle;
    lease->requested = call->type == RDMAD_MSG_LEASE_REQUEST;
    lease->length = reply->length;
    lease->rights = reply->rights;
    lease->deadline_ns = later(lease->deadline_ns, reply->ttl_ns);
    memcpy(lease->fabric, reply->fabric, sizeof(lease->fabric));
    lease->fabric[sizeof(lease->fabric) - 1] = '\0';
    link_lease(lease);
}

int rdmad_lease_take(struct rdmad_session *s, uint16_t type, const void *request, size_t size,
                     const char uri[RDMAD_URI_MAX + 1], struct rdmad_lease **out) {
    struct rdmad_lease_attach_rep reply;
    struct rdmad_lease *lease = lease_new(s, false);

    if (!lease)
        return RDMAD_E_NOMEM;
    memcpy(lease->uri, uri, sizeof(lease->uri));
    struct rdmad_call call = {.type = type,
                              .request = request,
                              .request_size = size,
                              .reply = &reply,
                              .reply_size = sizeof(reply),
                              .accept = attached,
                              .object.lease = lease};
    return make(s, lease, &call, out);
}

int rdmad_lease_attach(rdmad_session *s, const char *uri, int timeout_ms, rdmad_lease **out) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_lease_attach_req request = {.timeout_ns = (uint64_t)timeout_ms * RDMAD_NS_PER_MS};
    int n;

    *out = NULL;
    if (rdmad_check_request(s, timeout_ms))
        return RDMAD_E_INVAL;
    if (!uri)
        uri = ""; /* which the daemon refuses with a sentence */
    /* A bare name is one published on the same daemon. */
    n = snprintf(request.uri, sizeof(request.uri), "%s%s", rdmad_name_ok(uri) ? "rdmad:///" : "",
                 uri);
    if (n < 0 || (size_t)n >= sizeof(request.uri))
        return rdmad_fail(s, RDMAD_E_URI, "the lease URI is longer than %u characters",
                          RDMAD_URI_MAX);
    return rdmad_lease_take(s, RDMAD_MSG_LEASE_ATTACH, &request, sizeof(request), request.uri, out);
}

/* Also of a lease that has ended: until then the daemon keeps the handle, to say why. */
static void tell_release(struct rdmad_lease *lease) {
    struct rdmad_lease_release_req request = {.handle = lease->handle};
    struct rdmad_call call = {.type = RDMAD_MSG_LEASE_RELEASE,
                              .request = &request,
                              .request_size = sizeof(request),
                              .quiet = true};

    rdmad_control_call(lease->session, &call);
}

/* ---- both sides ---------------------------------------------------------------------------- */

void rdmad_lease_forget(struct rdmad_lease *lease) {
    struct rdmad_session *s = lease->session;

    pthread_mutex_lock(&s->lock);
    unlink_lease(lease);
    rdmad_event_signal(s);
    pthread_mutex_unlock(&s->lock);
    rdmad_object_keep(&lease->object, sizeof(*lease));
}

void rdmad_lease_free(rdmad_lease *lease) {
    struct rdmad_session *s;

    if (!lease)
        return;
    rdmad_object_end(&lease->object, RDMAD_KIND_LEASE, lease->id, __func__);
    s = lease->session;
    if (!rdmad_is_lost(s)) {
        if (!lease->owner)
            tell_release(lease);
        else if (!ended(lease) && tell_revoke(lease, true) == 0)
            rdmad_lent_end(s, &lease->lent);
    }
    rdmad_lease_forget(lease);
}

void rdmad_lease_get_info(const rdmad_lease *lease, struct rdmad_lease_info *out) {
    RDMAD_LIVE(lease, LEASE);
    struct rdmad_session *s = lease->session;
    uint64_t now = rdmad_boottime_ns();
    struct rdmad_lease_info full;

    rdmad_sized_must(&rdmad_sized_lease_info, out, __func__);
    pthread_mutex_lock(&s->lock);
    rdmad_control_look(s);
    full = (struct rdmad_lease_info){.id = lease->id,
                                     .length = lease->length,
                                     .rights = lease->rights,
                                     .ended = lease->ended ? lease->ended : s->lost,
                                     .uri = lease->uri,
                                     .fabric = lease->fabric};
    if (!full.ended && lease->deadline_ns > now)
        full.ttl_ms = rdmad_ns_to_ms(lease->deadline_ns - now);
    pthread_mutex_unlock(&s->lock);
    rdmad_sized_fill(&rdmad_sized_lease_info, out, &full);
}

const char *rdmad_lease_uri(const rdmad_lease *lease) {
    RDMAD_LIVE(lease, LEASE);
    return lease->uri;
}
