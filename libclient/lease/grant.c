/* SPDX-License-Identifier: MIT */
/*
 * grant.c - what an owner does with leases: grants them, renews them, and asks how they are used.
 */
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/sized.h"
#include "libclient/base/text.h"
#include "libclient/lease/lease.h"
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TTL_MS 60000u

static int grant_fill(struct rdmad_session *s, void *memory, size_t length,
                      const struct rdmad_lease_terms *terms, struct rdmad_lease_grant_req *out,
                      struct rdmad_lent *lent) {
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    int rc = rdmad_sized_read(s, &rdmad_sized_lease_terms, terms, &t);
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
    struct rdmad_pool *pool = rdmad_lend(s, memory, length, lent, &rc);
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
    out->pool = pool->handle;
    out->offset = (uintptr_t)memory - (uintptr_t)pool->base;
    return 0;
}

static void lease_granted(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_lease_grant_rep *reply = call->reply;
    struct rdmad_lease *lease = call->object.lease;
    (void)s;
    lease->id = lease->lent.lease = reply->lease;
    memcpy(lease->uri, reply->uri, sizeof(lease->uri));
    lease->uri[RDMAD_URI_MAX] = '\0';
    rdmad_lease_accept(lease, reply->ttl_ns);
}

int rdmad_lease_grant(rdmad_session *s, void *memory, size_t length,
                      const struct rdmad_lease_terms *terms, rdmad_lease **out) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_lease_grant_req request = {.length = 0};
    struct rdmad_lease_grant_rep reply;
    struct rdmad_lease *lease;
    int rc;

    *out = NULL;
    if (rdmad_is_inherited(s))
        return rdmad_fail_lost(s);
    lease = rdmad_lease_new(s, RDMAD_LEASE_GRANTED);
    if (!lease)
        return RDMAD_E_NOMEM;
    rc = grant_fill(s, memory, length, terms, &request, &lease->lent);
    if (rc) {
        free(lease);
        return rc;
    }
    lease->length = length;
    lease->rights = request.rights;
    lease->grant = request;
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_LEASE_GRANT, request, reply),
                              .accept = lease_granted, .object.lease = lease};
    return rdmad_lease_make(lease, &call, out);
}

struct renewal {
    struct rdmad_lease_renew_req request;
    uint64_t asked_ns;
};

static void renewal_fill(struct rdmad_session *s, const struct rdmad_call *call, void *request) {
    _Static_assert(offsetof(struct renewal, request) == 0, "fill gets the request");
    rdmad_lease_fill_number(s, call, request);
    ((struct renewal *)request)->asked_ns = rdmad_boottime_ns();
}

/* With the lock, as soon as the daemon has answered: the next one is told the same. */
static void renewal_accept(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct renewal *renewal = call->request;
    struct rdmad_lease *lease = call->object.lease;
    (void)s;
    lease->deadline_ns = rdmad_ns_later(renewal->asked_ns, renewal->request.ttl_ns);
    lease->grant.ttl_ns = renewal->request.ttl_ns;
}

int rdmad_lease_renew(rdmad_lease *lease, uint64_t ttl_ms) {
    RDMAD_LIVE(lease, LEASE);
    struct renewal renewal = {.request.ttl_ns = rdmad_ms_to_ns(ttl_ms)};
    struct rdmad_call call = {.type = RDMAD_MSG_LEASE_RENEW,
                              .request = &renewal,
                              .request_size = sizeof(renewal.request),
                              .accept = renewal_accept,
                              .fill = renewal_fill,
                              .object.lease = lease};
    int rc = rdmad_lease_owner_only(lease, "renew");
    return rc ? rc : rdmad_control_call(lease->session, &call);
}

int rdmad_lease_get_audit(rdmad_lease *lease, struct rdmad_lease_audit *out) {
    RDMAD_LIVE(lease, LEASE);
    struct rdmad_lease_stat_req request = {.lease = 0};
    struct rdmad_lease_stat_rep reply = {.lease = 0};
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_LEASE_STAT, request, reply),
                              .fill = rdmad_lease_fill_number, .object.lease = lease};
    int rc = rdmad_lease_owner_only(lease, "ask for the use of");
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
