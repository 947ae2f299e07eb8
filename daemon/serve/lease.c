/* SPDX-License-Identifier: MIT */
/*
 * lease.c - what an owner asks about its leases: grant, renew, revoke, stat.
 *
 * The happy path: check the fields, name the pool, lease_grant, answer with number and URI; later
 * calls name the lease by that number. Another session's lease is "no such lease" here, in the same
 * words as a number that never was. Revoking a lease that has ended already succeeds: what the
 * caller wants to hear, that nobody reaches the memory, is true.
 */
#include "daemon/state/lease.h"
#include "daemon/base/audit.h"
#include "daemon/base/clock.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/later.h"
#include "daemon/serve/pace.h"
#include "daemon/state/lease_terms.h"
#include "daemon/state/origin.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int lease_copy_terms(const struct rdmad_lease_grant_req *req, struct lease_terms *out,
                            struct error *err) {
    if (!serve_text_ok(req->scope_peer, sizeof(req->scope_peer)) ||
        !serve_text_ok(req->name, sizeof(req->name)))
        return error_set(err, RDMAD_E_PROTOCOL,
                         "scope_peer and name of a grant must be zero-filled texts");
    *out = (struct lease_terms){
        .offset = req->offset,
        .length = req->length,
        .ttl_ns = req->ttl_ns,
        .rights = req->rights,
        .scope = req->scope,
        .scope_uid = req->scope_uid,
        .max_attaches = req->max_attaches,
        .flags = req->flags,
        .ends_after = req->ends_after,
    };
    memcpy(out->scope_peer, req->scope_peer, sizeof(out->scope_peer));
    memcpy(out->name, req->name, sizeof(out->name));
    return 0;
}

struct grant_call {
    struct request *later;
    struct rdmad_lease_grant_rep rep;
};

/* Only now: its owner may ask for notifications of it as soon as it knows of it. */
static void grant_taken(void *arg, const struct error *result) {
    struct grant_call *call = arg;
    if (result->code)
        serve_fail(call->later, result);
    else
        serve_reply(call->later, &call->rep, sizeof(call->rep), NULL, 0);
    later_free(call->later);
    free(call);
}

static void answer_grant(const struct request *rq, struct lease *l) {
    struct request *later = later_new(rq);
    struct grant_call *call = later ? calloc(1, sizeof(*call)) : NULL;
    struct error err;

    if (!call) {
        lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
        if (!later)
            return;
        error_set(&err, RDMAD_E_NOMEM, "out of memory for a lease");
        later_answer(later, &err);
        return;
    }
    call->later = later;
    call->rep.lease = l->id;
    call->rep.ttl_ns = l->terms.ttl_ns;
    lease_uri(l, call->rep.uri);
    lease_when_taken(l, grant_taken, call);
}

/* again NULL: a new one. */
static void serve_grant(const struct request *rq, const struct rdmad_lease_grant_req *req,
                        const struct lease_again *again) {
    char words[LEASE_WORDS];
    struct lease_terms terms;
    struct lease *l;
    struct error err;

    const struct user_policy *policy = &rq->session->policy;
    struct pool *pool = pool_find(rq->session, req->pool, &err);
    if (!pool || lease_copy_terms(req, &terms, &err) ||
        policy_check_grant(policy, terms.scope, terms.rights, &err) ||
        policy_check_publish(policy, terms.name, &err) ||
        (again ? lease_grant_again(pool, &terms, again, &l, &err)
               : lease_grant(pool, &terms, &l, &err))) {
        serve_fail(rq, &err);
        return;
    }
    AUDIT(GRANTED, "lease", session_who(rq->session), audit_object("lease", l->id),
          ("session %" PRIu64 " %s lease %" PRIu64 " of %" PRIu64 " bytes %s", rq->session->id,
           again ? "brings back" : "grants", l->id, l->terms.length,
           lease_words(&l->terms, words)));
    answer_grant(rq, l);
}

void serve_lease_grant(const struct request *rq, const void *body) {
    serve_grant(rq, body, NULL);
}

void serve_lease_resume(const struct request *rq, const void *body) {
    const struct rdmad_lease_resume_req *req = body;
    struct lease_again again = {.id = req->lease, .left_ns = req->left_ns};
    struct error err;
    memcpy(again.key, req->key, sizeof(again.key));
    if (origin_check_resumed(rq->session, "a lease", &err))
        serve_fail(rq, &err);
    else
        serve_grant(rq, &req->grant, &again);
}

/* The caller's own lease, alive or ending. NULL: it has ended, as *ended tells, or (ended->id 0)
 * never was the caller's. */
static struct lease *own_lease(const struct request *rq, uint64_t id, struct lease_view *ended) {
    struct leases *ls = rq->session->state->leases;
    struct lease *l = lease_by_id(ls, id);
    if (l && l->owner == rq->session)
        return l;
    if (l || !lease_ended_view(ls, id, ended) || ended->owner_session != rq->session->id)
        *ended = (struct lease_view){0};
    return NULL;
}

/* No lease is 0: older libraries ask for that to learn whether rdmad answers at all, each session
 * every 30 s. They must get this error, as they take nothing else; but nothing was refused. */
static void fail_not_own(const struct request *rq, uint64_t id) {
    struct error err;
    error_set(&err, RDMAD_E_NO_LEASE, "this session has granted no lease %" PRIu64, id);
    if (id)
        serve_fail(rq, &err);
    else
        serve_error(rq, &err);
}

/* Of so many parts that are cut short, too, the timers and what their owner is told take as long as
 * another call. */
#define RENEW_PARTS_A_CALL 5u

static int renew(const struct request *rq, struct lease *l, uint64_t ttl_ns, struct error *err) {
    uint64_t before_ns = l->deadline_ns;
    int rc = lease_renew(l, ttl_ns, err);
    if (!rc && l->deadline_ns < before_ns)
        pace_charge(rq->session, l->descendants / RENEW_PARTS_A_CALL);
    return rc;
}

void serve_lease_renew(const struct request *rq, const void *body) {
    const struct rdmad_lease_renew_req *req = body;
    struct lease_view ended;
    struct error err;

    struct lease *l = own_lease(rq, req->lease, &ended);
    if (l && renew(rq, l, req->ttl_ns, &err) == 0) {
        serve_reply(rq, NULL, 0, NULL, 0);
    } else if (l) {
        serve_fail(rq, &err);
    } else if (ended.id) {
        lease_ended_error(ended.id, ended.reason, ended.ended_ago_ns, &err);
        serve_fail(rq, &err);
    } else {
        fail_not_own(rq, req->lease);
    }
}

void serve_lease_revoke(const struct request *rq, const void *body) {
    const struct rdmad_lease_revoke_req *req = body;
    struct lease_view ended;

    struct lease *l = own_lease(rq, req->lease, &ended);
    if (l) {
        struct request *later = later_new(rq);
        AUDIT(REVOKED, "owner", session_who(rq->session), audit_object("lease", l->id),
              ("lease %" PRIu64 " is revoked by its owner, %" PRIu64 " lessees are attached", l->id,
               (uint64_t)l->attached));
        if (later)
            lease_end(l, RDMAD_E_LEASE_REVOKED, later_answer, later);
    } else if (ended.id) {
        serve_reply(rq, NULL, 0, NULL, 0);
    } else {
        fail_not_own(rq, req->lease);
    }
}

static void stat_audit(const struct fabric_audit *audit, uint64_t now_ns,
                       struct rdmad_lease_stat_rep *rep) {
    rep->bytes_read = audit->bytes_read;
    rep->bytes_written = audit->bytes_written;
    rep->ops = audit->ops;
    rep->idle_ns = audit->last_use_ns ? clock_left(audit->last_use_ns, now_ns) : UINT64_MAX;
}

static void stat_said(const struct lease_said *said, struct rdmad_lease_stat_rep *rep) {
    rep->said_bytes_read = said->bytes_read;
    rep->said_bytes_written = said->bytes_written;
    rep->said_ops = said->ops;
}

/* What is added up of so many lessees takes as long as another call. */
#define STAT_LESSEES_A_CALL 256u

void serve_lease_stat(const struct request *rq, const void *body) {
    const struct rdmad_lease_stat_req *req = body;
    uint64_t now = state_now(rq->session->state);
    struct rdmad_lease_stat_rep rep = {.lease = req->lease};
    struct lease_view ended;
    struct fabric_audit audit;
    struct lease_said said;

    struct lease *l = own_lease(rq, req->lease, &ended);
    if (l) {
        pace_charge(rq->session, l->attached / STAT_LESSEES_A_CALL);
        lease_audit(l, &audit);
        stat_audit(&audit, now, &rep);
        lease_said(l, &said);
        stat_said(&said, &rep);
        rep.ttl_ns = l->stage == LEASE_LIVE ? clock_left(now, l->deadline_ns) : 0;
        rep.attached = l->attached;
        rep.attached_total = l->attached_total;
        rep.ended = l->reason;
    } else if (ended.id) {
        stat_audit(&ended.audit, now, &rep);
        stat_said(&ended.said, &rep);
        rep.attached_total = ended.attached_total;
        rep.ended = ended.reason;
    } else {
        fail_not_own(rq, req->lease);
        return;
    }
    serve_reply(rq, &rep, sizeof(rep), NULL, 0);
}
