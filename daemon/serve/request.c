/* SPDX-License-Identifier: MIT */
/*
 * request.c - memory of a service's budget: asked for, handed over, given back.
 *
 * The happy path: the URI names a service of this daemon, whose budget makes a lease (it may take a
 * moment to zero its memory), or of a peer, which does the same there; either becomes an attach. A
 * hand-over ends the lease and leaves the memory with the service's session, which gives it back
 * with BUDGET_FREE. A session that closes in the meantime is not answered, and its lease ends.
 */
#include "daemon/peer/peer.h"
#include "daemon/serve/attach.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/later.h"
#include "daemon/serve/reach.h"
#include "daemon/state/budget.h"
#include "daemon/state/service.h"
#include <inttypes.h>
#include <string.h>

/* ---- the request --------------------------------------------------------------------------- */

static int request_check(const struct rdmad_lease_request_req *req, struct rdmad_uri *uri,
                         struct request_terms *terms, struct error *err) {
    *terms = (struct request_terms){.bytes = req->bytes,
                                    .ttl_ns = req->ttl_ns,
                                    .rights = req->rights ? req->rights : RDMAD_RIGHTS_DEFAULT};
    if (req->reserved)
        return error_set(err, RDMAD_E_RESERVED, "the reserved field of a request is not zero");
    if (attach_parse_uri(req->uri, "service", uri, err))
        return err->code;
    if (!uri->name[0])
        return error_set(err, RDMAD_E_URI, "lease %" PRIu64 " is named, where a service should be",
                         uri->lease);
    if (!req->bytes)
        return error_set(err, RDMAD_E_INVAL, "a request is for at least one byte");
    if (req->rights & ~RDMAD_RIGHTS_ALL)
        return error_set(err, RDMAD_E_INVAL, "rights 0x%" PRIx32 " are unknown", req->rights);
    return 0;
}

/* The session closes while the budget makes its lease. */
static void request_cancel(struct handle *h) {
    struct attach_call *call = h->peer_record;
    call->handle = NULL;
    h->ops = NULL;
    handle_free(h);
}

static const struct handle_ops waiting = {.cancel = request_cancel};

static void request_granted(void *arg, struct lease *l, const struct error *result) {
    struct attach_call *call = arg;
    struct error err = *result;

    if (!call->handle) {
        error_set(&err, RDMAD_E_CANCELED, "the session ended during the request");
    } else {
        call->handle->ops = NULL;
        call->handle->peer_record = NULL;
        if (l && handle_attach_local(call->handle, l, attach_done, call, &err) == 0)
            return;
        handle_free(call->handle);
    }
    if (l)
        lease_end(l, RDMAD_E_LEASE_RELEASED, NULL, NULL);
    attach_done(call, &err);
}

static void request_here(struct attach_call *call, const struct rdmad_uri *uri,
                         const struct request_terms *terms) {
    struct session *s = call->rq.session;
    struct budget_ask ask = {.bytes = terms->bytes,
                             .ttl_ns = terms->ttl_ns,
                             .rights = terms->rights,
                             .who = {.session = s},
                             .uid = s->uid,
                             .node = s->state->node_name};
    struct service *sv;
    struct error err;

    if (service_find(s->state, uri->name, &sv, &err)) {
        attach_failed(call, &err);
    } else if (!sv->budget) {
        error_set(&err, RDMAD_E_BUDGET, "service \"%s\" gives out no memory", uri->name);
        attach_failed(call, &err);
    } else {
        call->handle->ops = &waiting;
        call->handle->peer_record = call;
        budget_request(sv->budget, &ask, request_granted, call);
    }
}

void serve_lease_request(const struct request *rq, const void *body) {
    const struct rdmad_lease_request_req *req = body;
    struct state *st = rq->session->state;
    struct request_terms terms;
    struct attach_call *call;
    struct rdmad_uri uri;
    struct error err;

    if (request_check(req, &uri, &terms, &err)) {
        serve_fail(rq, &err);
        return;
    }
    bool here = peers_is_self(st->peers, &uri);
    if (serve_check_reach(rq->session, &uri, here, &err)) {
        serve_fail(rq, &err);
        return;
    }
    call = attach_call_new(rq, &uri);
    if (!call)
        return;
    if (here && !handle_goes_by_link(st, terms.rights))
        request_here(call, &uri, &terms);
    else
        peer_request(st->peers, call->handle, &uri, &terms, attach_timeout(st, req->timeout_ns),
                     attach_done, call);
}

/* ---- the end ------------------------------------------------------------------------------- */

static int find_requested(const struct request *rq, uint64_t number, struct handle **out,
                          struct error *err) {
    struct handle *h = *out = handle_find(rq->session, number);
    if (!h || h->returned)
        return error_set(err, RDMAD_E_HANDLE,
                         "this session has no lease handle %" PRIu64 ", or released it already",
                         number);
    if (!h->requested)
        return error_set(err, RDMAD_E_INVAL,
                         "lease %" PRIu64 " was granted by its owner; only memory that was "
                         "requested of a service is handed over",
                         h->lease_id);
    if (h->stage != HANDLE_USABLE)
        return error_set(err, h->reason, "%s", h->text);
    return 0;
}

void serve_lease_hand_over(const struct request *rq, const void *body) {
    const struct rdmad_lease_hand_over_req *req = body;
    struct request *later;
    struct handle *h;
    struct error err;

    if (find_requested(rq, req->handle, &h, &err))
        serve_fail(rq, &err);
    else if ((later = later_new(rq)))
        handle_hand_over(h, later_answer, later);
}

void serve_budget_free(const struct request *rq, const void *body) {
    const struct rdmad_budget_free_req *req = body;
    struct service *sv = service_own(rq->session, req->service);
    struct error err;

    if (!sv)
        error_set(&err, RDMAD_E_NO_SERVICE, "this session has no service %" PRIu64, req->service);
    else if (!sv->budget)
        error_set(&err, RDMAD_E_BUDGET, "service \"%s\" has no budget", sv->terms.name);
    else if (budget_free(sv->budget, req->offset, &err) == 0) {
        serve_reply(rq, NULL, 0, NULL, 0);
        return;
    }
    serve_fail(rq, &err);
}
