/* SPDX-License-Identifier: MIT */
/*
 * control.c - plane.h as the control thread calls it: each call becomes a mail to one worker.
 *
 * Everything that has to be allocated is allocated here; what fails for lack of memory is answered
 * like any other failure, in a later turn.
 */
#include "daemon/op/engine/route.h"
#include "daemon/op/notify/notifier.h"
#include "daemon/op/seam/call.h"
#include <stdio.h>
#include <stdlib.h>

#define HANDLES_MAX (1u << 20) /* a bound of the worker's tables; quotas are far below */

/* ---- sessions ---------------------------------------------------------------------------- */

static unsigned least_loaded(const struct plane *p) {
    unsigned best = 0;
    for (unsigned i = 1; i < p->settings.workers; i++)
        if (p->sessions[i] < p->sessions[best])
            best = i;
    return best;
}

struct plane_session *plane_session_add(struct plane *p, uint64_t id, uid_t uid, void *cookie) {
    struct op_account *account = account_join(&p->uids, uid);
    struct plane_session *ps = account ? calloc(1, sizeof(*ps)) : NULL;
    if (!ps) {
        account_leave(account);
        return NULL;
    }
    unsigned index = least_loaded(p);
    p->sessions[index]++;
    ps->plane = p;
    ps->worker = &p->worker[index];

    struct op_session *s = &ps->op;
    s->worker = ps->worker;
    s->id = id;
    s->cookie = cookie;
    s->uid = account;
    s->all = &p->all;
    list_init(&s->node);
    list_init(&s->every_ring);
    list_init(&s->own);
    list_init(&s->doomed);
    list_init(&s->throttled);
    list_init(&s->violated_node);
    list_init(&s->shares);
    list_init(&s->grants);
    slots_init(&s->channels, HANDLES_MAX);
    slots_init(&ps->channels, HANDLES_MAX);
    slots_init(&s->rings, HANDLES_MAX);
    slots_init(&s->pools, HANDLES_MAX);
    slots_init(&s->leases, HANDLES_MAX);

    struct call *c = call_new(p, ps->worker, table_session_add, NULL, NULL);
    c->session = ps;
    call_post(c);
    return ps;
}

const struct plane_session_stats *plane_session_stats(const struct plane_session *s) {
    return &s->op.stats;
}

unsigned plane_worker_of_session(const struct plane_session *s) {
    return s->worker->index;
}

static struct call *session_call(struct plane_session *s, uint64_t handle,
                                 void (*apply)(struct call *), plane_done *done, void *arg) {
    struct call *c = call_new(s->plane, s->worker, apply, done, arg);
    c->session = s;
    c->handle = handle;
    return c;
}

void plane_session_drop(struct plane_session *s, plane_done *done, void *arg) {
    s->dropped = true;
    slots_fini(&s->channels);
    s->plane->sessions[s->worker->index]--;
    call_post(session_call(s, 0, table_session_drop, done, arg));
}

void event_session_violated(struct mail *mail) {
    struct op_session *s = container_of(mail, struct op_session, violated_mail);
    const struct plane_session *ps = container_of(s, struct plane_session, op);
    const struct plane_events *events = &ps->plane->events;
    if (!ps->dropped)
        events->session_violated(events->user, s->cookie, &s->violated_why);
}

void event_memory_fault(struct mail *mail) {
    struct worker *w = container_of(mail, struct worker, fault_mail);
    const void *address = w->fault_address;
    __atomic_store_n(&w->fault_told, false, __ATOMIC_RELEASE);
    if (w->events->memory_fault)
        w->events->memory_fault(w->events->user, address);
}

/* ---- rings, pools, leases ---------------------------------------------------------------- */

void plane_ring_add(struct plane_session *s, uint64_t handle, struct ring *ring, plane_done *done,
                    void *arg) {
    struct call *c = session_call(s, handle, table_ring_add, done, arg);
    struct op_ring *r = calloc(1, sizeof(*r));
    if (!r) {
        call_refuse(c, RDMAD_E_NOMEM, "ring: out of memory");
        return;
    }
    r->session = &s->op;
    r->ring = ring;
    list_init(&r->node);
    list_init(&r->dirty_node);
    list_init(&r->session_node);
    list_init(&r->ops);
    list_init(&r->waits);
    list_init(&r->doomed);
    list_init(&r->behind);
    list_init(&r->fence_node);
    list_init(&r->knocks.node);
    c->object = r;
    call_post(c);
}

void plane_ring_drop(struct plane_session *s, uint64_t handle, plane_done *done, void *arg) {
    call_post(session_call(s, handle, table_ring_drop, done, arg));
}

void plane_pool_add(struct plane_session *s, uint64_t handle, void *base, uint64_t bytes,
                    struct fabric_memory *memory, plane_done *done, void *arg) {
    struct call *c = session_call(s, handle, table_pool_add, done, arg);
    struct op_pool *pool = calloc(1, sizeof(*pool));
    if (!pool) {
        call_refuse(c, RDMAD_E_NOMEM, "pool: out of memory");
        return;
    }
    pool->base = base;
    pool->bytes = bytes;
    pool->memory = memory;
    list_init(&pool->waits);
    list_init(&pool->doomed);
    c->object = pool;
    call_post(c);
}

void plane_pool_drop(struct plane_session *s, uint64_t handle, plane_done *done, void *arg) {
    call_post(session_call(s, handle, table_pool_drop, done, arg));
}

void plane_lease_add(struct plane_session *s, uint64_t handle, const struct plane_lease_spec *spec,
                     plane_done *done, void *arg) {
    struct call *c = session_call(s, handle, table_lease_add, done, arg);
    struct op_lease *lease = calloc(1, sizeof(*lease));
    c->share = malloc(sizeof(*c->share));
    bool notifies = !spec->lane && spec->owner;
    struct op_notifier *n = notifies ? notifier_new(&spec->owner->op, spec->notify_lease) : NULL;
    if (!lease || !c->share || (notifies && !n)) {
        free(lease);
        free(n);
        free(c->share);
        call_refuse(c, RDMAD_E_NOMEM, "lease: out of memory");
        return;
    }
    lease->lease_id = spec->lease_id;
    lease->length = spec->length;
    lease->deadline_ns = spec->deadline_ns;
    lease->rights = spec->rights;
    lease->leased_link = spec->lane != NULL;
    lease->key = spec->key;
    lease->notify_ref = spec->notify_ref;
    lease->use = spec->lane ? spec->audit : NULL;
    lease->notifier = n;
    op_lease_init(lease);
    c->object = lease;
    c->lane = spec->lane;
    c->window_spec = (struct fabric_window_spec){
        .base = spec->base,
        .length = spec->length,
        .rights = spec->rights,
        .deadline_ns = spec->deadline_ns,
        .lease_id = spec->lease_id,
        .audit = spec->audit,
    };
    call_post(c);
}

void plane_lease_extend(struct plane_session *s, uint64_t handle, uint64_t deadline_ns) {
    struct call *c = session_call(s, handle, table_lease_extend, NULL, NULL);
    c->deadline_ns = deadline_ns;
    call_post(c);
}

void plane_lease_key(struct plane_session *s, uint64_t handle, const struct fabric_blob *key) {
    struct call *c = session_call(s, handle, table_lease_key, NULL, NULL);
    c->given = *key;
    call_post(c);
}

void plane_lease_end(struct plane_session *s, uint64_t handle, int reason, plane_done *done,
                     void *arg) {
    struct call *c = session_call(s, handle, table_lease_end, done, arg);
    c->reason = reason;
    call_post(c);
}

void plane_lease_forget(struct plane_session *s, uint64_t handle) {
    call_post(session_call(s, handle, table_lease_forget, NULL, NULL));
}

/* ---- lanes ------------------------------------------------------------------------------- */

/* The worker hears of it with its first call. */
struct plane_lane *plane_lane_new(struct plane *p, unsigned fabric, unsigned worker, void *cookie) {
    struct plane_lane *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    lane->plane = p;
    lane->worker = &p->worker[worker];
    lane->op.cookie = cookie;
    route_init(&lane->op.route, &lane->worker->links[fabric]);
    list_init(&lane->op.leases);
    list_init(&lane->op.channels);
    return lane;
}

const struct fabric_ops *plane_lane_fabric(const struct plane_lane *lane) {
    return lane->op.route.seat->ops;
}

static struct call *lane_call(struct plane_lane *lane, void (*apply)(struct call *),
                              plane_done *done, void *arg) {
    struct call *c = call_new(lane->plane, lane->worker, apply, done, arg);
    c->lane = lane;
    return c;
}

void plane_lane_hello(struct plane_lane *lane, plane_blob_done *done, void *arg) {
    struct call *c = lane_call(lane, lane_hello, NULL, arg);
    c->blob_done = done;
    lane->hellos++;
    call_post(c);
}

void plane_lane_open(struct plane_lane *lane, const char *host, const struct fabric_blob *offer,
                     plane_done *done, void *arg) {
    struct call *c = lane_call(lane, lane_open, done, arg);
    snprintf(lane->host, sizeof(lane->host), "%s", host);
    c->given = *offer;
    call_post(c);
}

uint64_t plane_lane_number(const struct plane_lane *lane) {
    return __atomic_load_n(&lane->op.number, __ATOMIC_RELAXED);
}

uint64_t plane_lane_datagram(const struct plane_lane *lane) {
    return __atomic_load_n(&lane->op.datagram, __ATOMIC_RELAXED);
}

void plane_lane_drop(struct plane_lane *lane, plane_done *done, void *arg) {
    lane->dropped = true;
    call_post(lane_call(lane, lane_drop, done, arg));
}

/* Of a link that was given up for another meanwhile, nobody wants to hear. */
void event_lane_lost(struct mail *mail) {
    struct op_lane *lane = container_of(mail, struct op_lane, lost_mail);
    const struct plane_lane *pl = container_of(lane, struct plane_lane, op);
    const struct plane_events *events = &pl->plane->events;
    if (!pl->dropped && lane->lost_hello == pl->hellos)
        events->lane_lost(events->user, lane->cookie, &lane->lost_why);
}

/* ---- windows and offers ------------------------------------------------------------------ */

unsigned plane_worker_of_peer(const struct plane *p, uint64_t peer) {
    return (unsigned)(peer % p->settings.workers);
}

unsigned plane_workers(const struct plane *p) {
    return p->settings.workers;
}

static struct worker *worker_of_peer(struct plane *p, uint64_t peer) {
    return &p->worker[plane_worker_of_peer(p, peer)];
}

void plane_offer_on(struct plane *p, unsigned fabric, unsigned worker, uint64_t peer,
                    const struct fabric_blob *hello, plane_blob_done *done, void *arg) {
    struct call *c = call_new(p, &p->worker[worker], peer_offer, NULL, arg);
    c->blob_done = done;
    c->seat = &c->worker->links[fabric];
    c->peer = peer;
    c->given = *hello;
    call_post(c);
}

void plane_offer(struct plane *p, unsigned fabric, uint64_t peer, const struct fabric_blob *hello,
                 plane_blob_done *done, void *arg) {
    plane_offer_on(p, fabric, plane_worker_of_peer(p, peer), peer, hello, done, arg);
}

/* The peer's connections may be on any worker. done runs with the last answer. */
static void ask_every_worker(struct plane *p, unsigned fabric, void (*apply)(struct call *),
                             uint64_t peer, uint64_t number, plane_done *done, void *arg) {
    struct call *first = NULL;
    for (unsigned i = 0; i < p->settings.workers; i++) {
        struct call *c = call_new(p, &p->worker[i], apply, done, arg);
        c->seat = &c->worker->links[fabric];
        c->peer = peer;
        c->via = number;
        if (first)
            list_append(&first->group, &c->group);
        else
            first = c;
        call_post(c);
    }
}

void plane_forget(struct plane *p, unsigned fabric, uint64_t peer, uint64_t number,
                  plane_done *done, void *arg) {
    ask_every_worker(p, fabric, peer_forget, peer, number, done, arg);
}

void plane_expel(struct plane *p, unsigned fabric, uint64_t peer, plane_done *done, void *arg) {
    ask_every_worker(p, fabric, peer_expel, peer, 0, done, arg);
}

static struct call *window_call(struct plane_window *window, void (*apply)(struct call *),
                                plane_done *done, void *arg) {
    struct call *c = call_new(window->plane, window->worker, apply, done, arg);
    c->window = window;
    return c;
}

struct plane_window *plane_window_open(struct plane *p, unsigned fabric,
                                       const struct fabric_window_spec *spec, plane_blob_done *done,
                                       void *arg) {
    struct plane_window *window = calloc(1, sizeof(*window));
    if (!window)
        return NULL;
    window->plane = p;
    window->worker = window->op.worker = worker_of_peer(p, spec->peer);
    window->op.seat = &window->worker->links[fabric];
    window->op.spec = *spec;
    window->op.spec.cookie = &window->op;

    struct call *c = window_call(window, window_open, NULL, arg);
    c->blob_done = done;
    call_post(c);
    return window;
}

void plane_window_reopen(struct plane_window *w, uint64_t via, plane_blob_done *done, void *arg) {
    struct call *c = window_call(w, window_reopen, NULL, arg);
    c->blob_done = done;
    c->via = via;
    call_post(c);
}

void plane_window_extend(struct plane_window *w, uint64_t deadline_ns) {
    struct call *c = window_call(w, window_extend, NULL, NULL);
    c->deadline_ns = deadline_ns;
    call_post(c);
}

void plane_window_close(struct plane_window *w, int reason, plane_done *done, void *arg) {
    struct call *c = window_call(w, window_close, done, arg);
    c->reason = reason;
    call_post(c);
}
