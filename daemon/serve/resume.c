/* SPDX-License-Identifier: MIT */
/*
 * resume.c - a session that outlives its daemon: what makes it one, and what it brings back.
 *
 * Numbers that a client asks for are bounded by what the session may have at once: so many it can
 * have had, and the tables grow no further for it than for anybody.
 */
#include "daemon/base/audit.h"
#include "daemon/base/log.h"
#include "daemon/serve/attach.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/later.h"
#include "daemon/state/handle.h"
#include "daemon/state/origin.h"
#include <assert.h>
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
    AUDIT(ADMITTED, "resumed", audit_user(s->uid, s->pid), audit_object("session", s->id),
          ("session %" PRIu64 " goes on with what was session %" PRIu64 " of life %" PRIu64, s->id,
           s->origin.session, s->origin.life));
    serve_reply(rq, NULL, 0, NULL, 0);
}

/* A session has its lowest free number, so it has had none beyond as many as it may have. */
static int check_number(const struct session *s, uint64_t number, enum quota_resource what,
                        uint32_t more, const char *words, struct error *err) {
    const struct quota_limits *l = quota_limits_of(&s->state->quota, s->uid_account);
    uint64_t index = (uint32_t)number;
    if (number && (l->session[what] == UINT64_MAX || index < l->session[what] + more))
        return 0;
    return error_set(err, RDMAD_E_HANDLE,
                     "%" PRIx64 " is no number that a %s of this session can have had", number,
                     words);
}

static void pool_resumed(void *arg, struct pool *pool, int fd, const struct error *result) {
    struct request *rq = arg;
    (void)fd;
    if (result->code) {
        serve_fail(rq, result);
    } else {
        struct rdmad_pool_create_rep rep = {.pool = pool->handle, .bytes = pool->bytes};
        serve_reply(rq, &rep, sizeof(rep), NULL, 0);
    }
    later_free(rq);
}

void serve_pool_resume(const struct request *rq, const void *body) {
    const struct rdmad_pool_resume_req *req = body;
    struct error err;
    assert(rq->fd && *rq->fd >= 0);
    if (origin_check_resumed(rq->session, "a pool", &err) ||
        check_number(rq->session, req->pool, QUOTA_POOLS, 0, "pool", &err) ||
        shared_memory_check_kind("pool", *rq->fd, &err)) {
        serve_fail(rq, &err);
        return;
    }
    struct request *later = later_new(rq);
    if (!later)
        return;
    int fd = *rq->fd;
    *rq->fd = -1;
    pool_resume(rq->session, fd, req->pool, req->bytes, pool_resumed, later);
}

void serve_attach_resume(const struct request *rq, const void *body) {
    const struct rdmad_attach_resume_req *req = body;
    struct error err;
    if (origin_check_resumed(rq->session, "a lease's handle", &err) ||
        check_number(rq->session, req->handle, QUOTA_ATTACHES, HANDLES_ENDED_MAX, "lease's handle",
                     &err))
        serve_fail(rq, &err);
    else
        attach_by_number(rq, &req->attach, req->handle);
}
