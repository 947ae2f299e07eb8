/* SPDX-License-Identifier: MIT */
/*
 * ring.h - the client's end of one ring.
 *
 * What goes over the shared memory is an index and a generation of a private slot, not the user's
 * own user_data: a completion is then matched to what was really asked for, and when the daemon is
 * lost the slots say what was in flight. A slot is taken by reserve and given back by seen; with
 * as many slots as the sq has entries, and a cq at least as long, neither ring can overflow, and a
 * sq entry is free whenever a slot is.
 *
 * The submitting side (reserve, prep, submit) and the completing side (peek, wait, seen) share only
 * the slots. rdmad_ring_await touches the completing side's fields alone, so that blocking.c may
 * let one thread sleep there while others submit.
 */
#ifndef RDMAD_LIBCLIENT_RING_H
#define RDMAD_LIBCLIENT_RING_H

#include "libclient/internal.h"

enum rdmad_slot_state {
    RDMAD_SLOT_FREE,
    RDMAD_SLOT_RESERVED,
    RDMAD_SLOT_PUBLISHED, /* the daemon may have seen it */
    RDMAD_SLOT_UNSENT,    /* submitted after the daemon was lost */
};

struct rdmad_slot {
    uint64_t user_data;
    uint64_t lease; /* handle */
    uint64_t lease_offset, length;
    uint32_t generation;
    uint8_t state;
    uint8_t opcode;
};

struct rdmad_ring {
    struct rdmad_session *session;
    struct rdmad_ring *next;
    uint64_t handle;

    struct rdmad_ring_client *client; /* ours to write */
    const struct rdmad_ring_daemon *daemon;
    struct rdmad_sqe *sqe;
    const struct rdmad_cqe *cqe;
    size_t client_bytes, daemon_bytes;
    int doorbell;
    bool watched;
    uint32_t entries, cq_entries;

    struct rdmad_slot *slot;
    uint32_t *free_slot; /* a stack of indices */
    uint32_t *slot_of;   /* of each reserved sq entry */
    uint32_t free_slots;

    /* submitting */
    uint32_t sq_reserved, sq_tail;
    struct {
        uint32_t pools_destroyed;
        const char *base;
        size_t bytes;
        uint64_t handle;
    } hint; /* the pool that the last buffer lay in */

    /* completing */
    uint32_t cq_head, cq_tail, cq_head_published;
    uint32_t in_flight; /* published or unsent, their completions not yet taken */
    bool holding;       /* current is out, not seen yet */
    bool armed;         /* cq_wait is set for an event loop */
    bool rung;          /* the doorbell may have bytes that nobody waits for any more */
    bool dead;          /* the daemon is lost and its last completion was taken */
    uint32_t empty_looks;
    uint64_t next_check_ns;
    uint32_t current_slot;
    struct rdmad_cqe current;

    /* wait.c: how long to spin */
    uint64_t spin_max_ns, spin_ns;
    uint32_t waits;
};

/* What RING_CREATE brings, as pointers. */
struct rdmad_ring_parts {
    uint64_t handle;
    struct rdmad_ring_client *client;
    const struct rdmad_ring_daemon *daemon;
    uint32_t sq_entries, cq_entries;
    int doorbell;
};

/* A ring over parts, not yet in the session's list; NULL: out of memory. */
struct rdmad_ring *rdmad_ring_new(struct rdmad_session *s, const struct rdmad_ring_parts *parts);
/* Frees ring's own memory only. */
void rdmad_ring_free(struct rdmad_ring *ring);
/* A ring of the daemon's making. watched: its doorbell wakes the session's descriptor. */
int rdmad_ring_open(struct rdmad_session *s, uint32_t entries, bool watched,
                    struct rdmad_ring **out);
/* Unmaps, closes, frees, and takes it off the session's list; tells nobody. */
void rdmad_ring_dispose(struct rdmad_ring *ring);

/* Empties the doorbell. False: the daemon has closed its end. */
bool rdmad_ring_drain(struct rdmad_ring *ring);
/* That is then the session's end. */
void rdmad_ring_closed(struct rdmad_ring *ring);

/* wait.c: until the daemon has published a completion not seen by peek (true), or the deadline
 * passed or the daemon is lost (false). */
bool rdmad_ring_await(struct rdmad_ring *ring, uint64_t deadline_ns);

#endif
