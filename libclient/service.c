/* SPDX-License-Identifier: MIT */
/*
 * service.c - services: who connects is accepted or rejected; memory of the budget comes and goes.
 *
 * The happy path: rdmad_listen; the daemon tells of each that connects, which is kept here in the
 * order in which they came; rdmad_accept takes the first away and answers it. One record serves one
 * accept or reject only, so any number of threads may accept.
 *
 * Who has given up meanwhile is taken out of the line by the daemon. If that crosses an accept the
 * daemon refuses it, and an accept of whoever comes goes on with the next.
 */
#include "libclient/channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rdmad_service *find(struct rdmad_session *s, uint64_t number) {
    struct rdmad_service *v = s->services;

    while (v && v->number != number)
        v = v->next;
    return v;
}

static void out_of_memory(struct rdmad_session *s) {
    rdmad_control_lose(s, RDMAD_E_NOMEM,
                       "out of memory for an event of a service; the session is closed");
}

/* ---- who connects -------------------------------------------------------------------------- */

static bool take_incoming(struct rdmad_event_source *source, struct rdmad_event *out) {
    struct rdmad_waiting *w = RDMAD_SOURCE_OF(source, struct rdmad_waiting);

    out->type = RDMAD_EVENT_INCOMING;
    out->service = w->service;
    out->user = w->service->user;
    snprintf(out->text, sizeof(out->text), "uid %u of node %s connects to service %s", w->who.uid,
             w->who.node, w->service->name);
    return false;
}

void rdmad_service_incoming(struct rdmad_session *s, const void *body) {
    struct rdmad_ev_channel_incoming e;
    struct rdmad_service *service;
    struct rdmad_waiting *w;

    memcpy(&e, body, sizeof(e));
    service = find(s, e.service);
    if (!service)
        return; /* closed meanwhile: the daemon refuses them all */
    w = calloc(1, sizeof(*w));
    if (!w) {
        out_of_memory(s);
        return;
    }
    e.node[RDMAD_NAME_MAX] = e.address[RDMAD_NAME_MAX] = '\0';
    w->service = service;
    w->source.take = take_incoming;
    w->who.id = e.incoming;
    w->who.uid = e.uid;
    w->who.kind = e.kind;
    snprintf(w->who.node, sizeof(w->who.node), "%s", e.node);
    snprintf(w->who.address, sizeof(w->who.address), "%s", e.address);
    *service->last_waiting = w;
    service->last_waiting = &w->next;
    rdmad_event_queue(s, &w->source);
}

/* Takes who (NULL: the first) out of the line; false: it is not there. With the lock. */
static bool claim(struct rdmad_service *service, const struct rdmad_incoming *who,
                  struct rdmad_incoming *out) {
    struct rdmad_waiting **at = &service->waiting, *w;

    while (*at && who && (*at)->who.id != who->id)
        at = &(*at)->next;
    if (!(w = *at))
        return false;
    *at = w->next;
    if (service->last_waiting == &w->next)
        service->last_waiting = at;
    rdmad_event_unqueue(service->session, &w->source);
    *out = w->who;
    free(w);
    return true;
}

void rdmad_service_incoming_gone(struct rdmad_session *s, const void *body) {
    struct rdmad_channel_reject_req e;
    struct rdmad_incoming who = {.id = 0}, gone;
    struct rdmad_service *service;

    memcpy(&e, body, sizeof(e));
    who.id = e.incoming;
    service = find(s, e.service);
    if (service)
        claim(service, &who, &gone);
}

static bool somebody_waits(struct rdmad_session *s, void *arg) {
    (void)s;
    return ((struct rdmad_service *)arg)->waiting != NULL;
}

int rdmad_next_incoming(rdmad_service *service, int timeout_ms, struct rdmad_incoming *out) {
    RDMAD_LIVE(service, SERVICE);
    struct rdmad_session *s = service->session;
    int rc = rdmad_sized_check(s, &rdmad_sized_incoming, out);

    if (!rc)
        rc = rdmad_check_wait(s, timeout_ms);
    if (rc)
        return rc;
    pthread_mutex_lock(&s->lock);
    rdmad_control_wait(s, somebody_waits, service, rdmad_deadline_ns(timeout_ms));
    if (service->waiting)
        rdmad_sized_fill(&rdmad_sized_incoming, out, &service->waiting->who);
    else
        rc = rdmad_is_lost(s) ? RDMAD_E_DAEMON_LOST : RDMAD_E_TIMEOUT;
    pthread_mutex_unlock(&s->lock);
    return rc == RDMAD_E_DAEMON_LOST ? rdmad_fail_lost(s) : rc;
}

/* Takes the first that comes before the deadline out of the line. */
static int claim_first(struct rdmad_service *service, uint64_t deadline_ns,
                       struct rdmad_incoming *out) {
    struct rdmad_session *s = service->session;
    int rc = 0;

    pthread_mutex_lock(&s->lock);
    rdmad_control_wait(s, somebody_waits, service, deadline_ns);
    if (!claim(service, NULL, out))
        rc = rdmad_is_lost(s) ? RDMAD_E_DAEMON_LOST : RDMAD_E_TIMEOUT;
    rdmad_event_signal(s);
    pthread_mutex_unlock(&s->lock);
    return rc == RDMAD_E_DAEMON_LOST ? rdmad_fail_lost(s) : rc;
}

static int claim_this(struct rdmad_service *service, const struct rdmad_incoming *who,
                      struct rdmad_incoming *out) {
    struct rdmad_session *s = service->session;
    bool there;

    pthread_mutex_lock(&s->lock);
    there = claim(service, who, out);
    rdmad_event_signal(s);
    pthread_mutex_unlock(&s->lock);
    if (there)
        return 0;
    return rdmad_fail(s, RDMAD_E_HANDLE,
                      "nobody of number %llu waits at service %s: accepted or rejected before, or "
                      "gone",
                      (unsigned long long)who->id, service->name);
}

static int accept_claimed(struct rdmad_service *service, const struct rdmad_incoming *who,
                          rdmad_channel **out) {
    struct rdmad_channel_accept_req request = {.service = service->number, .incoming = who->id};
    struct rdmad_channel *c = rdmad_channel_new(service->session);

    if (!c)
        return RDMAD_E_NOMEM;
    return rdmad_channel_make(c, RDMAD_MSG_CHANNEL_ACCEPT, &request, sizeof(request), out);
}

int rdmad_accept(rdmad_service *service, const struct rdmad_incoming *who, int timeout_ms,
                 rdmad_channel **out) {
    RDMAD_LIVE(service, SERVICE);
    uint64_t deadline_ns = rdmad_deadline_ns(timeout_ms);
    struct rdmad_incoming claimed;
    int rc;

    *out = NULL;
    if (rdmad_check_wait(service->session, timeout_ms))
        return RDMAD_E_INVAL;
    if (who) {
        rc = claim_this(service, who, &claimed);
        return rc ? rc : accept_claimed(service, &claimed, out);
    }
    for (;;) {
        bool more;
        rc = claim_first(service, deadline_ns, &claimed);
        if (rc)
            return rc;
        rc = accept_claimed(service, &claimed, out);
        more = rc == RDMAD_E_HANDLE || rc == RDMAD_E_CANCELED || rc == RDMAD_E_PEER_LOST;
        if (!more)
            return rc;
    }
}

int rdmad_reject(rdmad_service *service, const struct rdmad_incoming *who, const char *text) {
    RDMAD_LIVE(service, SERVICE);
    struct rdmad_channel_reject_req request = {.service = service->number, .incoming = who->id};
    struct rdmad_call call = {
        .type = RDMAD_MSG_CHANNEL_REJECT, .request = &request, .request_size = sizeof(request)};
    struct rdmad_incoming claimed;
    int rc = rdmad_copy_text(service->session, request.text, sizeof(request.text), text,
                             "text of a reject", RDMAD_E_INVAL);

    if (!rc)
        rc = claim_this(service, who, &claimed);
    return rc ? rc : rdmad_control_call(service->session, &call);
}

/* ---- memory of the budget ------------------------------------------------------------------ */

static void forget_handed_over(struct rdmad_handed_over *h) {
    struct rdmad_handed_over **at = &h->service->handed_over;

    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    rdmad_event_unqueue(h->service->session, &h->source);
    free(h);
}

static bool take_handed_over(struct rdmad_event_source *source, struct rdmad_event *out) {
    struct rdmad_handed_over *h = RDMAD_SOURCE_OF(source, struct rdmad_handed_over);

    out->type = RDMAD_EVENT_HANDED_OVER;
    out->service = h->service;
    out->user = h->service->user;
    out->lease_id = h->lease;
    out->memory = h->memory;
    out->length = h->length;
    snprintf(out->text, sizeof(out->text), "uid %u of node %s handed over %zu bytes to service %s",
             h->uid, h->node, h->length, h->service->name);
    forget_handed_over(h);
    return false;
}

void rdmad_service_handed_over(struct rdmad_session *s, const void *body) {
    struct rdmad_ev_handed_over e;
    struct rdmad_service *service;
    struct rdmad_handed_over *h;
    struct rdmad_pool *pool;

    memcpy(&e, body, sizeof(e));
    service = find(s, e.service);
    pool = rdmad_pool_by_handle(s, e.pool);
    if (!service || !pool)
        return; /* closed meanwhile */
    if (e.offset > pool->bytes || e.length > pool->bytes - e.offset) {
        rdmad_control_lose(s, RDMAD_E_PROTOCOL,
                           "rdmad handed over memory outside its pool; the session is closed");
        return;
    }
    h = calloc(1, sizeof(*h));
    if (!h) {
        out_of_memory(s);
        return;
    }
    e.node[RDMAD_NAME_MAX] = '\0';
    h->service = service;
    h->source.take = take_handed_over;
    h->lease = e.lease;
    h->memory = pool->base + e.offset;
    h->length = e.length;
    h->uid = e.uid;
    snprintf(h->node, sizeof(h->node), "%s", e.node);
    h->next = service->handed_over;
    service->handed_over = h;
    rdmad_event_queue(s, &h->source);
}

int rdmad_service_free(rdmad_service *service, void *memory) {
    RDMAD_LIVE(service, SERVICE);
    struct rdmad_session *s = service->session;
    struct rdmad_budget_free_req request = {.service = service->number};
    struct rdmad_call call = {
        .type = RDMAD_MSG_BUDGET_FREE, .request = &request, .request_size = sizeof(request)};
    struct rdmad_pool *pool;

    pthread_mutex_lock(&s->lock);
    pool = rdmad_pool_of(s, memory);
    if (pool)
        request.offset = (uintptr_t)memory - (uintptr_t)pool->base;
    pthread_mutex_unlock(&s->lock);
    if (!pool)
        return rdmad_fail(s, RDMAD_E_RANGE,
                          "%p lies in no pool of this session: give back the memory that an event "
                          "of service %s named",
                          memory, service->name);
    return rdmad_control_call(s, &call);
}

/* ---- the service itself -------------------------------------------------------------------- */

static int fill_budget(struct rdmad_session *s, const struct rdmad_service_terms *t,
                       struct rdmad_service_listen_req *out, struct rdmad_lent *lent) {
    struct rdmad_pool *pool;
    int rc = 0;

    if (!t->budget && t->budget_bytes)
        return rdmad_fail(s, RDMAD_E_INVAL,
                          "a budget of %zu bytes needs memory of a pool to be taken from",
                          t->budget_bytes);
    if (!t->budget)
        return 0;
    pthread_mutex_lock(&s->lock);
    pool = rdmad_pool_of(s, t->budget);
    if (pool) {
        out->budget_pool = pool->handle;
        out->budget_offset = (uintptr_t)t->budget - (uintptr_t)pool->base;
        out->budget_length = t->budget_bytes;
        rc = rdmad_lend(pool, t->budget, t->budget_bytes, lent);
    }
    pthread_mutex_unlock(&s->lock);
    if (!pool)
        return rdmad_fail(s, RDMAD_E_RANGE,
                          "the budget at %p lies in no pool of this session: use memory that "
                          "rdmad_alloc gave out",
                          t->budget);
    return rc ? rdmad_fail(s, rc, "no room for the record of a budget at %p", t->budget) : 0;
}

static int fill(struct rdmad_session *s, const char *name, const struct rdmad_service_terms *terms,
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
    return rc ? rc : fill_budget(s, &t, out, lent);
}

/* The reply has come; with the lock. */
static void listening(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_service_listen_rep *reply = call->reply;
    struct rdmad_service *service = call->object.service;

    service->number = reply->service;
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
    service = calloc(1, sizeof(*service));
    if (!service)
        return rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a service");
    rc = fill(s, name, terms, &request, &service->lent);
    if (rc) {
        free(service);
        return rc;
    }
    rdmad_object_init(&service->object, RDMAD_KIND_SERVICE);
    service->session = s;
    service->last_waiting = &service->waiting;
    memcpy(service->name, request.name, sizeof(service->name));
    struct rdmad_call call = {.type = RDMAD_MSG_SERVICE_LISTEN,
                              .request = &request,
                              .request_size = sizeof(request),
                              .reply = &reply,
                              .reply_size = sizeof(reply),
                              .accept = listening,
                              .object.service = service};
    rc = rdmad_control_call(s, &call);
    if (rc) {
        rdmad_lent_end(s, &service->lent);
        free(service);
    } else {
        *out = service;
    }
    return rc;
}

const char *rdmad_service_uri(const rdmad_service *service) {
    RDMAD_LIVE(service, SERVICE);
    return service->uri;
}

/* With the lock, off the session's list, and ended as an object. */
static void dispose(struct rdmad_service *service) {
    struct rdmad_incoming who;

    while (claim(service, NULL, &who))
        ;
    while (service->handed_over)
        forget_handed_over(service->handed_over);
    rdmad_lent_forget(&service->lent);
    rdmad_object_keep(&service->object, sizeof(*service));
}

void rdmad_services_dispose(struct rdmad_session *s) {
    while (s->services) {
        struct rdmad_service *service = s->services;
        s->services = service->next;
        rdmad_object_end(&service->object, RDMAD_KIND_SERVICE, service->number, "rdmad_close");
        dispose(service);
    }
}

void rdmad_service_close(rdmad_service *service) {
    struct rdmad_session *s;
    struct rdmad_service **at;
    int rc;

    if (!service)
        return;
    rdmad_object_end(&service->object, RDMAD_KIND_SERVICE, service->number, __func__);
    struct rdmad_service_close_req request = {.service = service->number};
    struct rdmad_call call = {.type = RDMAD_MSG_SERVICE_CLOSE,
                              .request = &request,
                              .request_size = sizeof(request),
                              .quiet = true};
    s = service->session;
    rc = rdmad_control_call(s, &call); /* answered when the requested leases have ended */
    pthread_mutex_lock(&s->lock);
    if (!rc)
        rdmad_lent_back(&service->lent);
    for (at = &s->services; *at != service; at = &(*at)->next)
        ;
    *at = service->next;
    dispose(service);
    rdmad_event_signal(s);
    pthread_mutex_unlock(&s->lock);
}
