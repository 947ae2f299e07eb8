/* SPDX-License-Identifier: MIT */
/*
 * ring_object.h - a ring as its session owns it: handle, charges, and the way to the worker and
 * back. What a ring is and does is ipc/ring.h's. It is made in two steps, as pools are (pool.h).
 */
#ifndef RDMAD_STATE_RING_OBJECT_H
#define RDMAD_STATE_RING_OBJECT_H

#include "daemon/base/offload.h"
#include "daemon/ipc/ring.h"
#include "daemon/state/session.h"

struct ring_object {
    struct session *session; /* held */
    uint64_t handle;
    struct ring *ring;
    enum ring_stage { RING_MADE, RING_SETTLING, RING_READY } stage;
    bool in_plane; /* the worker was told of it */
    unsigned refs; /* the table's, and one while it is looked at */
    struct session_charges charges;
    struct offload_job unmap;
};

/* Asynchronous: done gets the ring, and the descriptors of RDMAD_MSG_RING_CREATE's reply (the
 * caller's to close), or an error. */
typedef void ring_created(void *arg, struct ring_object *ro, const int fds[RING_FDS],
                          const struct error *result);
void ring_object_create(struct session *s, uint32_t sq_entries, uint32_t cq_entries,
                        ring_created *done, void *arg);

/* Asynchronous, unless it fails at once: the client has populated and sealed it. done: a worker
 * serves it, or it lacks something; then it can be made ready again. */
int ring_object_make_ready(struct session *s, uint64_t handle, plane_done *done, void *arg,
                           struct error *err);

/* Takes the ring out of the session. done: its worker has let go of it. */
int ring_object_destroy(struct session *s, uint64_t handle, plane_done *done, void *arg,
                        struct error *err);

/* The table's reference: with the last the ring is unmapped on a registration thread, and after
 * that gives charges and session back. No worker may use it. */
void ring_object_unref(struct ring_object *ro);

#endif
