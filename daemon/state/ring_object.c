/* SPDX-License-Identifier: MIT */
/*
 * ring_object.c - create: charge, map on a registration thread, report. Ready: look there,
 * tell the worker, report. destroy: the same backwards.
 *
 * The ring is in the session's table from when its client is told of it. Before it is taken from
 * the table the worker, if it was told of the ring, lets go of it.
 */
#include "daemon/state/ring_object.h"
#include "daemon/ipc/ring.h"
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

struct ring_creation {
    struct ring_object *ro;
    struct offload_job job;
    uint32_t sq_entries, cq_entries;
    int fds[RING_FDS];
    struct error result;
    ring_created *done;
    void *arg;
};

/* One ring_object_make_ready. */
struct ring_settling {
    struct ring_object *ro; /* referenced */
    struct offload_job job;
    struct error result;
    plane_done *done;
    void *arg;
};

/* ---- the end ----------------------------------------------------------------------------- */

static void ring_unmap_run(struct offload_job *job) {
    struct ring_object *ro = container_of(job, struct ring_object, unmap);
    if (ro->stage == RING_READY)
        ring_let_go(ro->ring);
    ring_destroy(ro->ring);
}

/* Its client can hold up each of the two closes, and is charged meanwhile. */
static void ring_object_end(struct ring_object *ro) {
    struct session *s = ro->session;
    if (!ro->unmapped || ro->closings)
        return;
    session_discharge(&ro->charges);
    free(ro);
    session_release(s);
}

static void ring_fd_closed(void *arg) {
    struct ring_object *ro = arg;
    ro->closings--;
    ring_object_end(ro);
}

/* One of the two. */
static void ring_close_fd(struct ring_object *ro, struct closing *c, int fd) {
    ro->closings++;
    closing_begin(c, ro->session, fd, ring_fd_closed, ro);
}

static void ring_unmap_done(struct offload_job *job) {
    struct ring_object *ro = container_of(job, struct ring_object, unmap);
    ro->unmapped = true;
    if (ro->doorbell >= 0)
        ring_close_fd(ro, &ro->own_doorbell, ro->doorbell);
    else
        ring_object_end(ro);
}

void ring_object_unref(struct ring_object *ro) {
    if (--ro->refs)
        return;
    ro->doorbell = ro->shared ? ring_take_doorbell(ro->ring) : -1;
    session_post(ro->session, &ro->unmap, ring_unmap_run, ring_unmap_done);
}

/* ---- create ------------------------------------------------------------------------------ */

static void ring_creation_run(struct offload_job *job) {
    struct ring_creation *c = container_of(job, struct ring_creation, job);
    if (!session_is_open(c->ro->session))
        session_fail_ending(&c->result);
    else
        ring_create(c->sq_entries, c->cq_entries, &c->ro->ring, c->fds, &c->result);
}

static void ring_close_fds(const int fds[RING_FDS]) {
    for (int i = 0; i < RING_FDS; i++)
        close(fds[i]);
}

/* Memory may be large; the doorbell is open here as well, so that close is not its last. */
void ring_object_sent(struct ring_object *ro, const int fds[RING_FDS], bool sent) {
    ro->shared = sent;
    if (!sent) {
        ring_close_fds(fds);
        return;
    }
    session_close_fd(ro->session, fds[RING_FD_CLIENT]);
    session_close_fd(ro->session, fds[RING_FD_DAEMON]);
    close(fds[RING_FD_DOORBELL]);
    ring_close_fd(ro, &ro->sent_end, fds[RING_FD_WAKEUP]);
}

static void ring_creation_done(struct offload_job *job) {
    struct ring_creation *c = container_of(job, struct ring_creation, job);
    struct ring_object *ro = c->ro;
    struct error result = c->result;
    if (!result.code && !session_is_open(ro->session))
        session_fail_ending(&result);
    if (!result.code && !(ro->handle = slots_add(&ro->session->rings, ro)))
        error_set(&result, RDMAD_E_NOMEM, "out of memory for one more ring");
    if (result.code && ro->ring)
        ring_close_fds(c->fds);
    c->done(c->arg, result.code ? NULL : ro, result.code ? NULL : c->fds, &result);
    if (result.code)
        ring_object_unref(ro);
    free(c);
}

/* A charged ring without memory. */
static struct ring_object *ring_object_new(struct session *s, uint64_t bytes, struct error *err) {
    struct ring_object *ro = calloc(1, sizeof(*ro));
    if (!ro) {
        error_set(err, RDMAD_E_NOMEM, "out of memory for a ring");
        return NULL;
    }
    ro->session = s;
    ro->refs = 1;
    if (session_charge(s, &ro->charges, QUOTA_RINGS, 2 /* mappings */, bytes, err)) {
        free(ro);
        return NULL;
    }
    session_hold(s);
    return ro;
}

void ring_object_create(struct session *s, uint32_t sq_entries, uint32_t cq_entries,
                        ring_created *done, void *arg) {
    struct error err;
    struct ring_creation *c = calloc(1, sizeof(*c));
    struct ring_object *ro = NULL;
    if (c)
        ro = ring_object_new(s, ring_bytes(sq_entries, cq_entries), &err);
    else
        error_set(&err, RDMAD_E_NOMEM, "out of memory for a ring");
    if (!ro) {
        free(c);
        done(arg, NULL, NULL, &err);
        return;
    }
    c->ro = ro;
    c->sq_entries = sq_entries;
    c->cq_entries = cq_entries;
    c->done = done;
    c->arg = arg;
    session_post(ro->session, &c->job, ring_creation_run, ring_creation_done);
}

/* ---- ready ------------------------------------------------------------------------------- */

static void ring_settle_run(struct offload_job *job) {
    struct ring_settling *c = container_of(job, struct ring_settling, job);
    ring_settle(c->ro->ring, session_is_open, c->ro->session, &c->result);
}

static void ring_worker_told(void *arg, const struct error *result) {
    struct ring_settling *c = arg;
    struct ring_object *ro = c->ro;
    struct error why = *result;
    if (!why.code && !session_is_open(ro->session))
        session_fail_ending(&why);
    else if (!why.code && slots_get(&ro->session->rings, ro->handle) != ro)
        error_set(&why, RDMAD_E_CANCELED, "the ring was destroyed before it was ready");
    ro->in_plane = ro->in_plane && !result->code;
    ro->stage = why.code ? RING_MADE : RING_READY;
    c->done(c->arg, &why);
    free(c);
    ring_object_unref(ro);
}

static void ring_settle_done(struct offload_job *job) {
    struct ring_settling *c = container_of(job, struct ring_settling, job);
    struct ring_object *ro = c->ro;
    struct session *s = ro->session;
    if (c->result.code || !s->plane || slots_get(&s->rings, ro->handle) != ro) {
        ring_worker_told(c, &c->result);
        return;
    }
    ro->in_plane = true;
    plane_ring_add(s->plane, ro->handle, ro->ring, ring_worker_told, c);
}

static struct ring_object *ring_of(struct session *s, uint64_t handle, struct error *err) {
    struct ring_object *ro = slots_get(&s->rings, handle);
    if (!ro)
        error_set(err, RDMAD_E_HANDLE, "the session has no ring 0x%" PRIx64, handle);
    return ro;
}

int ring_object_make_ready(struct session *s, uint64_t handle, plane_done *done, void *arg,
                           struct error *err) {
    struct ring_object *ro = ring_of(s, handle, err);
    if (!ro)
        return RDMAD_E_HANDLE;
    if (ro->stage != RING_MADE)
        return error_set(err, RDMAD_E_INVAL, "ring 0x%" PRIx64 " %s", handle,
                         ro->stage == RING_READY ? "is ready already" : "is being made ready");
    struct ring_settling *c = calloc(1, sizeof(*c));
    if (!c)
        return error_set(err, RDMAD_E_NOMEM, "out of memory");
    c->ro = ro;
    c->done = done;
    c->arg = arg;
    ro->stage = RING_SETTLING;
    ro->refs++;
    session_post(ro->session, &c->job, ring_settle_run, ring_settle_done);
    return 0;
}

/* ---- destroy ----------------------------------------------------------------------------- */

struct ring_destruction {
    struct ring_object *ro;
    plane_done *done;
    void *arg;
};

static void ring_dropped(void *arg, const struct error *result) {
    struct ring_destruction d = *(struct ring_destruction *)arg;
    free(arg);
    d.done(d.arg, result);
    ring_object_unref(d.ro);
}

int ring_object_destroy(struct session *s, uint64_t handle, plane_done *done, void *arg,
                        struct error *err) {
    struct ring_object *ro = ring_of(s, handle, err);
    if (!ro)
        return RDMAD_E_HANDLE;
    struct ring_destruction *d = malloc(sizeof(*d));
    if (!d)
        return error_set(err, RDMAD_E_NOMEM, "out of memory");
    *d = (struct ring_destruction){ro, done, arg};
    slots_remove(&s->rings, handle);
    if (ro->in_plane)
        plane_ring_drop(s->plane, handle, ring_dropped, d);
    else
        ring_dropped(d, &(struct error){.code = 0});
    return 0;
}

uint64_t ring_objects_unread(const struct session *s) {
    uint32_t cursor = 0;
    uint64_t handle, unread = 0;
    for (const struct ring_object *ro; (ro = slots_next(&s->rings, &cursor, &handle));)
        if (ro->stage == RING_READY)
            unread += ring_unread(ro->ring);
    return unread;
}

/* ---- a daemon that stops ----------------------------------------------------------------- */

bool ring_objects_in_batch(const struct session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    for (const struct ring_object *ro; (ro = slots_next(&s->rings, &cursor, &handle));)
        if (ro->stage == RING_READY && ro->ring->sq_more)
            return true;
    return false;
}

void ring_objects_leave(struct session *s, bool sends) {
    uint32_t cursor = 0;
    uint64_t handle;
    for (struct ring_object *ro; (ro = slots_next(&s->rings, &cursor, &handle));)
        if (ro->stage == RING_READY)
            ring_leave(ro->ring, sends);
}
