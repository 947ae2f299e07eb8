/* SPDX-License-Identifier: MIT */
/*
 * ring_object.c - create: charge, map, tell the worker, report. destroy: the same backwards.
 *
 * The ring is in the session's table from the moment the worker hears of it. When the session
 * closes meanwhile, its close takes the ring from the table, and only the descriptors are left to
 * be closed here.
 */
#include "daemon/state/ring_object.h"
#include "daemon/ipc/ring.h"
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

struct creation {
    struct session *session; /* held */
    uint64_t handle;
    int fds[RING_FDS];
    ring_created *done;
    void *arg;
};

static void unmap_run(struct offload_job *job) {
    struct ring_object *ro = container_of(job, struct ring_object, unmap);
    ring_destroy(ro->ring);
}

static void unmap_done(struct offload_job *job) {
    struct ring_object *ro = container_of(job, struct ring_object, unmap);
    struct session *s = ro->session;
    quota_discharge(&ro->bytes_charge);
    quota_discharge(&ro->count_charge);
    free(ro);
    session_release(s);
}

void ring_object_free(struct ring_object *ro) {
    ro->unmap = (struct offload_job){
        .reply_to = ro->session->state->mailbox, .run = unmap_run, .done = unmap_done};
    offload_post(ro->session->state->offload, &ro->unmap);
}

static int charge(struct ring_object *ro, uint64_t bytes, struct error *err) {
    struct session *s = ro->session;
    struct quota *q = &s->state->quota;
    int rc = quota_charge(q, &s->account, s->uid_account, QUOTA_RINGS, 1, &ro->count_charge, err);
    if (rc)
        return rc;
    rc = quota_charge(q, &s->account, s->uid_account, QUOTA_BYTES, bytes, &ro->bytes_charge, err);
    if (rc)
        quota_discharge(&ro->count_charge);
    return rc;
}

/* A charged ring in the session's table, not yet known to the worker. */
static int make(struct session *s, uint32_t sq_entries, uint32_t cq_entries,
                struct ring_object **out, int fds[RING_FDS], struct error *err) {
    struct ring_object *ro = calloc(1, sizeof(*ro));
    if (!ro)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a ring");
    ro->session = s;
    int rc = charge(ro, ring_bytes(sq_entries, cq_entries), err);
    if (rc)
        goto uncharged;
    rc = ring_create(sq_entries, cq_entries, &ro->ring, fds, err);
    if (rc)
        goto unmapped;
    ro->handle = slots_add(&s->rings, ro);
    if (!ro->handle) {
        rc = error_set(err, RDMAD_E_NOMEM, "out of memory for one more ring");
        goto unlisted;
    }
    session_hold(s);
    *out = ro;
    return 0;

unlisted:
    ring_destroy(ro->ring);
    for (int i = 0; i < RING_FDS; i++)
        close(fds[i]);
unmapped:
    quota_discharge(&ro->bytes_charge);
    quota_discharge(&ro->count_charge);
uncharged:
    free(ro);
    return rc;
}

static void close_fds(const int fds[RING_FDS]) {
    for (int i = 0; i < RING_FDS; i++)
        close(fds[i]);
}

/* Why the ring is not to be handed out although the worker has it. */
static const struct error *changed_meanwhile(const struct session *s, const struct ring_object *ro,
                                             struct error *err) {
    if (s->closing)
        error_set(err, RDMAD_E_SHUTDOWN, "the session is ending");
    else if (!ro) /* a client may guess the handle before it is told */
        error_set(err, RDMAD_E_CANCELED, "the ring was destroyed while it was made");
    else
        return NULL;
    return err;
}

static void ring_added(void *arg, const struct error *result) {
    struct creation *c = arg;
    struct session *s = c->session;
    struct error err;
    struct ring_object *ro = slots_get(&s->rings, c->handle);
    const struct error *failed = result->code ? result : changed_meanwhile(s, ro, &err);
    if (result->code && ro) {
        slots_remove(&s->rings, c->handle);
        ring_object_free(ro);
    }
    if (failed) {
        close_fds(c->fds);
        c->done(c->arg, NULL, NULL, failed);
    } else {
        c->done(c->arg, ro, c->fds, result);
    }
    free(c);
    session_release(s);
}

void ring_object_create(struct session *s, uint32_t sq_entries, uint32_t cq_entries,
                        ring_created *done, void *arg) {
    struct error err;
    struct ring_object *ro = NULL;
    struct creation *c = calloc(1, sizeof(*c));
    if (!c) {
        error_set(&err, RDMAD_E_NOMEM, "out of memory for a ring");
        done(arg, NULL, NULL, &err);
        return;
    }
    if (make(s, sq_entries, cq_entries, &ro, c->fds, &err)) {
        free(c);
        done(arg, NULL, NULL, &err);
        return;
    }
    c->session = s;
    c->handle = ro->handle;
    c->done = done;
    c->arg = arg;
    session_hold(s);
    plane_ring_add(s->plane, ro->handle, ro->ring, ring_added, c);
}

/* ---- destroy ----------------------------------------------------------------------------- */

struct destruction {
    struct ring_object *ro;
    plane_done *done;
    void *arg;
};

static void ring_dropped(void *arg, const struct error *result) {
    struct destruction d = *(struct destruction *)arg;
    free(arg);
    d.done(d.arg, result);
    ring_object_free(d.ro);
}

int ring_object_destroy(struct session *s, uint64_t handle, plane_done *done, void *arg,
                        struct error *err) {
    struct ring_object *ro = slots_get(&s->rings, handle);
    if (!ro)
        return error_set(err, RDMAD_E_HANDLE, "the session has no ring 0x%" PRIx64, handle);
    struct destruction *d = malloc(sizeof(*d));
    if (!d)
        return error_set(err, RDMAD_E_NOMEM, "out of memory");
    *d = (struct destruction){ro, done, arg};
    slots_remove(&s->rings, handle);
    plane_ring_drop(s->plane, handle, ring_dropped, d);
    return 0;
}
