/* SPDX-License-Identifier: MIT */
/*
 * lease_types.h - what a lease is at its owner: its terms, its stages, its lessees.
 *
 * lease.h says how it lives.
 */
#ifndef RDMAD_STATE_LEASE_TYPES_H
#define RDMAD_STATE_LEASE_TYPES_H

#include "daemon/state/late_event.h"
#include "daemon/state/names.h"
#include "daemon/state/session.h"
#include <rdmad/abi.h>

struct pool; /* state/pool.h */
struct lease;
struct attachment;

struct lease_terms {
    uint64_t offset, length, ttl_ns;
    uint32_t rights, scope, scope_uid, max_attaches;
    uint32_t flags;      /* RDMAD_LEASE_* */
    uint32_t ends_after; /* releases; 0: none end it */
    char scope_peer[RDMAD_NAME_MAX + 1];
    char name[RDMAD_NAME_MAX + 1];
};

/* Who is kept alive, or may be, has some time to live: renewals cost. */
#define LEASE_KEEP_TTL_MIN_NS NSEC_PER_SEC
/* Leases that are made of one that was granted, however deep. */
#define LEASE_CHILDREN_MAX 256u
#define LEASE_DEPTH_MAX 16u
/* Who waits for the end of one. */
#define LEASE_WAITERS_MAX 64u

/* What a lessee's daemon says of the use of one attach: all so far. It may be a lie, so it is kept
 * apart from what was counted here; a sum is never more than INT64_MAX. */
struct lease_said {
    uint64_t bytes_read, bytes_written, ops;
};

/* What is to be made of a lease: offset into it; rights 0: all of its but DELEGATE; ttl_ns is cut
 * to what is left of it. */
struct lease_part {
    uint64_t offset, length, ttl_ns;
    uint32_t rights, max_attaches;
};

/*   LIVE --> ENDING --> ENDED --> free
 *
 * ENDING: its lessees are asked to stop, or are being cut off; no new ones. ENDED: nobody reaches
 * the memory any more; it waits only for its owner to read that. */
enum lease_stage { LEASE_LIVE, LEASE_ENDING, LEASE_ENDED };

/* What the data plane knows of it (plane_grant_add).
 *
 *   NONE   ADDING --> ADDED --> DROPPED
 *             |                    ^
 *             +----> GIVEN_UP -----+
 *
 * NONE: of what its owner never hears of. ADDED: it has answered, if only with a refusal. GIVEN_UP:
 * told to forget it while it was taking it up. */
enum lease_grant_stage { GRANT_NONE, GRANT_ADDING, GRANT_ADDED, GRANT_GIVEN_UP, GRANT_DROPPED };

struct lease {
    struct state *state;
    struct session *owner; /* held until ENDED */
    struct pool *pool;     /* referenced until ENDED */
    struct list owner_node;
    struct late_event late_end; /* ENDED: takes the lease with it */
    struct list by_id;          /* in the table */
    struct name name;           /* published only while LIVE and named */
    uint64_t id;
    uint8_t key[RDMAD_KEY_BYTES];
    struct lease_terms terms;
    uint64_t granted_ns, deadline_ns;
    enum lease_stage stage;
    int reason;    /* RDMAD_E_LEASE_* once not LIVE */
    unsigned busy; /* calls under way that must not see it freed */
    struct list attachments;
    uint32_t attached, attached_total;
    struct fabric_audit audit; /* of attachments that are gone; lease_audit adds the others */
    struct lease_said said;    /* likewise */
    struct timer expiry, grace, keep;
    struct list waiters;
    unsigned nwaiters;
    struct quota_charge charge;
    uint32_t releases;
    struct lease *parent; /* of which it was made; NULL: it was granted */
    struct list sibling, children;
    unsigned depth, descendants; /* descendants: of one that was granted */
    enum lease_grant_stage grant;
    unsigned pending; /* answers of the data plane under way */
    struct session_waiter when_taken;
    bool requested;   /* of a budget, for one lessee: it ends when that one leaves */
    bool handed_over; /* and leaves the memory to the owner */
    void (*ended)(void *arg, const struct lease *l); /* nobody reaches its memory; may be NULL */
    void *ended_arg;
};

struct attachment_ops {
    /* Ask it to stop using the lease; it answers with attachment_stopped, at once or later. */
    void (*stop)(struct attachment *a, int reason);
    /* The lease's deadline_ns has moved; the windows know already. */
    void (*renewed)(struct attachment *a);
    /* The range is out of its reach and a is forgotten here; it may free what it embeds a in. */
    void (*gone)(struct attachment *a, int reason);
};

/*   HELD --> STOPPING --> CUT --> gone
 *     |                    ^
 *     +--------------------+
 *
 * STOPPING: asked to stop, or stopping by itself. CUT: its window is being closed, if it has one.
 */
enum attachment_stage { ATTACHMENT_HELD, ATTACHMENT_STOPPING, ATTACHMENT_CUT };

struct attachment { /* embedded in a struct handle (local) or in a peer's record */
    struct lease *lease;
    struct list node;
    const struct attachment_ops *ops;
    struct plane_window *window; /* peers only: the second wall */
    struct fabric_audit audit;   /* counted by the one worker that serves this lessee */
    struct lease_said said;      /* peers only */
    enum attachment_stage stage;
    struct quota_charge charge; /* peers only: the range, on the owner's account */
    int reason;                 /* why, once not HELD */
    uint64_t peer;
    uint64_t since_ns;
};

/* The lease that was granted, of which l was made, or l. It ends after all that was made of it, so
 * it is there whenever one of them is. */
static inline const struct lease *lease_root(const struct lease *l) {
    while (l->parent)
        l = l->parent;
    return l;
}

/* The lease as which its owner takes the notifications of l's lessees; NULL: there is none. Its
 * owner never hears of a part of a lease, so what that one's lessees tell is told of the root of
 * them all; of a requested lease he hears by the hand-over, and by nothing else. */
static inline const struct lease *lease_notified(const struct lease *l) {
    const struct lease *root = lease_root(l);
    return root->requested ? NULL : root;
}

#endif
