/* SPDX-License-Identifier: MIT */
/*
 * ring.h - the daemon's end of one ring.
 *
 * ring_create runs on the control thread; after plane_ring_add the ring is the worker's alone. All
 * indices live in this private struct; the shared words are only published to and peeked at, and a
 * client's word that makes no sense (more published than fits, more taken than given) breaks the
 * ring: the caller ends the session. Nothing here waits, and no call fails because a client does
 * not read its wakeups.
 *
 * The daemon wakes the client by a socket, on which it only sends: it was shut for reading before
 * the client had the other end, so nothing from the client, least of all a descriptor, can ever be
 * queued in it for us to drop. The client wakes the daemon by the doorbell, an eventfd, which is
 * only watched: its file description is shared with the client, who may make it blocking, fill it
 * or empty it, so it is never read and never written.
 */
#ifndef RDMAD_IPC_RING_H
#define RDMAD_IPC_RING_H

#include "daemon/base/error.h"
#include "daemon/base/list.h"
#include "daemon/base/send_cost.h"
#include "daemon/base/shared_memory.h"
#include <rdmad/ring.h>
#include <stdbool.h>

/* The descriptors of RDMAD_MSG_RING_CREATE's reply. */
enum ring_fd { RING_FD_CLIENT, RING_FD_DAEMON, RING_FD_WAKEUP, RING_FD_DOORBELL, RING_FDS };

struct ring {
    const struct rdmad_ring_client *client; /* client-written: hostile */
    struct rdmad_ring_daemon *daemon;
    const struct rdmad_sqe *sqe;
    struct rdmad_cqe *cqe;
    size_t client_bytes, daemon_bytes;
    struct shared_memory client_memory, daemon_memory;
    uint32_t sq_entries, cq_entries;
    uint32_t sq_head;     /* sqes taken */
    uint32_t cq_tail;     /* cqes written, published or not */
    uint32_t cq_reserved; /* ops admitted whose cqe is not written yet */
    uint32_t sq_head_published, cq_tail_published;
    bool sq_more;          /* the sqe taken last has MORE: its batch goes on with the next */
    bool crowded;          /* as the client was told */
    bool wakeup_owed;      /* the kernel had no memory for it, or its socket rests */
    uint32_t cq_head_seen; /* read again only when it matters: its line is the client's */
    int wakeup;            /* our end of the socketpair: sends, and never receives */
    struct send_cost wakeup_cost;
    int doorbell; /* eventfd, watched edge-triggered: each write of the client is an event */
    void *owner;  /* the worker's */
    struct {
        uint32_t sq_tail, cq_head, alive; /* the client's words, when it was last looked at */
        uint32_t ask;                     /* the last question's number */
        bool woken;                       /* and has shown no sign of life since */
    } look;
};

/* Creates and maps both memfds, empty: the client makes their pages, and seals the one that it
 * writes; the other is sealed before the client has it. Then ring_settle says whether the ring may
 * be used. Also creates the socketpair and the eventfd. fds receives the descriptors of
 * RDMAD_MSG_RING_CREATE's reply, the caller's to send and close. Entries are rounded up to powers
 * of two within RDMAD_RING_MIN/MAX_ENTRIES (cq at least sq). */
int ring_create(uint32_t sq_entries, uint32_t cq_entries, struct ring **out, int fds[RING_FDS],
                struct error *err);
/* May take a while, as shared_memory_settle. The first sqe is that at the client's sq_tail of now.
 */
int ring_settle(struct ring *r, bool (*wanted)(const void *arg), const void *arg,
                struct error *err);
/* The eventfd that its client has as well, for the caller to close (state/closing.h). No worker has
 * the ring any more. */
int ring_take_doorbell(struct ring *r);
void ring_destroy(struct ring *r);
size_t ring_bytes(uint32_t sq_entries, uint32_t cq_entries); /* what create would charge */

/* Whether the client published anything that was not taken yet: a look, no promise. */
bool ring_published(const struct ring *r);

/* How many sqes may be taken now: published by the client, and each with a cqe slot to go with it.
 * RDMAD_E_RING when the client's indices make no sense. */
int ring_available(struct ring *r, uint32_t *count);

/* How many sqes the client has published that were not taken, as far as both sides have told: at
 * most as many as there are places, whatever the client says. For whoever counts, on any thread; it
 * never waits for the client's memory, so of a ring that could not be locked it is 0. Sqes that are
 * taken in this moment may count still. */
uint32_t ring_unread(const struct ring *r);

/* The opcode of the next sqe, within ring_available's count: a look, no promise. */
uint8_t ring_next_opcode(const struct ring *r);

/* Copies the next sqe (call only within ring_available's count) and reserves its cqe. */
void ring_take(struct ring *r, struct rdmad_sqe *copy);

/* Uses one reservation. Visible to the client after ring_flush. */
void ring_complete(struct ring *r, const struct rdmad_cqe *cqe);

/* Gives one reservation back: nothing will be told. */
void ring_release(struct ring *r);

/* Publishes sq head and cq tail; sends a wakeup if the client sleeps on completions. Returns
 * whether it sent one. When it could not it is owed, and the next flush with owed tries again. */
bool ring_flush(struct ring *r, bool owed);

/* Tells the client that no sqe is taken any more, and which would have been the next: it is free to
 * give those to another daemon; sends: and SENDs that were taken and have no completion, too. From
 * a thread that knows that nobody takes, nor will. */
void ring_leave(struct ring *r, bool sends);

/* Tells the client that nothing is at the buffers of its ops any more. Before ring_destroy, of a
 * ring that was settled, when the worker has let go of it. */
void ring_let_go(struct ring *r);

/* Tells the client how many notices nobody took, for when there is no daemon any more. */
void ring_tell_untaken(struct ring *r, uint32_t count);

/* Tells the client whether to spin. */
void ring_tell_crowded(struct ring *r, bool crowded);

/* Whether the client has shown a sign of life since it was last asked for one: has submitted, taken
 * completions, or looked for some. Asks for the next. True of a client that does not answer, too:
 * of that nothing can be told. */
bool ring_ask_alive(struct ring *r);

/* Before sleeping: sets our wait word and looks again. False: there is work, or the client broke
 * the ring; do not sleep. Sqes that wait for room in the cq are no work: when the client publishes
 * its next cq_head it rings the doorbell, as for any index. */
bool ring_arm(struct ring *r);
/* Awake: clears the wait word. */
void ring_disarm(struct ring *r);

#endif
