/* SPDX-License-Identifier: MIT */
/*
 * ring_object.h - a ring as its session owns it: handle, charges, and the way to the worker and
 * back. What a ring is and does is ipc/ring.h's. It is made in two steps, as pools are (pool.h).
 */
#ifndef RDMAD_STATE_RING_OBJECT_H
#define RDMAD_STATE_RING_OBJECT_H

#include "daemon/base/offload.h"
#include "daemon/ipc/ring.h"
#include "daemon/state/closing.h"
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
    bool shared; /* the client has its descriptors */
    bool unmapped;
    int doorbell;      /* to be closed after that */
    unsigned closings; /* of the two: */
    struct closing sent_end, own_doorbell;
};

/* Asynchronous: done gets the ring, and the descriptors of RDMAD_MSG_RING_CREATE's reply, or an
 * error. The descriptors are the caller's to send and then to give to ring_object_sent, with
 * whether the client has them (session_send). */
typedef void ring_created(void *arg, struct ring_object *ro, const int fds[RING_FDS],
                          const struct error *result);
void ring_object_create(struct session *s, uint32_t sq_entries, uint32_t cq_entries,
                        ring_created *done, void *arg);

void ring_object_sent(struct ring_object *ro, const int fds[RING_FDS], bool sent);

/* The client has populated and sealed the ring. Asynchronous, unless it fails at once. done: a
 * worker serves it, or what it lacks; then the call can be made again. */
int ring_object_make_ready(struct session *s, uint64_t handle, plane_done *done, void *arg,
                           struct error *err);

/* Takes the ring out of the session. done: its worker has let go of it. */
int ring_object_destroy(struct session *s, uint64_t handle, plane_done *done, void *arg,
                        struct error *err);

/* How many sqes are in the session's rings that no worker has taken (ring_unread). */
uint64_t ring_objects_unread(const struct session *s);
/* Whether a worker has taken the beginning of a batch from one of the session's rings, and not yet
 * its end. The session is paused, and its worker has said so. */
bool ring_objects_in_batch(const struct session *s);
/* Tells the client what was taken of its rings and what was not: for a session that is paused, as
 * its worker has said, and not resumed any more. sends: what was taken and is not completed has not
 * been sent. */
void ring_objects_leave(struct session *s, bool sends);

/* Drops the table's reference. With the last one the ring is unmapped on a registration thread and
 * its doorbell is closed. When all of it is closed its charges and its hold on the session are
 * given back. No worker may use the ring any more. */
void ring_object_unref(struct ring_object *ro);

#endif
