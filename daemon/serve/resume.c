/* SPDX-License-Identifier: MIT */
/*
 * resume.c - a session that outlives its daemon: what makes it one, and the handles that it brings
 * back, and what others made of its leases. Pools and leases are brought back where others are
 * made.
 */
#include "daemon/base/audit.h"
#include "daemon/serve/attach.h"
#include "daemon/serve/handlers.h"
#include "daemon/state/delegate.h"
#include "daemon/state/handle.h"
#include "daemon/state/lease_terms.h"
#include "daemon/state/origin.h"
#include <inttypes.h>

void serve_resume_offer(const struct request *rq, const void *body) {
    const struct rdmad_resume_offer_req *req = body;
    struct rdmad_resume_offer_rep rep;
    struct error err;
    if (req->reserved)
        error_set(&err, RDMAD_E_RESERVED, "the reserved field of RESUME_OFFER is not zero");
    if (req->reserved || origin_offer(rq->session, &rep.proof, &err))
        serve_fail(rq, &err);
    else
        serve_reply(rq, &rep, sizeof(rep), NULL, 0);
}

void serve_session_resume(const struct request *rq, const void *body) {
    const struct rdmad_session_resume_req *req = body;
    const struct session *s = rq->session;
    struct error err;
    if (origin_resume(rq->session, &req->proof, &err)) {
        serve_fail(rq, &err);
        return;
    }
    AUDIT(ADMITTED, "resumed", session_who(s), audit_object("session", s->id),
          ("session %" PRIu64 " goes on with what was session %" PRIu64 " of life %" PRIu64, s->id,
           s->origin.session, s->origin.life));
    serve_reply(rq, NULL, 0, NULL, 0);
}

/* Asks nobody, as many are asked for at once, of whom other daemons know little that is new. */
static void reserve_handle(const struct request *rq, uint64_t number) {
    struct error err;
    handle_reserve(rq->session, number);
    error_set(&err, RDMAD_E_TIMEOUT,
              "the place of handle %" PRIx64 " is kept, and it was not tried", number);
    serve_fail(rq, &err);
}

void serve_attach_resume(const struct request *rq, const void *body) {
    const struct rdmad_attach_resume_req *req = body;
    struct error err;
    if (origin_check_resumed(rq->session, "a lease's handle", &err) ||
        origin_check_number(rq->session, req->handle, QUOTA_ATTACHES, HANDLES_ENDED_MAX,
                            "lease's handle", &err))
        serve_fail(rq, &err);
    else if (req->attach.timeout_ns == RDMAD_ATTACH_RESERVE_NS)
        reserve_handle(rq, req->handle);
    else
        attach_by_number(rq, &req->attach, req->handle);
}

void serve_part_resume(const struct request *rq, const void *body) {
    const struct rdmad_part_resume_req *req = body;
    const struct session *s = rq->session;
    char words[LEASE_WORDS];
    struct lease *l;
    struct error err;
    if (origin_check_resumed(s, "what others made of its leases", &err) ||
        lease_delegate_again(rq->session, &req->part, req->parent, &l, &err)) {
        serve_fail(rq, &err);
        return;
    }
    AUDIT(GRANTED, "part", session_who(s), audit_object("lease", l->id),
          ("session %" PRIu64 " brings back lease %" PRIu64 " of %" PRIu64
           " bytes %s, which was made of lease %" PRIu64,
           s->id, l->id, l->terms.length, lease_words(&l->terms, words), l->parent->id));
    serve_reply(rq, NULL, 0, NULL, 0);
}
