/* SPDX-License-Identifier: MIT */
/*
 * budget.c - memory of the budget comes and goes.
 */
#include "libclient/channel/budget.h"
#include "libclient/base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rdmad_budget_fill(struct rdmad_session *s, const struct rdmad_service_terms *t,
                      struct rdmad_service_listen_req *out, struct rdmad_lent *lent) {
    if (!t->budget && t->budget_bytes)
        return rdmad_fail(s, RDMAD_E_INVAL,
                          "a budget of %zu bytes needs memory of a pool to be taken from",
                          t->budget_bytes);
    if (!t->budget)
        return 0;
    int rc;
    struct rdmad_pool *pool = rdmad_lend(s, t->budget, t->budget_bytes, lent, &rc);
    if (!pool)
        return rdmad_fail(s, RDMAD_E_RANGE,
                          "the budget at %p lies in no pool of this session: use memory that "
                          "rdmad_alloc gave out",
                          t->budget);
    if (rc)
        return rdmad_fail(s, rc, "no room for the record of a budget at %p", t->budget);
    out->budget_pool = pool->handle;
    out->budget_offset = (uintptr_t)t->budget - (uintptr_t)pool->base;
    out->budget_length = t->budget_bytes;
    return 0;
}

static struct rdmad_pool *budget_pool(struct rdmad_session *s, uint64_t handle) {
    struct rdmad_pool *p = s->pools;
    while (p && p->handle != handle)
        p = p->next;
    return p;
}

static void handed_over_forget(struct rdmad_handed_over *h) {
    struct rdmad_handed_over **at = &h->service->handed_over;
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    rdmad_event_unqueue(h->service->session, &h->source);
    free(h);
}

static bool handed_over_take_event(struct rdmad_event_source *source, struct rdmad_event *out) {
    struct rdmad_handed_over *h = RDMAD_SOURCE_OF(source, struct rdmad_handed_over);
    out->type = RDMAD_EVENT_HANDED_OVER;
    out->service = h->service;
    out->user = h->service->user;
    out->lease_id = h->lease;
    out->memory = h->memory;
    out->length = h->length;
    snprintf(out->text, sizeof(out->text), "uid %u of node %s handed over %zu bytes to service %s",
             h->uid, h->node, h->length, h->service->name);
    return false;
}

void rdmad_service_on_handed_over(struct rdmad_session *s, const void *body) {
    struct rdmad_ev_handed_over e;
    struct rdmad_service *service;
    struct rdmad_handed_over *h;
    struct rdmad_pool *pool;
    memcpy(&e, body, sizeof(e));
    service = rdmad_service_find(s, e.service);
    pool = budget_pool(s, e.pool);
    if (!service || !pool)
        return; /* closed meanwhile */
    if (e.offset > pool->bytes || e.length > pool->bytes - e.offset) {
        rdmad_control_lose(s, RDMAD_E_PROTOCOL,
                           "rdmad handed over memory outside its pool; the session is closed");
        return;
    }
    h = calloc(1, sizeof(*h));
    if (!h) {
        rdmad_service_out_of_memory(s);
        return;
    }
    e.node[RDMAD_NAME_MAX] = '\0';
    h->service = service;
    h->source.take = handed_over_take_event;
    h->lease = e.lease;
    h->offset = e.offset;
    h->memory = pool->base + e.offset;
    h->length = e.length;
    h->uid = e.uid;
    snprintf(h->node, sizeof(h->node), "%s", e.node);
    h->next = service->handed_over;
    service->handed_over = h;
    rdmad_event_queue(s, &h->source);
}

/* With the lock. */
static void free_fill(struct rdmad_session *s, const struct rdmad_call *call, void *request) {
    struct rdmad_budget_free_req *req = request;
    (void)s;
    req->service = call->object.service->number;
}

/* With the lock: it is the budget's again, and no later daemon hears of it. */
static void freed(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_budget_free_req *req = call->request;
    struct rdmad_handed_over *h = call->object.service->handed_over;
    while (h && h->offset != req->offset)
        h = h->next;
    if (h)
        handed_over_forget(h);
    rdmad_event_signal(s);
}

/* With the lock: whether memory lies in the service's budget, and where in its pool. */
static bool budget_has(const struct rdmad_service *service, const void *memory, uint64_t *offset) {
    const struct rdmad_lent *budget = &service->lent;
    if (!budget->pool)
        return false;
    *offset = (uintptr_t)memory - (uintptr_t)budget->pool->base;
    return *offset >= budget->offset && *offset - budget->offset < budget->length;
}

int rdmad_service_free(rdmad_service *service, void *memory) {
    RDMAD_LIVE(service, SERVICE);
    struct rdmad_session *s = service->session;
    struct rdmad_budget_free_req request = {.service = 0};
    struct rdmad_call call = {.type = RDMAD_MSG_BUDGET_FREE,
                              .request = &request,
                              .request_size = sizeof(request),
                              .fill = free_fill,
                              .accept = freed,
                              .object.service = service};
    pthread_mutex_lock(&s->lock);
    bool its = budget_has(service, memory, &request.offset);
    pthread_mutex_unlock(&s->lock);
    if (!its)
        return rdmad_fail(s, RDMAD_E_RANGE,
                          "%p does not lie in the budget of service %s: give back the memory that "
                          "an event of that service named",
                          memory, service->name);
    return rdmad_control_call(s, &call);
}

void rdmad_budget_keep(const struct rdmad_service *service, size_t *from, struct rdmad_kept *out) {
    const struct rdmad_handed_over *h = service->handed_over;
    for (size_t i = 0; i < *from && h; i++)
        h = h->next;
    *out = (struct rdmad_kept){.count = 0};
    for (; h && out->count < RDMAD_KEPT_PER_REQUEST; h = h->next) {
        out->range[out->count].offset = h->offset;
        out->range[out->count++].length = h->length;
    }
    *from += out->count;
    out->more = h != NULL;
}

void rdmad_budget_forget(struct rdmad_service *service) {
    while (service->handed_over)
        handed_over_forget(service->handed_over);
    rdmad_lent_forget(&service->lent);
}
