/* SPDX-License-Identifier: MIT */
/*
 * ring_object.h - a ring as its session owns it: handle, charges, and the way to the worker and
 * back. What a ring is and does is ipc/ring.h's.
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
    struct quota_charge bytes_charge, count_charge;
    struct offload_job unmap;
};

/* Asynchronous: done gets the ring, which a worker serves by then, and the descriptors of
 * RDMAD_MSG_RING_CREATE's reply (the caller's to close), or an error. */
typedef void ring_created(void *arg, struct ring_object *ro, const int fds[RING_FDS],
                          const struct error *result);
void ring_object_create(struct session *s, uint32_t sq_entries, uint32_t cq_entries,
                        ring_created *done, void *arg);

/* Takes the ring out of the session. done: its worker has let go of it. */
int ring_object_destroy(struct session *s, uint64_t handle, plane_done *done, void *arg,
                        struct error *err);

/* Unmaps on the registration thread, then gives charges and session back. No worker may use it. */
void ring_object_free(struct ring_object *ro);

#endif
