/* SPDX-License-Identifier: MIT */
/*
 * binding.c - windows as type-2 memory windows over the pool's registration, each good on one QP.
 *
 * The happy path: as many memory windows as the target has lanes are taken from the spares (which
 * the registrar allocates ahead), each is bound by a work request on its lane, and when the last
 * bind has completed the key with an rkey a lane is told. The end is ibv_dealloc_mw on the revoker,
 * never a LOCAL_INV: what the device flushes says nothing, an invalidation that is repeated crashes
 * some drivers, and dealloc_mw is plain.
 *
 * A bind that fails breaks its QP, and thereby the target: all its windows are let go of, and the
 * peer makes a new link and asks for new keys. Binds wait for room in the queues in the order in
 * which they came.
 *
 * The peer counts in addresses of ours: windows count as their registration does.
 */
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/host/memory.h"
#include "daemon/fabric/verbs/window/revocation.h"
#include "daemon/fabric/verbs/window/window.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SPARES_LOW (SPARE_WINDOWS / 2)

struct binding {
    struct verbs_window *window;
    struct verbs_target *target;
    struct list unbound; /* in target.unbound */
    struct ibv_mw *mw[VERBS_LANES_MAX];
    uint32_t rkey[VERBS_LANES_MAX];
    unsigned lanes, under_way; /* binds posted and not completed */
    struct ibv_mw_bind_info range;
    enum {
        BINDING_ALLOCATING, /* by the registrar */
        BINDING_HELD,       /* waits for room, is under way, or is bound */
        BINDING_ENDING,     /* is being taken back */
    } state;
    bool unwanted; /* ends as soon as it can */
    int failed;    /* errno of allocating */
    struct error why;
    struct offload_job allocation;
    struct revocation revocation;
};

/* ---- spares -------------------------------------------------------------------------------- */

struct spares_job {
    struct offload_job job;
    struct verbs *verbs;
    struct ibv_pd *pd;
    unsigned count;
    struct ibv_mw *mw[SPARE_WINDOWS];
};

static void spares_allocate(struct offload_job *job) {
    struct spares_job *j = container_of(job, struct spares_job, job);
    unsigned wanted = j->count;
    for (j->count = 0; j->count < wanted; j->count++)
        if (!(j->mw[j->count] = ibv_alloc_mw(j->pd, IBV_MW_TYPE_2)))
            return; /* who needs one will say why there is none */
}

static void spares_free(struct offload_job *job) {
    struct spares_job *j = container_of(job, struct spares_job, job);
    for (unsigned i = 0; i < j->count; i++)
        if (ibv_dealloc_mw(j->mw[i]))
            LOG_LIMITED(ERR, ("a memory window that nobody uses cannot be given back"));
}

static void spares_freed(struct offload_job *job) {
    struct spares_job *j = container_of(job, struct spares_job, job);
    struct verbs *v = j->verbs;
    free(j);
    verbs_job_end(v);
}

static void spares_free_start(struct spares_job *j) {
    j->job.run = spares_free;
    j->job.done = spares_freed;
    verbs_job_begin(j->verbs, host_revoker(j->verbs->member.host), &j->job);
}

static void spares_allocated(struct offload_job *job) {
    struct spares_job *j = container_of(job, struct spares_job, job);
    struct verbs *v = j->verbs;
    v->windows.refilling = false;
    while (!v->going && !v->windows.closing && j->count > 0 && v->windows.spares < SPARE_WINDOWS)
        v->windows.spare[v->windows.spares++] = j->mw[--j->count];
    if (j->count > 0)
        spares_free_start(j);
    else
        free(j);
    verbs_job_end(v);
}

static void spares_refill(struct verbs *v) {
    struct windows *w = &v->windows;
    if (!v->device->memory_windows || v->going || w->closing || w->refilling ||
        w->spares > SPARES_LOW)
        return;
    struct spares_job *j = calloc(1, sizeof(*j));
    if (!j)
        return;
    *j = (struct spares_job){.job = {.run = spares_allocate, .done = spares_allocated},
                             .verbs = v,
                             .pd = v->device->pd,
                             .count = SPARE_WINDOWS - w->spares};
    w->refilling = true;
    verbs_job_begin(v, host_registrar(v->member.host), &j->job);
}

static void spares_end(struct verbs *v) {
    struct windows *w = &v->windows;
    if (w->spares == 0)
        return;
    struct spares_job *j = calloc(1, sizeof(*j));
    if (j) {
        *j = (struct spares_job){.verbs = v, .count = w->spares};
        for (unsigned i = 0; i < w->spares; i++)
            j->mw[i] = w->spare[i];
        spares_free_start(j);
    } else {
        for (unsigned i = 0; i < w->spares; i++)
            ibv_dealloc_mw(w->spare[i]);
    }
    w->spares = 0;
}

/* ---- the end ------------------------------------------------------------------------------- */

static int binding_deallocate(struct revocation *r) {
    struct binding *b = container_of(r, struct binding, revocation);
    for (unsigned i = 0; i < b->lanes; i++) {
        int failed = b->mw[i] ? ibv_dealloc_mw(b->mw[i]) : 0;
        if (failed)
            return failed;
        b->mw[i] = NULL;
    }
    return 0;
}

static void binding_deallocated(struct revocation *r) {
    struct binding *b = container_of(r, struct binding, revocation);
    struct verbs_window *w = b->window;
    struct verbs_target *t = b->target;
    struct error why = b->why;
    list_remove(&w->at);
    free(b);
    target_note(t);
    window_ended(w, &why);
}

/* Once nothing is under way that still would use its memory windows. */
static void binding_end(struct binding *b) {
    list_remove(&b->unbound);
    b->unwanted = true;
    bool used = b->under_way > 0 && b->target->state <= TARGET_BROKEN;
    if (b->state != BINDING_HELD || used)
        return;
    b->state = BINDING_ENDING;
    revocation_start(&b->revocation, b->window->peer, b->window->lease_id);
}

static bool binding_close(struct verbs_window *w) {
    binding_end(w->binding);
    return false;
}

static void binding_fail(struct binding *b, const struct error *why) {
    if (!b->unwanted)
        b->why = *why;
    binding_end(b);
}

/* Completions that still come find nobody. */
static void queue_disown(struct queue *q) {
    for (uint64_t at = q->head; at != q->tail; at++)
        q->ring->slot[at % q->depth].user = NULL;
}

static void binding_target_left(struct verbs_target *t) {
    struct error why;
    error_set(&why, RDMAD_E_PEER_LOST, "the link of the peer that a window was to be for is gone");
    for (unsigned i = 0; i < t->lanes; i++)
        queue_disown(&t->queue[i]);
    list_for_each (pos, &t->windows)
        binding_fail(list_entry(pos, struct verbs_window, at)->binding, &why);
}

/* ---- binding ------------------------------------------------------------------------------- */

static bool target_has_room(const struct verbs_target *t) {
    for (unsigned i = 0; i < t->lanes; i++)
        if (queue_room(&t->queue[i]) == 0)
            return false;
    return true;
}

static int binding_bind_lane(struct binding *b, unsigned i) {
    struct queue *q = &b->target->queue[i];
    struct ibv_send_wr *bad;
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
    b->rkey[i] = ibv_inc_rkey(b->mw[i]->rkey); /* the last 8 bits are the consumer's to change */
    wr.bind_mw.mw = b->mw[i];
    wr.bind_mw.rkey = b->rkey[i];
    wr.bind_mw.bind_info = b->range;
    queue_take(q, &wr, b);
    int failed = ibv_post_send(q->qp, &wr, &bad);
    if (failed)
        queue_untake(q, 1);
    else
        b->under_way++;
    return failed;
}

static void binding_bind(struct binding *b) {
    struct error why;
    list_remove(&b->unbound);
    for (unsigned i = 0; i < b->lanes; i++) {
        int failed = binding_bind_lane(b, i);
        if (!failed)
            continue;
        error_set(&why, RDMAD_E_FABRIC, "device %s binds no window for lease %" PRIu64 ": %s",
                  b->target->peer->verbs->device->name, b->window->lease_id, strerror(failed));
        binding_fail(b, &why);
        return;
    }
}

static void target_bind_waiting(struct verbs_target *t) {
    struct list *pos;
    while (t->state == TARGET_LIVE && (pos = list_first(&t->unbound)) && target_has_room(t))
        binding_bind(list_entry(pos, struct binding, unbound));
}

static void binding_bound(struct binding *b) {
    struct verbs_key key = {.address = b->range.addr, .count = (uint8_t)b->lanes};
    memcpy(key.rkey, b->rkey, b->lanes * sizeof(b->rkey[0]));
    window_told(b->window, &key);
}

static void target_bind_failed(struct verbs_target *t, enum ibv_wc_status status) {
    if (t->state != TARGET_LIVE) /* flushed behind one that was told of */
        return;
    LOG_LIMITED_OF(log_of_connection(t->peer->id), INFO,
                   ("link %" PRIu64 " of a peer broke: binding a window ended with %s", t->number,
                    ibv_wc_status_str(status)),
                   FIELD_U64("PEER", t->peer->id));
    target_broke(t);
}

/* A bind ended. What is told comes last, for its owner may do anything. */
static void target_bind_ended(struct queue *q, struct wr_slot *slot, const struct ibv_wc *wc) {
    struct binding *b = slot->user;
    (void)q;
    if (!b)
        return;
    struct verbs_target *t = b->target;
    assert(b->under_way > 0);
    b->under_way--;
    if (wc->status != IBV_WC_SUCCESS) {
        target_bind_failed(t, wc->status);
        return;
    }
    bool ready = b->under_way == 0 && !b->unwanted;
    if (b->under_way == 0 && b->unwanted)
        binding_end(b);
    target_bind_waiting(t);
    if (ready && !b->unwanted && t->state == TARGET_LIVE) /* else it fails with its target */
        binding_bound(b);
}

static void binding_target_made(struct verbs_target *t) {
    for (unsigned i = 0; i < t->lanes; i++)
        t->queue[i].ended = target_bind_ended;
    spares_refill(t->peer->verbs);
}

/* ---- the start ----------------------------------------------------------------------------- */

static void binding_allocate(struct offload_job *job) {
    struct binding *b = container_of(job, struct binding, allocation);
    for (unsigned i = 0; i < b->lanes; i++) {
        if (!b->mw[i] && !(b->mw[i] = ibv_alloc_mw(b->range.mr->pd, IBV_MW_TYPE_2))) {
            b->failed = errno;
            return;
        }
    }
}

static void binding_ready(struct binding *b) {
    list_append(&b->target->unbound, &b->unbound);
    target_bind_waiting(b->target);
}

static void binding_allocated(struct offload_job *job) {
    struct binding *b = container_of(job, struct binding, allocation);
    struct verbs *v = b->window->peer->verbs;
    struct error why;
    assert(b->state == BINDING_ALLOCATING);
    b->state = BINDING_HELD;
    if (b->failed) {
        error_set(&why, b->failed == ENOMEM ? RDMAD_E_LIMIT : RDMAD_E_FABRIC,
                  "device %s has no memory window for lease %" PRIu64
                  ": %s (max_mw is %d); end some leases",
                  v->device->name, b->window->lease_id, strerror(b->failed),
                  v->device->attr.orig_attr.max_mw);
        binding_fail(b, &why);
    } else if (b->unwanted) {
        binding_end(b);
    } else {
        binding_ready(b);
    }
    verbs_job_end(v);
}

static void binding_take_spares(struct binding *b, struct windows *w) {
    for (unsigned i = 0; i < b->lanes && w->spares > 0; i++)
        b->mw[i] = w->spare[--w->spares];
}

static struct binding *binding_new(struct verbs_window *w, struct verbs_target *t,
                                   struct ibv_mr *mr, const struct fabric_window_spec *spec) {
    struct binding *b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    *b = (struct binding){
        .window = w,
        .target = t,
        .lanes = t->lanes,
        .state = BINDING_HELD,
        .range = {.mr = mr, .addr = (uintptr_t)spec->base, .length = spec->length},
        .allocation = {.owner = spec->owner, .run = binding_allocate, .done = binding_allocated},
        .revocation = {.job.owner = spec->owner,
                       .take = binding_deallocate,
                       .taken = binding_deallocated},
    };
    if (spec->rights & RDMAD_RIGHT_READ)
        b->range.mw_access_flags |= IBV_ACCESS_REMOTE_READ;
    if (spec->rights & RDMAD_RIGHT_WRITE)
        b->range.mw_access_flags |= IBV_ACCESS_REMOTE_WRITE;
    if (spec->rights & RDMAD_RIGHT_ATOMIC && device_has_atomics(w->peer->verbs->device))
        b->range.mw_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
    list_init(&b->unbound);
    w->by = &protection_memory_windows;
    w->binding = b;
    list_append(&t->windows, &w->at);
    return b;
}

static int binding_open(struct verbs_window *w, const struct fabric_window_spec *spec,
                        struct fabric_blob *key, struct error *err) {
    (void)key; /* told later */
    struct verbs *v = w->peer->verbs;
    struct verbs_target *t = spec->via ? target_by_number(w->peer, spec->via) : NULL;
    if (!t)
        return error_set(err, RDMAD_E_PEER_LOST,
                         "lease %" PRIu64 " was asked for by link %" PRIu64
                         ", which is gone; make another link and ask again",
                         spec->lease_id, spec->via);
    struct ibv_mr *mr = spec->memory ? memory_mr(spec->memory, v->device) : NULL;
    if (!mr)
        return error_set(err, RDMAD_E_FABRIC,
                         "the pool of lease %" PRIu64 " is not registered on device %s: see the "
                         "daemon's log for why",
                         spec->lease_id, v->device->name);
    struct binding *b = binding_new(w, t, mr, spec);
    if (!b)
        return error_set(err, RDMAD_E_NOMEM, "no memory for a window of lease %" PRIu64,
                         spec->lease_id);
    binding_take_spares(b, &v->windows);
    spares_refill(v);
    if (b->mw[b->lanes - 1]) {
        binding_ready(b);
    } else {
        b->state = BINDING_ALLOCATING;
        verbs_job_begin(v, host_registrar(v->member.host), &b->allocation);
    }
    return FABRIC_PENDING;
}

const struct protection protection_memory_windows = {
    .open = binding_open,
    .close = binding_close,
    .device_going = spares_end,
    .target_made = binding_target_made,
    .target_left = binding_target_left,
};
