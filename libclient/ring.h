/* SPDX-License-Identifier: MIT */
/*
 * ring.h - the client's end of one ring.
 *
 * What goes over the shared memory is an index and a generation of a private slot, not the user's
 * own user_data: a completion is then matched to what was really asked for, and when the daemon is
 * lost the slots say what was in flight. A slot is taken by reserve and given back by seen; with
 * as many slots as the sq has entries, and a cq at least as long, neither ring can overflow, and a
 * sq entry is free whenever a slot is. One slot more is the blocking cancel's own, which waits for
 * an entry.
 *
 * Read in this order: ring.c (reserve, submit), prep.c and segments.c (what an entry says), reap.c
 * (completions come off the queue and are sorted), wait.c, dispatch.c, cancel.c, explain.c.
 *
 * Sorting. A completion is for peek, for a callback, or for nobody (a silent op that is done, the
 * blocking cancel's own). Who looks for one kind and finds another on the queue lays that aside, in
 * its slot, in a list of its kind.
 *
 * Silent ops. No order holds between ops, so nothing but its own completion could tell when a
 * silent op's slot and buffer are free again. Therefore the daemon is asked for one as for any op,
 * and it is dropped here when the op is done.
 *
 * Batches. Each member has a slot; the daemon completes the last, and all of them are free then.
 *
 * The submitting side (reserve, prep, submit) and the completing side (peek, wait, seen) share only
 * the slots. rdmad_ring_await touches the completing side's fields alone, so that blocking.c may
 * let one thread sleep there while others submit.
 */
#ifndef RDMAD_LIBCLIENT_RING_H
#define RDMAD_LIBCLIENT_RING_H

#include "common/crowd.h"
#include "libclient/internal.h"
#include "libclient/memory/hold.h"

#define RDMAD_NO_SLOT UINT32_MAX

enum rdmad_slot_state {
    RDMAD_SLOT_FREE,
    RDMAD_SLOT_RESERVED,
    RDMAD_SLOT_PUBLISHED, /* the daemon may have seen it */
    RDMAD_SLOT_UNSENT,    /* submitted after the daemon was lost */
    RDMAD_SLOT_OVER,      /* its completion is in the slot and in one of the lists */
    RDMAD_SLOT_TAKEN,     /* its completion is the user's */
};

struct rdmad_slot {
    uint64_t user_data;
    uint64_t object; /* what the op names: a handle, an owner's number, a channel */
    uint64_t lease_offset, length;
    uint64_t order; /* of submission */
    uint32_t generation;
    uint8_t state, opcode;
    bool silent;      /* not told of when it is done */
    bool member;      /* of a batch, and not its last */
    uint32_t members; /* of the batch that this is the last of; 1: none */
    uint32_t before;  /* the batch's member before this; or RDMAD_NO_SLOT */
    uint32_t next;    /* in the list of those that are over */
    rdmad_callback *callback;
    void *arg;
    struct rdmad_cqe cqe;
};

/* Of slots that are over, in the order in which they completed. */
struct rdmad_slot_list {
    uint32_t first, last, count;
};

struct rdmad_ring {
    struct rdmad_object object;
    struct rdmad_session *session;
    struct rdmad_ring *next;
    uint64_t handle;

    struct rdmad_ring_client *client; /* ours to write */
    const struct rdmad_ring_daemon *daemon;
    struct rdmad_sqe *sqe;
    const struct rdmad_cqe *cqe;
    size_t client_bytes, daemon_bytes;
    int doorbell; /* the daemon rings, */
    int knock;    /* we knock */
    bool watched;
    uint32_t entries, cq_entries;

    struct rdmad_slot *slot; /* entries, and the blocking cancel's */
    struct rdmad_holds holds;
    uint32_t *free_slot; /* a stack of indices */
    uint32_t *slot_of;   /* of each reserved sq entry */
    uint32_t free_slots;

    uint32_t sq_mark; /* rdmad_rings_taken's; under the session's lock */

    /* submitting */
    uint32_t sq_reserved, sq_tail;
    uint32_t batch, batch_members; /* the last member of a batch that is not complete yet */
    uint64_t submitted;
    struct {
        uint32_t pools_destroyed;
        struct rdmad_pool *pool;
        const char *base;
        size_t bytes;
        uint64_t handle;
    } hint; /* the pool that the last buffer lay in */

    /* completing */
    uint32_t cq_head, cq_tail, cq_head_published;
    uint32_t expected; /* completions that the daemon owes us */
    uint32_t visible;  /* ops in flight or over whose completion peek brings, and silent ones */
    uint32_t calls;    /* ops in flight or over with a callback */
    uint32_t silents;  /* ops in flight that are silent */
    struct rdmad_slot_list over, called; /* completed: for peek, for dispatch */
    bool holding;                        /* current is out, not seen yet */
    bool armed;                          /* cq_wait is set for an event loop */
    bool rung;   /* the doorbell may have bytes that nobody waits for any more */
    bool dead;   /* the daemon is lost and what it had published was taken */
    bool unsent; /* some slot is */
    uint32_t empty_looks;
    uint64_t next_check_ns;
    uint32_t current_slot;
    struct rdmad_cqe current;
    /* What explain may ask about besides current: the completion that a callback runs with. */
    const struct rdmad_cqe *told_cqe;
    const struct rdmad_slot *told;
    unsigned calling; /* dispatches that are under way, one in the callback of another */
    bool gone;        /* destroyed in a callback: the last of those frees it */

    /* wait.c: how long to spin */
    uint64_t spin_max_ns, spin_ns;
    struct rdmad_crowd crowd;
    uint32_t waits;
};

/* What RING_CREATE brings, as pointers. */
struct rdmad_ring_parts {
    uint64_t handle;
    struct rdmad_ring_client *client;
    const struct rdmad_ring_daemon *daemon;
    uint32_t sq_entries, cq_entries;
    int doorbell, knock;
};

/* A ring over parts, not yet in the session's list; NULL: out of memory. */
struct rdmad_ring *rdmad_ring_new(struct rdmad_session *s, const struct rdmad_ring_parts *parts);
/* Frees ring's own memory only, and ends what its ops hold. In one of its callbacks the struct
 * itself stays until its dispatch returns. */
void rdmad_ring_free(struct rdmad_ring *ring);
/* The struct alone, of which all else is gone. */
void rdmad_ring_keep(struct rdmad_ring *ring);
/* A ring of the daemon's making. watched: its doorbell wakes the session's descriptor. */
int rdmad_ring_open(struct rdmad_session *s, uint32_t entries, bool watched,
                    struct rdmad_ring **out);
/* Unmaps, closes, frees, and takes it off the session's list; tells nobody. It has ended as an
 * object. */
void rdmad_ring_dispose(struct rdmad_ring *ring);

/* ---- ring.c -------------------------------------------------------------------------------- */

/* The slot of a reserved entry. */
static inline uint32_t rdmad_slot_of(const struct rdmad_ring *ring, const struct rdmad_sqe *sqe) {
    return ring->slot_of[sqe - ring->sqe];
}
/* Whether it is an entry that ring has reserved and not submitted. */
static inline bool rdmad_is_reserved(const struct rdmad_ring *ring, const struct rdmad_sqe *sqe) {
    uintptr_t at = (uintptr_t)sqe - (uintptr_t)ring->sqe;
    uint32_t index = (uint32_t)(at / sizeof(*sqe));

    return at % sizeof(*sqe) == 0 && at / sizeof(*sqe) < ring->entries &&
           ((index - ring->sq_tail) & (ring->entries - 1)) < ring->sq_reserved - ring->sq_tail;
}
/* Says that it is none and returns RDMAD_E_INVAL. */
int rdmad_fail_entry(const struct rdmad_ring *ring, const struct rdmad_sqe *sqe);
/* Takes back the count entries reserved last. */
void rdmad_ring_take_back(struct rdmad_ring *ring, uint32_t count);
/* Submits a cancel of the op in that slot, in the slot of its own, when the sq has room. False: the
 * daemon is lost. */
bool rdmad_ring_publish_cancel(struct rdmad_ring *ring, uint32_t target);
/* The op in flight, or over and not told yet, with that user_data that was submitted first. */
uint32_t rdmad_ring_find(const struct rdmad_ring *ring, uint64_t user_data);
void rdmad_slot_free(struct rdmad_ring *ring, uint32_t slot);
void rdmad_ring_publish_head(struct rdmad_ring *ring);

/* ---- reap.c -------------------------------------------------------------------------------- */

/* Lays aside all completions that there are. */
void rdmad_ring_gather(struct rdmad_ring *ring);
/* Takes it out of the list it is in. */
void rdmad_ring_pick(struct rdmad_ring *ring, uint32_t slot);

/* Empties the doorbell. False: the daemon has closed its end. */
bool rdmad_ring_drain(struct rdmad_ring *ring);
/* That is then the session's end. */
void rdmad_ring_closed(struct rdmad_ring *ring);
/* The daemon does what no daemon may: the session ends. */
void rdmad_ring_lose(struct rdmad_ring *ring, const char *why);

/* ---- wait.c -------------------------------------------------------------------------------- */

/* Until the daemon has published a completion not seen by peek (true), or the deadline passed or
 * the daemon is lost (false). */
bool rdmad_ring_await(struct rdmad_ring *ring, uint64_t deadline_ns);
/* Nothing is in flight that could complete: says so and returns the code. */
int rdmad_ring_idle(struct rdmad_ring *ring);

/* ---- segments.c ---------------------------------------------------------------------------- */

/* As rdmad_ring_writev and readv; silent about having no room. */
int rdmad_ring_batch(struct rdmad_ring *ring, enum rdmad_opcode opcode, struct rdmad_lease *lease,
                     const struct rdmad_segment *segments, unsigned count, uint64_t user_data);

#endif
