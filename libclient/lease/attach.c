/* SPDX-License-Identifier: MIT */
/*
 * attach.c - what a lessee does with leases: attaches to one, or asks a service for memory and
 * hands it over; hands a part on to others; keeps a lease alive.
 */
#include "common/uri.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/sized.h"
#include "libclient/base/text.h"
#include "libclient/lease/lease.h"
#include <stdio.h>
#include <string.h>

static void lease_attached(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_lease_attach_rep *reply = call->reply;
    struct rdmad_lease *lease = call->object.lease;
    (void)s;
    lease->id = reply->lease;
    lease->handle = reply->handle;
    lease->length = reply->length;
    lease->rights = reply->rights;
    memcpy(lease->fabric, reply->fabric, sizeof(lease->fabric));
    lease->fabric[sizeof(lease->fabric) - 1] = '\0';
    rdmad_lease_accept(lease, reply->ttl_ns);
}

/* A request of that type whose answer is an attach: *out is the lease. */
static int lease_attach_by(struct rdmad_session *s, enum rdmad_lease_side side, uint16_t type,
                           const void *request, size_t size, const char uri[RDMAD_URI_MAX + 1],
                           struct rdmad_lease **out) {
    struct rdmad_lease_attach_rep reply;
    struct rdmad_lease *lease = rdmad_lease_new(s, side);

    if (!lease)
        return RDMAD_E_NOMEM;
    memcpy(lease->uri, uri, sizeof(lease->uri));
    struct rdmad_call call = {.type = type,
                              .request = request,
                              .request_size = size,
                              .reply = &reply,
                              .reply_size = sizeof(reply),
                              .accept = lease_attached,
                              .object.lease = lease};
    return rdmad_lease_make(lease, &call, out);
}

int rdmad_lease_attach(rdmad_session *s, const char *uri, int timeout_ms, rdmad_lease **out) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_lease_attach_req request = {.timeout_ns = (uint64_t)timeout_ms * RDMAD_NS_PER_MS};
    *out = NULL;
    if (rdmad_check_request(s, timeout_ms))
        return RDMAD_E_INVAL;
    if (!uri)
        uri = ""; /* which the daemon refuses with a sentence */
    /* A bare name is one published on the same daemon. */
    int n = snprintf(request.uri, sizeof(request.uri), "%s%s",
                     rdmad_name_ok(uri) ? "rdmad:///" : "", uri);
    if (n < 0 || (size_t)n >= sizeof(request.uri))
        return rdmad_fail(s, RDMAD_E_URI, "the lease URI is longer than %u characters",
                          RDMAD_URI_MAX);
    return lease_attach_by(s, RDMAD_LEASE_ATTACHED, RDMAD_MSG_LEASE_ATTACH, &request,
                           sizeof(request), request.uri, out);
}

int rdmad_lease_delegate(rdmad_lease *lease, uint64_t offset, size_t length,
                         const struct rdmad_lease_terms *terms, int timeout_ms,
                         char uri[RDMAD_URI_MAX + 1]) {
    RDMAD_LIVE(lease, LEASE);
    struct rdmad_session *s = lease->session;
    struct rdmad_lease_grant_rep reply;
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    int rc = rdmad_lease_lessee_only(lease, "handed on");

    uri[0] = '\0';
    if (!rc)
        rc = rdmad_check_request(s, timeout_ms);
    if (!rc)
        rc = rdmad_sized_read(s, &rdmad_sized_lease_terms, terms, &t);
    if (rc)
        return rc;
    struct rdmad_lease_delegate_req request = {
        .handle = lease->handle,
        .offset = offset,
        .length = length,
        .ttl_ns = t.ttl_ms ? rdmad_ms_to_ns(t.ttl_ms) : UINT64_MAX, /* the daemon cuts it */
        .timeout_ns = (uint64_t)timeout_ms * RDMAD_NS_PER_MS,
        .rights = t.rights,
        .max_attaches = t.max_attaches,
    };
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_LEASE_DELEGATE, request, reply)};
    rc = rdmad_control_call(s, &call);
    if (rc)
        return rc;
    memcpy(uri, reply.uri, sizeof(reply.uri));
    uri[RDMAD_URI_MAX] = '\0';
    return 0;
}

int rdmad_lease_request(rdmad_session *s, const char *service_uri, size_t bytes,
                        const struct rdmad_lease_terms *terms, int timeout_ms, rdmad_lease **out) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    int rc = rdmad_sized_read(s, &rdmad_sized_lease_terms, terms, &t);

    *out = NULL;
    if (!rc)
        rc = rdmad_check_request(s, timeout_ms);
    if (!rc && bytes == 0)
        rc = rdmad_fail(s, RDMAD_E_INVAL, "a request for no bytes: ask for one at least");
    if (rc)
        return rc;
    struct rdmad_lease_request_req request = {.bytes = bytes,
                                              .ttl_ns = rdmad_ms_to_ns(t.ttl_ms),
                                              .timeout_ns = (uint64_t)timeout_ms * RDMAD_NS_PER_MS,
                                              .rights = t.rights};
    rc = rdmad_copy_text(s, request.uri, sizeof(request.uri), service_uri, "service URI",
                         RDMAD_E_URI);
    if (rc)
        return rc;
    return lease_attach_by(s, RDMAD_LEASE_REQUESTED, RDMAD_MSG_LEASE_REQUEST, &request,
                           sizeof(request), request.uri, out);
}

/* With the lock, as soon as the daemon has answered: the lease does not end with that daemon. */
static void lease_handed_over(struct rdmad_session *s, const struct rdmad_call *call) {
    (void)s;
    call->object.lease->let_go = true;
}

int rdmad_lease_hand_over(rdmad_lease *lease) {
    RDMAD_LIVE(lease, LEASE);
    struct rdmad_lease_hand_over_req request = {.handle = lease->handle};
    struct rdmad_call call = {.type = RDMAD_MSG_LEASE_HAND_OVER,
                              .request = &request,
                              .request_size = sizeof(request),
                              .accept = lease_handed_over,
                              .object.lease = lease};
    int rc = rdmad_lease_lessee_only(lease, "handed over");
    if (!rc)
        rc = rdmad_control_call(lease->session, &call);
    if (!rc) {
        rdmad_object_end(&lease->object, RDMAD_KIND_LEASE, rdmad_lease_number(lease), __func__);
        rdmad_lease_forget(lease);
    }
    return rc;
}

/* With the lock, as soon as the daemon has answered: the next one is told the same. */
static void lease_kept(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_lease_keep_req *request = call->request;
    (void)s;
    call->object.lease->kept = request->on;
}

int rdmad_lease_keep(rdmad_lease *lease, int on) {
    RDMAD_LIVE(lease, LEASE);
    struct rdmad_lease_keep_req request = {.handle = lease->handle, .on = on != 0};
    struct rdmad_call call = {.type = RDMAD_MSG_LEASE_KEEP,
                              .request = &request,
                              .request_size = sizeof(request),
                              .accept = lease_kept,
                              .object.lease = lease};
    int rc = rdmad_lease_lessee_only(lease, "kept by a lessee");
    return rc ? rc : rdmad_control_call(lease->session, &call);
}
