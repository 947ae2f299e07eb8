/* SPDX-License-Identifier: MIT */
/*
 * lend.c - what a lessee asks of a lease that it has, beyond using it: a narrower one for somebody
 * else, and more time.
 */
#include "daemon/base/clock.h"
#include "daemon/peer/peer.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/later.h"
#include "daemon/state/delegate.h"
#include "daemon/state/handle.h"
#include <inttypes.h>
#include <string.h>

/* One that can be used now; NULL: err tells. */
static struct handle *usable(const struct request *rq, uint64_t number, struct error *err) {
    struct handle *h = handle_find(rq->session, number);
    if (!h || h->returned)
        error_set(err, RDMAD_E_HANDLE,
                  "this session has no lease handle %" PRIu64 ", or released it already", number);
    else if (h->stage != HANDLE_USABLE)
        error_set(err, h->reason, "%s", h->text);
    else
        return h;
    return NULL;
}

/* ---- delegate ------------------------------------------------------------------------------ */

/* Checks what would be wrong at the owner's daemon, too; that one judges the rest. */
static int fill_part(const struct rdmad_lease_delegate_req *req, const struct handle *h,
                     struct lease_part *out, struct error *err) {
    *out =
        (struct lease_part){.offset = req->offset,
                            .length = req->length,
                            .ttl_ns = req->ttl_ns,
                            .rights = req->rights ? req->rights : h->rights & ~RDMAD_RIGHT_DELEGATE,
                            .max_attaches = req->max_attaches};
    if (req->rights & ~RDMAD_RIGHTS_ALL)
        return error_set(err, RDMAD_E_INVAL, "rights 0x%" PRIx32 " are unknown", req->rights);
    const struct user_policy *policy = &h->session->policy;
    if (policy_check_attach(policy, out->rights, err) ||
        policy_check_grant(policy, UINT32_MAX, out->rights, err))
        return err->code;
    if (!req->length || req->offset > h->length || req->length > h->length - req->offset)
        return error_set(err, RDMAD_E_RANGE,
                         "offset %" PRIu64 " and length %" PRIu64 " are no part of lease %" PRIu64
                         " of %" PRIu64 " bytes",
                         req->offset, req->length, h->lease_id, h->length);
    return 0;
}

static void delegated(void *arg, const struct error *result,
                      const struct rdmad_lease_grant_rep *rep) {
    later_reply(arg, result, rep, sizeof(*rep));
}

static void delegate_here(const struct request *rq, struct handle *h,
                          const struct lease_part *part) {
    struct rdmad_lease_grant_rep rep = {0};
    struct lease *l;
    struct error err;
    if (lease_delegate(h->attachment.lease, part, &l, &err)) {
        serve_fail(rq, &err);
        return;
    }
    rep.lease = l->id;
    rep.ttl_ns = l->terms.ttl_ns;
    lease_uri(l, rep.uri);
    serve_reply(rq, &rep, sizeof(rep), NULL, 0);
}

void serve_lease_delegate(const struct request *rq, const void *body) {
    const struct rdmad_lease_delegate_req *req = body;
    struct lease_part part;
    struct request *later;
    struct error err;
    struct handle *h = usable(rq, req->handle, &err);

    if (!h || fill_part(req, h, &part, &err))
        serve_fail(rq, &err);
    else if (!h->remote)
        delegate_here(rq, h, &part);
    else if ((later = later_new(rq)))
        peer_delegate(h, &part, req->timeout_ns, delegated, later);
}

/* ---- keep ---------------------------------------------------------------------------------- */

void serve_lease_keep(const struct request *rq, const void *body) {
    const struct rdmad_lease_keep_req *req = body;
    struct request *later;
    struct error err;
    struct handle *h;

    if (req->reserved || req->on > 1) {
        error_set(&err, RDMAD_E_RESERVED,
                  "on must be 0 or 1 and reserved 0, they are %" PRIu32 " and %" PRIu32, req->on,
                  req->reserved);
        serve_fail(rq, &err);
    } else if (!(h = usable(rq, req->handle, &err))) {
        serve_fail(rq, &err);
    } else if ((later = later_new(rq))) {
        handle_keep(h, req->on, later_answer, later);
    }
}
