/* SPDX-License-Identifier: MIT */
/*
 * create.h - a ring's way into the world and out of it.
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

/* A ring over parts, not yet in the session's list; NULL: out of memory. */
struct rdmad_ring *rdmad_ring_new(struct rdmad_session *s, const struct rdmad_ring_parts *parts);
/* Frees ring's own memory only, and ends what its ops hold. In one of its callbacks the struct
 * itself stays until its dispatch returns. */
void rdmad_ring_free(struct rdmad_ring *ring);
/* The struct alone, of which all else is gone. */
void rdmad_ring_free_struct(struct rdmad_ring *ring);
/* A ring of the daemon's making. watched: its wakeups also wake the session's descriptor. */
int rdmad_ring_open(struct rdmad_session *s, uint32_t entries, bool watched,
                    struct rdmad_ring **out);
/* Unmaps, closes, frees, and takes it off the session's list; tells nobody. It has ended as an
 * object. */
void rdmad_ring_dispose(struct rdmad_ring *ring);
/* With the lock: puts the wakeups of all rings into the session's descriptor. */
void rdmad_rings_watch(struct rdmad_session *s);

#endif
