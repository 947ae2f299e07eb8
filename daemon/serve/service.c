/* SPDX-License-Identifier: MIT */
/*
 * service.c - names at which a session takes connections and requests: listen and close, and listen
 * again at a later life of the daemon.
 */
#include "daemon/state/service.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/later.h"
#include "daemon/state/budget.h"
#include "daemon/state/origin.h"
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

/* NULL: err tells why not. */
static struct service *listen_for(const struct request *rq,
                                  const struct rdmad_service_listen_req *req, bool budget_shut,
                                  struct error *err) {
    const struct user_policy *policy = &rq->session->policy;
    struct service_terms terms;
    struct service *sv = NULL;
    if (service_copy_terms(req, &terms, err) ||
        policy_check_grant(policy, terms.scope, budget_rights(&terms), err) ||
        policy_check_publish(policy, terms.name, err))
        return NULL;
    terms.budget_shut = budget_shut;
    return service_listen(rq->session, &terms, &sv, err) ? NULL : sv;
}

static void answer_listen(const struct request *rq, const struct service *sv) {
    struct rdmad_service_listen_rep rep = {.service = sv->number};
    service_uri(sv, rep.uri);
    serve_reply(rq, &rep, sizeof(rep), NULL, 0);
}

void serve_service_listen(const struct request *rq, const void *body) {
    struct error err;
    struct service *sv = listen_for(rq, body, false, &err);
    if (sv)
        answer_listen(rq, sv);
    else
        serve_fail(rq, &err);
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

/* ---- at a later life of the daemon --------------------------------------------------------- */

static int check_kept(const struct rdmad_kept *kept, struct error *err) {
    if (kept->count > RDMAD_KEPT_PER_REQUEST || kept->more > 1)
        return error_set(err, RDMAD_E_PROTOCOL,
                         "at most %u ranges are said to be kept at once, and more is 0 or 1",
                         RDMAD_KEPT_PER_REQUEST);
    return 0;
}

/* Until the last is known the budget gives nothing. */
static int budget_keep_ranges(struct budget *b, const struct rdmad_kept *kept, struct error *err) {
    for (uint32_t i = 0; i < kept->count; i++) {
        if (budget_keep(b, kept->range[i].offset, kept->range[i].length, err))
            return err->code;
    }
    if (!kept->more)
        budget_open(b);
    return 0;
}

void serve_service_resume(const struct request *rq, const void *body) {
    const struct rdmad_service_resume_req *req = body;
    struct service *sv = NULL;
    struct error err;
    if (origin_check_resumed(rq->session, "a service with what it gave", &err) ||
        check_kept(&req->kept, &err) || !(sv = listen_for(rq, &req->listen, true, &err))) {
        serve_fail(rq, &err);
    } else if (sv->budget && budget_keep_ranges(sv->budget, &req->kept, &err)) {
        service_close(sv);
        serve_fail(rq, &err);
    } else {
        answer_listen(rq, sv);
    }
}

/* One that is wrong leaves the budget shut. */
void serve_budget_resume(const struct request *rq, const void *body) {
    const struct rdmad_budget_resume_req *req = body;
    struct service *sv = serve_own_service(rq, req->service);
    struct error err;
    if (!sv)
        return;
    if (!sv->budget)
        error_set(&err, RDMAD_E_BUDGET, "service \"%s\" has no budget", sv->terms.name);
    if (!sv->budget || check_kept(&req->kept, &err) ||
        budget_keep_ranges(sv->budget, &req->kept, &err))
        serve_fail(rq, &err);
    else
        serve_reply(rq, NULL, 0, NULL, 0);
}
