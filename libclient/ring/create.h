/* SPDX-License-Identifier: MIT */
/*
 * create.h - a ring is made and freed.
 */
#ifndef RDMAD_LIBCLIENT_CREATE_H
#define RDMAD_LIBCLIENT_CREATE_H

#include "libclient/ring/ring.h"

/* What RING_CREATE brings, as pointers. */
struct rdmad_ring_parts {
    uint64_t handle;
    struct rdmad_ring_client *client;
    const struct rdmad_ring_daemon *daemon;
    uint32_t sq_entries, cq_entries;
    int wakeup, doorbell;
};

struct rdmad_call;

/* A ring over parts, not yet in the session's list; NULL: out of memory. */
struct rdmad_ring *rdmad_ring_new(struct rdmad_session *s, const struct rdmad_ring_parts *parts);
/* Frees only the ring's own memory, and ends what its ops hold. If called from one of its
 * callbacks, the struct itself stays until dispatch returns. */
void rdmad_ring_free(struct rdmad_ring *ring);
/* Frees the struct of a ring of which all else is gone. */
void rdmad_ring_free_struct(struct rdmad_ring *ring);
/* Has the daemon make a ring. watched: its wakeups also wake the session's descriptor. */
int rdmad_ring_open(struct rdmad_session *s, uint32_t entries, bool watched,
                    struct rdmad_ring **out);
/* The memory is populated and sealed: the daemon, which knows the ring by that handle, may read it
 * from now on. accept, with the lock, notes which daemon that is. */
int rdmad_ring_tell_ready(struct rdmad_ring *r, uint64_t handle,
                          void (*accept)(struct rdmad_session *s, const struct rdmad_call *call));
/* With the lock: that the ring is its daemon's. What comes later may be another's doing. */
void rdmad_ring_is_made(struct rdmad_session *s, const struct rdmad_call *call);
/* Unmaps, closes and frees the ring, and takes it off the session's list; tells nobody. It must
 * have ended as an object. */
void rdmad_ring_dispose(struct rdmad_ring *ring);
/* With the lock: whether the session's descriptor is readable for the ring's sake while the session
 * is open, so that the program looks at its rings. */
void rdmad_ring_wakes_session(struct rdmad_ring *ring, bool wakes);
/* With the lock: puts the wakeups of all rings into the session's descriptor. */
void rdmad_rings_watch(struct rdmad_session *s);

#endif
