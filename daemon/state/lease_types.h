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
    uint32_t tenant;     /* of the owner's session; set when the lease is made */
    uint32_t flags;      /* RDMAD_LEASE_* */
    uint32_t ends_after; /* releases; 0: none end it */
    char scope_peer[RDMAD_NAME_MAX + 1];
    char name[RDMAD_NAME_MAX + 1];
};

/* The shortest ttl of a lease that is kept alive, or may be: renewals cost. */
#define LEASE_KEEP_TTL_MIN_NS NSEC_PER_SEC
/* At most so many leases are made of one that was granted, however deep. */
#define LEASE_CHILDREN_MAX 256u
#define LEASE_DEPTH_MAX 16u
/* At most so many calls wait for the end of one lease. */
#define LEASE_WAITERS_MAX 64u

/* What a lessee's daemon says of the use of one attach: all so far. It may be a lie, so it is kept
 * apart from what was counted here; a sum is never more than INT64_MAX. */
struct lease_said {
    uint64_t bytes_read, bytes_written, ops;
};

/* The part of a lease that a narrower one is to be of. offset is from the lease's start; rights 0:
 * all that the lease has but DELEGATE; ttl_ns is cut to what is left of the lease's. */
struct lease_part {
    uint64_t offset, length, ttl_ns;
    uint32_t rights, max_attaches;
};

/*   LIVE --> ENDING --> ENDED --> free
 *
 * ENDING: its lessees are asked to stop, or are being cut off; no new ones. ENDED: nobody reaches
 * the memory any more; it waits only for its owner to read that. */
enum lease_stage { LEASE_LIVE, LEASE_ENDING, LEASE_ENDED };

/* What the data plane knows of it (plane_grant_add). NONE ADDING --> ADDED --> DROPPED | ^ +---->
 * GIVEN_UP -----+ NONE: its owner never hears of the lease. ADDED: the data plane has answered, if
 * only with a refusal. GIVEN_UP: the data plane was told to forget the lease before it had
 * answered. */
enum lease_grant_stage {
    LEASE_GRANT_NONE,
    LEASE_GRANT_ADDING,
    LEASE_GRANT_ADDED,
    LEASE_GRANT_GIVEN_UP,
    LEASE_GRANT_DROPPED
};

struct lease {
    struct state *state;
    struct session *owner; /* held until ENDED */
    struct pool *pool;     /* referenced until ENDED */
    struct list owner_node;
    struct late_event late_end; /* ENDED: takes the lease with it. LIVE: of part_told.c */
    struct list by_id;          /* in the table */
    struct name name;           /* published only while LIVE and named */
    uint64_t id;
    uint8_t key[RDMAD_KEY_BYTES];
    struct lease_terms terms;
    uint64_t granted_ns, deadline_ns;
    enum lease_stage stage;
    int reason;              /* RDMAD_E_LEASE_* once not LIVE */
    unsigned busy;           /* calls under way that must not see it freed */
    struct list attachments; /* renewal.c keeps their order */
    struct list behind;      /* in the renewals, while some have not heard of deadline_ns */
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
    bool part_told;              /* it has a parent, and its owner's client knows of it */
    enum lease_grant_stage grant;
    unsigned pending; /* answers of the data plane under way */
    struct session_waiter when_taken;
    bool requested;   /* of a budget, for one lessee: the lease ends when that one leaves */
    bool handed_over; /* and leaves the memory to the owner */
    void (*ended)(void *arg, const struct lease *l); /* nobody reaches its memory; may be NULL */
    void *ended_arg;
};

/* Who is attached, for show. */
struct lease_holder {
    uint64_t session; /* of this daemon; 0: it is a peer's */
    uint64_t peer;    /* its number; 0: none */
    uid_t uid;        /* there; a peer's word */
    bool uid_known;
    const char *name; /* the session's, or the peer's node */
    uint64_t since_ns;
};

struct attachment_ops {
    /* Ask it to stop using the lease; it answers with attachment_stopped, at once or later. */
    void (*stop)(struct attachment *a, int reason);
    /* The lease's deadline_ns has moved; the windows know already. */
    void (*renewed)(struct attachment *a);
    /* The range is out of the lessee's reach and a is forgotten here: the callee may free it. */
    void (*gone)(struct attachment *a, int reason);
    /* Fills in all but since_ns; NULL: nobody knows. */
    void (*who)(const struct attachment *a, struct lease_holder *out);
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
    uint64_t told_ns; /* the lease's deadline, as it has heard of it */
};

/* The lease that was granted, of which l was made, or l. It ends after all that was made of it, so
 * it is there whenever one of them is. */
static inline const struct lease *lease_root(const struct lease *l) {
    while (l->parent)
        l = l->parent;
    return l;
}

/* The lease by whose number the owner takes the notifications of l's lessees; NULL: there is none.
 * An owner never hears of parts of its lease, so notifications about a part are told of the lease
 * that was granted. Of a requested lease the owner hears only when it is handed over. */
static inline const struct lease *lease_notified(const struct lease *l) {
    const struct lease *root = lease_root(l);
    return root->requested ? NULL : root;
}

#endif
