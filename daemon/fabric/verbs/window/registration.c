/* SPDX-License-Identifier: MIT */
/*
 * registration.c - windows as registrations of exactly their range, in a PD of the peer alone.
 *
 * ibv_reg_mr on the registrar makes the right, ibv_dereg_mr on the revoker is the barrier: once it
 * has returned the device touches the range no more, whatever streams. Another peer's QPs are in
 * another PD, so its copy of the key is worth nothing there.
 *
 * The peer counts from the beginning of the pool, so that a key tells none of our addresses;
 * devices want the place in the page to be the true one, huge pages included, and pools begin with
 * a page. Windows of one peer to the same range with the same rights share a registration: two
 * hundred sessions there that read the same lease cost one. It goes with the last of them.
 */
#include "daemon/fabric/verbs/host/memory.h"
#include "daemon/fabric/verbs/window/revocation.h"
#include "daemon/fabric/verbs/window/window.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_MASK 4095u

struct registration {
    struct list node; /* in windows.registrations, as long as it can be shared */
    struct vpeer *peer;
    void *base;
    uint64_t length, iova;
    uint32_t rights;
    uint64_t lease_id; /* of the first, for messages */
    unsigned access;   /* IBV_ACCESS_* */
    struct ibv_mr *mr;
    int failed;    /* errno */
    bool unwanted; /* before it was begun: the registrar looks at it, so by __atomic builtins */
    enum {
        REGISTRATION_MAKING,   /* by the registrar */
        REGISTRATION_UNWANTED, /* likewise, and then it is taken back */
        REGISTRATION_READY,
        REGISTRATION_ENDING, /* is being taken back */
    } state;
    unsigned users;
    struct list windows;
    struct offload_job making_job;
    struct revocation revocation;
};

/* Owners and peers choose the ranges: without the secret nobody can tell which fall together. */
static struct list *registration_bucket(struct verbs *v, uint64_t peer, const void *base,
                                        uint64_t length) {
    const uint64_t *secret = v->windows.secret;
    uint64_t x = (uintptr_t)base * secret[0] + length * secret[1] + peer * secret[2];
    return &v->windows.registrations[(x >> 40) % REGISTRATION_BUCKETS];
}

static struct registration *registration_find(struct list *bucket, const struct vpeer *p,
                                              const struct fabric_window_spec *spec) {
    list_for_each (pos, bucket) {
        struct registration *r = list_entry(pos, struct registration, node);
        if (r->peer == p && r->base == spec->base && r->length == spec->length &&
            r->rights == spec->rights)
            return r;
    }
    return NULL;
}

static void registration_key(const struct registration *r, struct verbs_key *key) {
    *key = (struct verbs_key){.address = r->iova, .count = 1, .rkey = {r->mr->rkey}};
}

static void registration_free(struct registration *r) {
    struct vpeer *p = r->peer;
    list_remove(&r->node);
    free(r);
    p->holds--;
    vpeer_check_free(p);
}

/* ---- its end ------------------------------------------------------------------------------- */

static void registration_windows_ended(struct registration *r, const struct error *why) {
    for (struct list *pos; (pos = list_pop(&r->windows));)
        window_ended(list_entry(pos, struct verbs_window, at), why);
}

static int registration_take(struct revocation *t) {
    return ibv_dereg_mr(container_of(t, struct registration, revocation)->mr);
}

/* Nothing of it is on the device. */
static void registration_gone(struct registration *r) {
    struct error why;
    error_set(&why, RDMAD_E_FABRIC,
              "the RDMA device went while lease %" PRIu64 " was made known to it; attach again",
              r->lease_id);
    registration_windows_ended(r, &why);
    registration_free(r);
}

static void registration_taken(struct revocation *t) {
    registration_gone(container_of(t, struct registration, revocation));
}

/* Nobody wants it, or its device goes. */
static void registration_end(struct registration *r) {
    list_remove(&r->node);
    if (r->state == REGISTRATION_MAKING) {
        r->state = REGISTRATION_UNWANTED;
        __atomic_store_n(&r->unwanted, true, __ATOMIC_RELAXED);
        return;
    }
    assert(r->state == REGISTRATION_READY);
    r->state = REGISTRATION_ENDING;
    revocation_start(&r->revocation, r->peer, r->lease_id);
}

static void registrations_end(struct verbs *v) {
    for (unsigned i = 0; i < REGISTRATION_BUCKETS; i++) {
        list_for_each_safe (pos, &v->windows.registrations[i])
            registration_end(list_entry(pos, struct registration, node));
    }
}

static bool registration_close(struct verbs_window *w) {
    struct registration *r = w->registration;
    if (r->state == REGISTRATION_UNWANTED || r->state == REGISTRATION_ENDING)
        return false;
    assert(r->users > 0);
    if (--r->users > 0) {
        list_remove(&w->at);
        w->by = NULL;
        return true;
    }
    registration_end(r);
    return false;
}

/* ---- its making ---------------------------------------------------------------------------- */

static void registration_make(struct offload_job *job) {
    struct registration *r = container_of(job, struct registration, making_job);
    if (__atomic_load_n(&r->unwanted, __ATOMIC_RELAXED))
        return;
    r->mr = ibv_reg_mr_iova(r->peer->pd, r->base, r->length, r->iova, r->access);
    r->failed = r->mr ? 0 : errno;
}

static void registration_failed(struct registration *r) {
    const struct device *d = r->peer->verbs->device;
    struct error why;
    list_remove(&r->node);
    error_set(&why, r->failed == ENOMEM ? RDMAD_E_LIMIT : RDMAD_E_FABRIC,
              "device %s does not register the %" PRIu64 " bytes of lease %" PRIu64 ": %s; %s",
              d->name, r->length, r->lease_id, strerror(r->failed),
              r->failed == ENOMEM ? "raise the daemon's memlock limit, or end some leases"
                                  : "see the kernel's log");
    registration_windows_ended(r, &why);
    registration_free(r);
}

/* Tells every window that waits for it; each owner may close any of them meanwhile. */
static void registration_made(struct offload_job *job) {
    struct registration *r = container_of(job, struct registration, making_job);
    struct verbs *v = r->peer->verbs;
    struct list waiting = LIST_INIT(waiting);
    struct list *pos;
    struct verbs_key key;
    assert(r->state == REGISTRATION_MAKING || r->state == REGISTRATION_UNWANTED);
    bool unwanted = r->state == REGISTRATION_UNWANTED;
    r->state = REGISTRATION_READY;
    if (unwanted && !r->mr) {
        registration_gone(r);
    } else if (!r->mr) {
        registration_failed(r);
    } else if (unwanted) {
        registration_end(r);
    } else {
        registration_key(r, &key);
        list_splice(&waiting, &r->windows);
        while ((pos = list_pop(&waiting))) {
            struct verbs_window *w = list_entry(pos, struct verbs_window, at);
            list_append(&r->windows, pos);
            if (w->state == WINDOW_OPENING)
                window_told(w, &key);
        }
    }
    verbs_job_end(v);
}

static uint64_t registration_iova(const struct fabric_window_spec *spec) {
    uint64_t place = (uintptr_t)spec->base & PAGE_MASK;
    if (!spec->memory)
        return place;
    return (memory_offset(spec->memory, spec->base) & ~(uint64_t)PAGE_MASK) | place;
}

static bool odp_for(const struct device *d, unsigned access) {
    uint32_t caps = d->attr.odp_caps.per_transport_caps.rc_odp_caps;
    return d->settings.odp && device_has_odp(d) &&
           (!(access & IBV_ACCESS_REMOTE_ATOMIC) || (caps & IBV_ODP_SUPPORT_ATOMIC));
}

static struct registration *registration_new(struct vpeer *p,
                                             const struct fabric_window_spec *spec) {
    struct verbs *v = p->verbs;
    struct registration *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    *r = (struct registration){
        .peer = p,
        .base = spec->base,
        .length = spec->length,
        .rights = spec->rights,
        .lease_id = spec->lease_id,
        .iova = registration_iova(spec),
        .state = REGISTRATION_MAKING,
        .making_job = {.owner = spec->owner, .run = registration_make, .done = registration_made},
        .revocation = {.job.owner = spec->owner,
                       .take = registration_take,
                       .taken = registration_taken},
    };
    if (spec->rights & RDMAD_RIGHT_READ)
        r->access |= IBV_ACCESS_REMOTE_READ;
    if (spec->rights & RDMAD_RIGHT_WRITE) /* the one needs the other */
        r->access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
    if (spec->rights & RDMAD_RIGHT_ATOMIC && device_has_atomics(v->device))
        r->access |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
    if (odp_for(v->device, r->access))
        r->access |= IBV_ACCESS_ON_DEMAND;
    list_init(&r->windows);
    list_append(registration_bucket(v, p->id, r->base, r->length), &r->node);
    p->holds++;
    return r;
}

static int registration_open(struct verbs_window *w, const struct fabric_window_spec *spec,
                             struct fabric_blob *key, struct error *err) {
    struct vpeer *p = w->peer;
    struct verbs *v = p->verbs;
    struct registration *r =
        registration_find(registration_bucket(v, p->id, spec->base, spec->length), p, spec);
    bool first = !r;

    if (first && !(r = registration_new(p, spec)))
        return error_set(err, RDMAD_E_NOMEM, "no memory for a registration of lease %" PRIu64,
                         spec->lease_id);
    r->users++;
    w->by = &protection_registrations;
    w->registration = r;
    list_append(&r->windows, &w->at);
    if (first)
        verbs_job_begin(v, host_registrar(v->member.host), &r->making_job);
    if (r->state == REGISTRATION_MAKING)
        return FABRIC_PENDING;
    struct verbs_key k;
    registration_key(r, &k);
    blob_write_key(&k, key);
    return 0;
}

const struct protection protection_registrations = {
    .open = registration_open,
    .close = registration_close,
    .device_going = registrations_end,
};
