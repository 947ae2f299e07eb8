/* SPDX-License-Identifier: MIT */
/*
 * service.c - names at which a session takes connections and requests: listen and close.
 */
#include "daemon/state/service.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/later.h"
#include "daemon/state/budget.h"
#include <inttypes.h>
#include <string.h>

static int service_copy_terms(const struct rdmad_service_listen_req *req, struct service_terms *out,
                              struct error *err) {
    if (!serve_text_ok(req->scope_peer, sizeof(req->scope_peer)) ||
        !serve_text_ok(req->name, sizeof(req->name)))
        return error_set(err, RDMAD_E_PROTOCOL,
                         "scope_peer and name of a service must be zero-filled texts");
    *out = (struct service_terms){
        .backlog = req->backlog,
        .scope = req->scope,
        .scope_uid = req->scope_uid,
        .budget_pool = req->budget_pool,
        .budget_offset = req->budget_offset,
        .budget_length = req->budget_length,
        .max_request = req->max_request,
        .max_ttl_ns = req->max_ttl_ns,
        .max_rights = req->max_rights,
    };
    memcpy(out->scope_peer, req->scope_peer, sizeof(out->scope_peer));
    memcpy(out->name, req->name, sizeof(out->name));
    return 0;
}

/* What leases of its budget may have. */
static uint32_t budget_rights(const struct service_terms *terms) {
    const uint32_t all = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE | RDMAD_RIGHT_ATOMIC;
    return !terms->budget_length ? 0 : terms->max_rights ? terms->max_rights : all;
}

void serve_service_listen(const struct request *rq, const void *body) {
    const struct rdmad_service_listen_req *req = body;
    struct rdmad_service_listen_rep rep = {0};
    struct service_terms terms;
    struct service *sv;
    struct error err;

    const struct user_policy *policy = &rq->session->policy;
    if (service_copy_terms(req, &terms, &err) ||
        policy_check_grant(policy, terms.scope, budget_rights(&terms), &err) ||
        policy_check_publish(policy, terms.name, &err) ||
        service_listen(rq->session, &terms, &sv, &err)) {
        serve_fail(rq, &err);
        return;
    }
    rep.service = sv->number;
    service_uri(sv, rep.uri);
    serve_reply(rq, &rep, sizeof(rep), NULL, 0);
}

struct service *serve_own_service(const struct request *rq, uint64_t number) {
    struct service *sv = service_own(rq->session, number);
    struct error err;
    if (sv)
        return sv;
    error_set(&err, RDMAD_E_HANDLE, "this session offers no service %" PRIu64 ", or closed it",
              number);
    serve_fail(rq, &err);
    return NULL;
}

void serve_service_close(const struct request *rq, const void *body) {
    const struct rdmad_service_close_req *req = body;
    struct service *sv = serve_own_service(rq, req->service);
    struct request *later = sv ? later_new(rq) : NULL;
    if (!later)
        return;
    struct budget *budget = sv->budget; /* its memory is the owner's alone when we answer */
    sv->budget = NULL;
    service_close(sv);
    if (budget)
        budget_close(budget, later_answer, later);
    else
        later_answer(later, NULL);
}
