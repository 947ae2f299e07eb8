/* SPDX-License-Identifier: MIT */
/*
 * listen.c - services come and go.
 */
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/sized.h"
#include "libclient/base/text.h"
#include "libclient/channel/budget.h"
#include "libclient/channel/incoming.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int service_fill(struct rdmad_session *s, const char *name,
                        const struct rdmad_service_terms *terms,
                        struct rdmad_service_listen_req *out, struct rdmad_lent *lent) {
    struct rdmad_service_terms t = RDMAD_SERVICE_TERMS_INIT;
    int rc = rdmad_sized_read(s, &rdmad_sized_service_terms, terms, &t);

    if (rc)
        return rc;
    *out = (struct rdmad_service_listen_req){.backlog = t.backlog,
                                             .scope = t.scope,
                                             .scope_uid = t.scope_uid,
                                             .max_rights = t.max_rights,
                                             .max_request = t.max_request,
                                             .max_ttl_ns = rdmad_ms_to_ns(t.max_ttl_ms)};
    rc = rdmad_copy_text(s, out->name, sizeof(out->name), name, "name", RDMAD_E_NAME);
    if (!rc)
        rc = rdmad_copy_text(s, out->scope_peer, sizeof(out->scope_peer), t.scope_peer,
                             "address in scope_peer", RDMAD_E_INVAL);
    return rc ? rc : rdmad_budget_fill(s, &t, out, lent);
}

/* The reply has come; with the lock. */
static void service_listening(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_service_listen_rep *reply = call->reply;
    struct rdmad_service *service = call->object.service;
    service->number = reply->service;
    service->resumes = s->resumes;
    memcpy(service->uri, reply->uri, sizeof(service->uri));
    service->uri[RDMAD_URI_MAX] = '\0';
    service->lent.service = service->name;
    service->next = s->services;
    s->services = service;
}

int rdmad_listen(rdmad_session *s, const char *name, const struct rdmad_service_terms *terms,
                 rdmad_service **out) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_service_listen_req request = {.backlog = 0};
    struct rdmad_service_listen_rep reply;
    struct rdmad_service *service;
    int rc;

    *out = NULL;
    if (rdmad_is_inherited(s))
        return rdmad_fail_lost(s);
    service = calloc(1, sizeof(*service));
    if (!service)
        return rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a service");
    rc = service_fill(s, name, terms, &request, &service->lent);
    if (rc) {
        free(service);
        return rc;
    }
    rdmad_object_init(&service->object, RDMAD_KIND_SERVICE);
    service->session = s;
    service->terms = request;
    service->last_waiting = &service->waiting;
    memcpy(service->name, request.name, sizeof(service->name));
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_SERVICE_LISTEN, request, reply),
                              .accept = service_listening, .object.service = service};
    rc = rdmad_control_call(s, &call);
    if (rc) {
        rdmad_lent_end(s, &service->lent);
        free(service);
    } else {
        *out = service;
    }
    return rc;
}

/* ---- at the next daemon -------------------------------------------------------------------- */

/* With the lock: one that this daemon has not been asked for yet. */
static struct rdmad_service *service_to_resume(struct rdmad_session *s, size_t *kept,
                                               struct rdmad_service_resume_req *request) {
    struct rdmad_service *v = s->services;
    struct rdmad_incoming who;
    while (v && (v->over || v->resumes == s->resumes))
        v = v->next;
    if (!v)
        return NULL;
    v->resumes = s->resumes;
    v->number = 0;
    while (rdmad_incoming_claim(v, NULL, &who))
        ;
    *kept = 0;
    request->listen = v->terms;
    rdmad_budget_keep(v, kept, &request->kept);
    return v;
}

/* With the lock. The program may have closed it meanwhile. */
static bool service_is_there(const struct rdmad_session *s, const struct rdmad_service *service) {
    const struct rdmad_service *v = s->services;
    while (v && v != service)
        v = v->next;
    return v;
}

static void service_resumed(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_service_listen_rep *reply = call->reply;
    struct rdmad_service_close_req gone = {.service = reply->service};
    if (service_is_there(s, call->object.service))
        call->object.service->number = reply->service;
    else
        rdmad_control_post(s, RDMAD_MSG_SERVICE_CLOSE, &gone, sizeof(gone));
}

/* What is kept of its budget beyond what a request has room for. */
static int service_resume_budget(struct rdmad_session *s, struct rdmad_service *v, size_t kept) {
    struct rdmad_budget_resume_req request;
    struct rdmad_call call = {.type = RDMAD_MSG_BUDGET_RESUME,
                              .request = &request,
                              .request_size = sizeof(request),
                              .one_try = true};
    int rc = 0;
    for (request.kept.more = 1; !rc && request.kept.more;) {
        pthread_mutex_lock(&s->lock);
        bool there = service_is_there(s, v);
        if (there) {
            request.service = v->number;
            rdmad_budget_keep(v, &kept, &request.kept);
        }
        pthread_mutex_unlock(&s->lock);
        if (!there)
            return 0;
        rc = rdmad_control_call(s, &call);
    }
    return rc;
}

/* That rdmad is an older one: it knows services, but not what they gave. */
static int service_without_budget(struct rdmad_session *s, struct rdmad_call *call,
                                  struct rdmad_service_resume_req *request) {
    struct rdmad_service_listen_req *listen = &request->listen;
    listen->budget_pool = listen->budget_offset = listen->budget_length = 0;
    listen->max_request = listen->max_ttl_ns = listen->max_rights = 0;
    request->kept.more = 0;
    call->type = RDMAD_MSG_SERVICE_LISTEN;
    call->request = listen;
    call->request_size = sizeof(*listen);
    return rdmad_control_call(s, call);
}

/* The whole service, or only its budget, is not at this daemon. False: that has gone, too. */
static bool service_refused(struct rdmad_session *s, struct rdmad_service *service, bool all,
                            int rc) {
    char what[RDMAD_NAME_MAX + 32];
    pthread_mutex_lock(&s->lock);
    bool there = !rdmad_control_drained(s, rc) && s->state == RDMAD_SESSION_RESUMING;
    if (there && service_is_there(s, service)) {
        snprintf(what, sizeof(what), "%s %s", all ? "service" : "the budget of service",
                 service->name);
        service->over = all;
        service->not_resumed.service = service;
        service->not_resumed.user = &service->user;
        rdmad_not_resumed_tell(s, &service->not_resumed, rc, what);
    }
    pthread_mutex_unlock(&s->lock);
    return there;
}

void rdmad_services_resume(struct rdmad_session *s) {
    struct rdmad_service_resume_req request;
    struct rdmad_service_listen_rep reply;
    size_t kept;
    for (bool there = true; there;) {
        struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_SERVICE_RESUME, request, reply),
                                  .accept = service_resumed, .one_try = true};
        pthread_mutex_lock(&s->lock);
        struct rdmad_service *v = call.object.service = service_to_resume(s, &kept, &request);
        pthread_mutex_unlock(&s->lock);
        if (!v)
            return;
        int rc = rdmad_control_hand_back(s, &call), budget = 0;
        bool has_budget = request.listen.budget_length;
        if (rc == RDMAD_E_TYPE) {
            budget = has_budget ? rc : 0;
            rc = service_without_budget(s, &call, &request);
        } else if (!rc && request.kept.more) {
            budget = service_resume_budget(s, v, kept);
        }
        if (rc || budget)
            there = service_refused(s, v, rc, rc ? rc : budget);
    }
}

const char *rdmad_service_uri(const rdmad_service *service) {
    RDMAD_LIVE(service, SERVICE);
    return service->uri;
}

/* With the lock, off the session's list, and ended as an object. */
static void service_dispose(struct rdmad_service *service) {
    struct rdmad_incoming who;
    while (rdmad_incoming_claim(service, NULL, &who))
        ;
    rdmad_event_unqueue(service->session, &service->not_resumed.source);
    rdmad_budget_forget(service);
    rdmad_object_retire(&service->object, sizeof(*service));
}

void rdmad_services_dispose(struct rdmad_session *s) {
    while (s->services) {
        struct rdmad_service *service = s->services;
        s->services = service->next;
        rdmad_object_end(&service->object, RDMAD_KIND_SERVICE, service->number, "rdmad_close");
        service_dispose(service);
    }
}

/* With the lock. */
static void close_fill(struct rdmad_session *s, const struct rdmad_call *call, void *request) {
    struct rdmad_service_close_req *req = request;
    (void)s;
    req->service = call->object.service->number;
}

/* With the lock: its memory is the program's, so no later daemon may listen for it. */
static void service_closed(struct rdmad_session *s, const struct rdmad_call *call) {
    struct rdmad_service *service = call->object.service;
    (void)s;
    service->over = true;
    rdmad_lent_back(&service->lent);
}

/* With the lock: the next daemon has listened for it before anybody could tell it. */
static void service_post_close(struct rdmad_session *s, const struct rdmad_service *service) {
    struct rdmad_service_close_req request = {.service = service->number};
    if (service->number && service->resumes == s->resumes)
        rdmad_control_post(s, RDMAD_MSG_SERVICE_CLOSE, &request, sizeof(request));
}

/* Tells those who wait for who connects. Returns whether no daemon has to be told. */
static bool service_begin_close(struct rdmad_service *service) {
    struct rdmad_session *s = service->session;
    pthread_mutex_lock(&s->lock);
    bool over = service->over;
    service->closing = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return over;
}

void rdmad_service_close(rdmad_service *service) {
    struct rdmad_service **at;
    if (!service)
        return;
    RDMAD_LIVE(service, SERVICE);
    rdmad_object_end(&service->object, RDMAD_KIND_SERVICE, rdmad_service_number(service), __func__);
    struct rdmad_service_close_req request = {.service = 0};
    struct rdmad_session *s = service->session;
    struct rdmad_call call = {.type = RDMAD_MSG_SERVICE_CLOSE,
                              .request = &request,
                              .request_size = sizeof(request),
                              .fill = close_fill,
                              .accept = service_closed,
                              .quiet = true,
                              .object.service = service};
    /* Answered when the requested leases have ended. */
    int rc = service_begin_close(service) ? 0 : rdmad_control_call(s, &call);
    pthread_mutex_lock(&s->lock);
    rdmad_incoming_await_users(service);
    if (service->over) /* the next daemon may have refused it meanwhile */
        rdmad_lent_back(&service->lent);
    else if (rc == RDMAD_E_DAEMON_LOST)
        service_post_close(s, service);
    for (at = &s->services; *at != service; at = &(*at)->next)
        assert(*at);
    *at = service->next;
    service_dispose(service);
    rdmad_event_signal(s);
    pthread_mutex_unlock(&s->lock);
}
