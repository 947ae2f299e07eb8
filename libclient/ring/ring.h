/* SPDX-License-Identifier: MIT */
/*
 * ring.h - the client's end of one ring.
 *
 * The shared memory carries the index and generation of a private slot, not the program's
 * user_data: so a completion is matched to what was really asked for, and when the daemon is lost
 * the slots say what was in flight. A slot is taken by reserve and given back by seen; with as many
 * slots as the sq has entries, and a cq at least as long, neither ring can overflow, and a sq entry
 * is free whenever a slot is. There is one slot more, for the blocking cancel, which waits for a
 * free entry.
 *
 * A daemon that ends takes its end of the ring with it. If the session is resumed the completing
 * side makes the ring anew at the next daemon (revive.c), in the same place of memory: entries that
 * are reserved, or postponed, stay where they are.
 *
 * Read in this order: slots.h, create.c, keep.h, revive.c, reap.c (completions come off the queue
 * and are sorted), submit.c (reserve, submit), wait.c, dispatch.c, cancel.c. What an entry says is
 * transfer/prep.c.
 *
 * Sorting. A completion is for peek, for a callback, or for nobody (a silent op that is done, the
 * blocking cancel's own). A call that wants one kind and finds another on the queue puts that into
 * its slot, and the slot into a list of its kind.
 *
 * Silent ops. Ops complete in any order, so only its own completion can tell when a silent op's
 * slot and buffer are free again. Therefore the daemon is asked for a completion as for any op, and
 * it is dropped here if the op was done.
 *
 * Batches. Each member has a slot; the daemon completes the last, and all of them are free then.
 *
 * The submitting side (reserve, prep, submit) and the completing side (peek, wait, seen) share only
 * the slots. rdmad_ring_await touches only the completing side's fields, so that
 * transfer/blocking.c may let one thread sleep there while others submit.
 */
#ifndef RDMAD_LIBCLIENT_RING_H
#define RDMAD_LIBCLIENT_RING_H

#include "common/crowd.h"
#include "libclient/base/object.h"
#include "libclient/memory/hold.h"
#include <rdmad/ring.h>
#include <stdbool.h>

#define RDMAD_NO_SLOT UINT32_MAX

/*
 *     FREE -- reserve --> RESERVED -- submit --> PUBLISHED -- completion --> OVER -- peek --> TAKEN
 *      ^                   |    |                                             ^ |               |
 *      |    unreserve      |    +-- submit, daemon lost --> UNSENT -- reap ---+ | dispatch,     |
 *      |                   |                                                    | cancel        |
 *      +-------------------+----------------------------------------------------+---------------+
 *                                                                                   seen
 *
 *     RESERVED -- submit, session away --> POSTPONED -- ring revived --> PUBLISHED
 *                                           ^ +----- session lost --> OVER
 *                   PUBLISHED, not taken ---+
 *
 *     PUBLISHED -- a receive, its daemon gone --> KEPT -- ring revived --> PUBLISHED
 *                                                  +----- session lost --> OVER
 *
 * A completion that the program gets at once goes from PUBLISHED to TAKEN; a silent op that is
 * done, and a batch's members but the last, from PUBLISHED to FREE.
 */
enum rdmad_slot_state {
    RDMAD_SLOT_FREE,
    RDMAD_SLOT_RESERVED,
    RDMAD_SLOT_PUBLISHED, /* the daemon may have seen it */
    RDMAD_SLOT_UNSENT,    /* submitted after the daemon was lost */
    RDMAD_SLOT_POSTPONED, /* submitted while the session was away: for the next daemon */
    RDMAD_SLOT_KEPT,      /* begun by a daemon that is gone, and begun anew by the next (keep.h) */
    RDMAD_SLOT_OVER,      /* its completion is in the slot and in one of the lists */
    RDMAD_SLOT_TAKEN,     /* its completion is the user's */
};

/* Two cache lines of its own. */
struct __attribute__((aligned(64))) rdmad_slot {
    uint64_t user_data;
    uint64_t object; /* what the op names: a handle, an owner's number, a channel */
    uint64_t lease_offset, length;
    uint64_t order; /* of submission */
    uint32_t generation;
    uint8_t state, opcode;
    bool silent;                  /* not told of when it is done */
    bool member;                  /* of a batch, and not its last */
    bool begun;                   /* a RECV that a daemon had begun that is gone */
    bool canceled;                /* a CANCEL of it was done, so it has just its end to come */
    bool linked : 1, follows : 1; /* has RDMAD_SQE_LINK; what came before it had (chain.h) */
    bool cut : 1;                 /* so the next daemon must refuse it */
    uint32_t members;             /* of the batch that this is the last of; 1: none */
    uint32_t before;              /* the batch's member before this; or RDMAD_NO_SLOT */
    uint32_t next;                /* in the list of those that are over */
    rdmad_callback *callback;
    void *arg;
    struct rdmad_cqe cqe;
};

/* Of slots that are over, in the order in which they completed. */
struct rdmad_slot_list {
    uint32_t first, last, count;
};

/*
 * The socket of the wakeups, for event loops.
 *
 *     EMPTY -- rdmad_ring_arm --> ARMED -- a completion was seen, a wait slept --> STALE
 *       ^                           ^                                              |  |
 *       +---- drained --------------+--------------- rdmad_ring_arm ---------------+--+
 */
enum rdmad_wakeup_state {
    RDMAD_WAKEUP_EMPTY,
    RDMAD_WAKEUP_ARMED, /* cq_wait is set: a byte comes with the next completion */
    RDMAD_WAKEUP_STALE, /* it may have a byte that nobody waits for any more */
};

/*
 *     LIVE -- the daemon is lost, what it had published was taken, all ops ended --> LOST
 *      |                                         LOST <-- ended -- LOST_UNSENT <-- submit -- LOST
 *      |                                         LOST -- revived, at the next daemon --> LIVE
 *      +-- destroyed in a callback (from any state) --> GONE: the outermost dispatch frees it
 */
enum rdmad_ring_state {
    RDMAD_RING_LIVE,
    RDMAD_RING_LOST,
    RDMAD_RING_LOST_UNSENT,
    RDMAD_RING_GONE,
};

/* The descriptors that RING_CREATE brings. */
enum {
    RDMAD_RING_FD_CLIENT,
    RDMAD_RING_FD_DAEMON,
    RDMAD_RING_FD_WAKEUP,
    RDMAD_RING_FD_DOORBELL,
    RDMAD_RING_FDS
};

struct rdmad_making;

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
    int wakeup;   /* a socket, by which the daemon wakes us */
    int doorbell; /* an eventfd, by which we wake the daemon */
    int epoll;    /* rdmad_ring_fd's, of the wakeups of one daemon after the other; -1: none */
    bool watched;
    bool out_of_loops; /* under the session's lock: its daemon has gone, and loops were told so */
    uint32_t entries, cq_entries;

    struct rdmad_slot *slot; /* entries, and the blocking cancel's */
    struct rdmad_holds holds;
    uint32_t *free_slot;       /* a stack of indices */
    uint32_t *slot_of;         /* of each sq entry that is reserved or was submitted */
    struct rdmad_sqe *message; /* of each slot with an op of a kept kind its entry; NULL: the
                               session cannot be resumed */
    uint32_t free_slots;

    uint32_t sq_mark; /* rdmad_rings_taken's; under the session's lock */
    uint64_t wake_ns; /* the same: when its loops are woken to have it made anew; 0: never */
    bool wakes_session;
    uint32_t resumes; /* atomic; of the session, when the ring was made at its daemon */

    /* submitting */
    uint32_t sq_reserved, sq_tail;
    uint32_t batch, batch_members; /* the last member of a batch that is not complete yet */
    uint64_t submitted;
    uint32_t sq_postponed,
        postponed; /* from where on entries are postponed, and how many; 0: none */
    uint32_t kept; /* slots that are */
    struct {
        uint64_t done, broke; /* of the transfers with LINK the last that were, were not done: their
                                 order and 1; 0: none */
        bool linked;          /* the last transfer that was submitted has LINK */
        bool fresh;           /* this daemon has no transfer yet, and an earlier one had some */
    } chain;
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
    enum rdmad_wakeup_state wakeup_state;
    enum rdmad_ring_state state;
    struct {
        uint64_t since_ns, next_ns; /* first tried in vain; not tried again before; 0: it was not */
        uint32_t resumes;           /* of the session then */
    } again;                        /* LOST: made anew at the next daemon, which could not yet */
    struct rdmad_making *making;    /* which was asked for it; or NULL */
    uint32_t answered;              /* the daemon's ask, when it was last seen */
    uint32_t empty_looks;
    uint64_t next_check_ns;
    uint32_t current_slot;
    struct rdmad_cqe current;
    /* The completion that a callback runs with: rdmad_ring_explain may be asked about it, as about
     * current. */
    const struct rdmad_cqe *told_cqe;
    const struct rdmad_slot *told;
    unsigned calling; /* dispatches that are under way, one in the callback of another */

    /* wait.c: how long to spin */
    uint64_t spin_max_ns, spin_ns;
    struct rdmad_crowd crowd;
    uint32_t waits;
};

/* Whether it was the ring of a daemon that is gone, while the session has found another. */
static inline bool rdmad_ring_is_stale(const struct rdmad_ring *r) {
    return __atomic_load_n(&r->resumes, __ATOMIC_RELAXED) != rdmad_resumes(r->session);
}

#endif
