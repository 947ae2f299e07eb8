/* SPDX-License-Identifier: MIT */
/*
 * op.h - an op on its way, and the things a worker knows that an op can name.
 *
 * daemon/op/README.md has the order in which to read what works on these.
 *
 * Everything here belongs to one worker's thread. An op counts itself at what it names (ring, pool,
 * lease, session). To drop one of these is to cancel its ops and to wait until the count is zero.
 */
#ifndef RDMAD_OP_ENGINE_OP_H
#define RDMAD_OP_ENGINE_OP_H

#include "daemon/base/slots.h"
#include "daemon/fabric/fabric.h"
#include "daemon/ipc/ring.h"
#include "daemon/op/engine/per_turn.h"
#include "daemon/op/tool/deadlines.h"
#include "daemon/op/tool/ranges.h"
#include "daemon/op/tool/tags.h"
#include "daemon/plane/plane.h"

/* Parts of one op in flight. More would only let a large op queue deeper before a small one. */
#define OP_MAX_PARTS 8u

struct worker;
struct op_fabric;
struct op_kind;    /* kind.h */
struct op_account; /* account.h */

struct op_user; /* user.h */

/* A way bytes can go: the local fabric, or a lane's link. */
struct op_route {
    struct op_fabric *fabric; /* the fabric, op_fabric.h */
    struct fabric_link *link;
    struct list run;  /* of struct op_flow: those with ops that have a part to post, by vtime */
    struct list node; /* in worker->runnable or, while full, in fabric->full */
    bool full;        /* the link said AGAIN, */
    bool overtaken;   /* last when the lane's channels had been before it; submit.c */
    bool up;          /* the link takes posts; while it is not, ops wait with their leases */
    bool local;       /* the bytes move in the poll that follows */
    bool copied;      /* by this CPU, not by a device */
    const char *name; /* of the fabric, for probes */
    uint64_t vtime;   /* of the flow that was served last, before that */
    uint64_t ahead;   /* bytes of parts posted and not back yet, */
    uint32_t out;     /* and how many those are */
    const struct op_user *last; /* who posted last */
    uint64_t shared_until_ns;   /* several users use it */
    uint64_t small_until_ns;    /* for small ops, too */
};

/* A user's place in a route's queue: start-time fair queueing between users (submit.c). */
struct op_flow {
    struct op_route *route; /* NULL: the lane was dropped */
    struct op_user *user;
    struct list node;   /* in user->flows */
    struct list turn;   /* in route->run */
    struct list shares; /* of struct op_share: those with ops that have a part to post, in turn */
    uint64_t vtime;     /* when it is served next, in bytes by weight */
    uint64_t settled;   /* the user's beside when it last paid for that */
    unsigned sessions;  /* that have a share in it */
};

/* A session's place in its user's flow, however many leases it has there. */
struct op_share {
    struct op_flow *flow;
    struct list node; /* in session->shares */
    struct list turn; /* in flow->shares */
    /* Of struct op, with a part to post: those of which none was posted yet, and the others;
     * share.h says which is next. */
    struct list fresh, begun;
    int64_t fresh_credit; /* bytes that fresh ones may post before one that has begun */
    unsigned leases;      /* that use it */
    int64_t credit;       /* bytes that it may still post before the next one's turn */
};

/*
 * A lane is one link at a time:
 *
 *              hello          open              the link is up
 *      NONE ----------> NEW --------> OPENING ----------------> UP
 *       ^                |               |                      |
 *       |                |               | it is not            | it breaks
 *       |                v               v                      |
 *       +<------------- LOST <-----------+<---------------------+
 *
 * The next hello, and the drop, take it from any of them to NONE.
 */
enum op_lane_state { OP_LANE_NONE, OP_LANE_NEW, OP_LANE_OPENING, OP_LANE_UP, OP_LANE_LOST };

struct op_lane {
    struct op_route route;    /* NONE: without a link */
    struct list leases;       /* of struct op_lease */
    struct list channels;     /* of struct op_channel, by lane_node, */
    struct list full;         /* and by full_node those for which the link had no room; */
    struct list full_node;    /* while there are some: in worker->channels->full */
    enum op_lane_state state; /* seam/lanes.c changes it */
    struct plane_lane_stats stats;
    uint64_t peer; /* for traces, */
    char node[RDMAD_NAME_MAX + 1];
};

struct op_channel;   /* channel/channel.h */
struct op_window;    /* window.h */
struct op_grant;     /* notify/grant.h */
struct op_allowance; /* notify/allowance.h */
struct op_batch;     /* below */

/* A plane_failure in words, each of which another thread may read while it is written. */
struct op_failure {
    uint64_t at_ns, user_data, length, bytes, lease, offset, nth, peer, what;
    uint64_t node[(RDMAD_NAME_MAX + 1) / 8];
};

struct op_session {
    struct worker *worker;
    struct list node; /* in worker->sessions */
    uint64_t id;
    void *cookie;
    struct slots rings, pools, leases;
    struct slots channels;    /* of struct op_channel, by the session's handles, */
    struct list unended;      /* and by unended_node those that have more ops to end; */
    struct list unended_node; /* while there are some: in worker->channels->unended */
    struct list grants;       /* of struct op_grant: leases that it granted */
    struct list shares;       /* of struct op_share, one a route */
    struct list every_ring;   /* of struct op_ring, those being dropped too */
    struct list own;          /* of struct op: the daemon's, which have no ring */
    struct list doomed;       /* those of own that ends.c has */
    uint32_t to_look_at;      /* so many of own, from the first on; ends.c, as the next two: */
    bool looking;             /* some of these, or of a ring's, were not looked at yet, */
    uint64_t looked_turn;     /* for in this turn as many were as may be */
    struct per_turn ends;     /* of its ops; ends.c */
    struct per_turn releases; /* of its ops that a fence held; fence_release.c */
    struct op_user *user;     /* whose it is, at this worker; user.h */
    struct list hot;          /* of struct op_ring: those that are polled, and had something */
    struct list quiet;        /* and those that had nothing when they were last looked at */
    struct list hot_node;     /* in user->hot, while there are some of either */
    struct list still;        /* and those of them that are looked at seldom; rings.c */
    struct list still_node;   /* in user->still, while there are some of these */
    struct list throttled;    /* rings that wait for ops to end, or for a resume */
    uint32_t inflight;        /* ops of all of them */
    uint32_t charged;         /* those of them that count for max_session_ops */
    uint32_t waits;           /* RECVs and NOTIFIEDs */
    uint32_t calls;           /* calls that wait; seam/call.h */
    /* How many of either it may have as it stands; account.c. */
    uint32_t waits_may, ops_may, ops_free;
    struct op_account *account, *all; /* of its user, and of all */
    uint64_t name_bytes;              /* of its rings' tables of names; account.c */
    uint64_t turn, spent;             /* when it was last served; what it owes, in sqes: admit.c */
    bool shut;                        /* takes no more sqes: violated, or being dropped */
    bool paused;                      /* takes none for now: all its rings are in throttled */
    bool parting;             /* its channels neither send nor take any more, nor get another way */
    bool left;                /* the next daemon's: what of channels has not begun is its, too */
    uint32_t untaken, taken;  /* notices of its grants, and of this turn; engine/untaken.c */
    struct list untaken_node; /* in worker->untaken: its client is to be told */
    struct list violated_node;
    struct mail violated_mail;
    struct error violated_why;
    struct plane_session_stats stats;
    struct plane_tally tally;
    struct op_failure failures[PLANE_FAILURES]; /* the last of them; tally.c */
    uint64_t nfailures;                         /* so far, */
    /* And by status. Not tally.failed: that has what was canceled, and CANCELs in vain, too. */
    uint64_t failed[PLANE_CODES];
    struct mail failed_mail;
    bool failed_told;   /* atomic: nothing is posted until the control thread has looked */
    bool failed_posted; /* atomic: failed_mail is under way */
};

/* How a ring's client rings its doorbell; doorbells.c. */
struct op_doorbell {
    struct list node;      /* in worker->deaf: not listened to */
    uint32_t taken_before; /* sqes of the ring, when it last rang and was not in vain */
    uint64_t deaf_until_ns, deaf_for_ns;
    uint32_t in_vain; /* in a row */
};

struct op_ring {
    struct op_session *session;
    struct ring *ring;
    uint64_t session_id, handle; /* for probes: as its client knows it */
    struct list node;            /* in one of its session's lists, or in worker->parked */
    struct list dirty_node;      /* in worker->dirty: to be flushed this turn */
    struct list owed_node;       /* in worker->owed: the longer it was not tried, the sooner */
    struct list prompt_node;     /* in worker->prompt; prompt.h, as the next */
    uint32_t looks_in_vain;      /* in a row */
    uint64_t last_bytes;         /* of the op that was the last under way; UINT64_MAX: not such
                                    an op as makes a ring prompt */
    struct list session_node;
    struct list ops;     /* of struct op: those that end by themselves, */
    struct list waits;   /* and RECV and NOTIFIED, */
    struct list doomed;  /* and of both those that ends.c has */
    bool ending;         /* nothing that waits on it begins any more */
    uint32_t inflight;   /* both, */
    uint32_t nwaits;     /* and of the second */
    uint32_t to_look_at; /* so many of ops, from the first on; ends.c */
    bool tagged;         /* these are in tags; names.c */
    struct tags tags, batch_tags;
    bool parked;            /* its wait word is set: its client will ring the doorbell */
    bool still;             /* it is in session->still */
    uint64_t active_ns;     /* when it last had an sqe or an answer */
    uint64_t taken;         /* transfers taken so far; chain.c's, as the next */
    uint64_t broken;        /* the transfer to be canceled when it is taken; 0: none */
    bool linked;            /* the last has RDMAD_SQE_LINK */
    uint32_t moving;        /* ops under way that a fence waits for; fence.c */
    struct list behind;     /* of struct op: one with a fence, and what came after it */
    struct list fence_node; /* in worker->fences: something of behind may start */
    struct op_batch *batch; /* the one whose last entry has not come yet */
    struct op_doorbell doorbell;
};

struct op_pool {
    struct op_session *session;
    uint8_t *base;
    uint64_t bytes;
    struct range range; /* the same, in worker->pools; until it is being dropped */
    struct fabric_memory *memory;
    uint32_t inflight;
    struct list waits;  /* of struct op, by holds_node: RECVs, */
    struct list doomed; /* and of those, ends.c's */
    bool ending;        /* is being dropped */
};

struct op_lease {
    uint64_t lease_id, length, deadline_ns;
    uint32_t rights;
    uint32_t inflight;
    int reason;                     /* why it ended; 0: alive */
    uint32_t keys;                  /* how often lease_key was called */
    bool leased_link;               /* of a peer: not used in the last margin before the deadline */
    struct fabric_audit *use;       /* route link: what ops on it came to; NULL: nobody asks */
    bool keyed;                     /* key is good for the route as it is now */
    struct list held;               /* ops that wait for a key */
    struct op_route *route;         /* NULL: the lane was dropped under it */
    struct op_share *share;         /* of its session in that route */
    struct op_allowance *allowance; /* notify/'s; NULL: its owner cannot be notified */
    struct list lane_node;          /* in lane->leases */
    struct list doomed;             /* of its ops, by holds_node: those that ends.c has */
    bool lands;                     /* it has ended, and ops that are all posted have time yet */
    struct list ops;                /* of struct op, by holds_node; sooner.c's, as the next two: */
    uint32_t to_look_at;            /* so many, from the first on */
    struct list sooner_node;        /* in worker->sooner */
    struct fabric_blob key;         /* what the fabric wants to hear */
    struct fabric_window *window;   /* route local: our own, on the local fabric */
};

/* Its lists; a lease of the daemon's own, to read a message by, has them as well. */
static inline void op_lease_init(struct op_lease *lease) {
    list_init(&lease->lane_node);
    list_init(&lease->ops);
    list_init(&lease->doomed);
    list_init(&lease->sooner_node);
    list_init(&lease->held);
}

/* Of op->todo. */
#define OP_TODO_BEGIN 1u /* its first part; tells an op of no bytes from one not begun */
#define OP_TODO_LAST 2u  /* what its kind posts behind the bytes */

/*
 * Where an op stands among its ring's fences and links.
 *
 *   op_new --> OP_UNFENCED                    RECV, NOTIFIED, the daemon's own: no fence sees it
 *     |
 *     +------> OP_MOVING --------------------> the end
 *                |  ^
 *     fence_hold |  | fences_run: what it waited for has ended
 *                v  |
 *              OP_BEHIND ---> OP_UNLINKED ---> the end, canceled by fences_run
 *                  chain.c: what it is linked to was not done
 *
 * A deadline, a cancellation or the end of its lease takes it from any of them to the end.
 */
enum op_fence { OP_UNFENCED, OP_MOVING, OP_BEHIND, OP_UNLINKED };

/* NOTIFY: whether it holds one of its lease's allowance (notify/notify.c), or needs none because it
 * only asks how much of that there is. */
enum op_claim { CLAIM_NONE, CLAIM_HELD, CLAIM_ASKS };

struct op_part {
    struct fabric_op fop;
    struct op *op;
    struct list node; /* in op->parts while posted, in op->again while it waits to be again */
};

/*
 * Every admitted sqe but NOP and CANCEL is one of these. An op that moves bytes to or from a lease
 * has a lease and a route. A SEND or RECV has a channel instead, and channel/ is in charge of it
 * from op_new to op_end. A NOTIFIED has a grant (notify/grant.c). An op without a ring is the
 * daemon's own: ended tells the code that started it.
 */
struct op {
    struct list node;       /* in its share while it has a part to post, or in lease->held; or its
                               channel's, grant's or fence's queue */
    struct list home_node;  /* in its ring's ops or waits, or the session's own; or doomed there */
    struct list holds_node; /* in its lease's ops; RECV: in its pool's waits; or doomed there */
    struct tag tag;         /* its user_data */
    struct deadline due;    /* when deadlines.c looks at it next */
    uint64_t deadline_ns;
    uint64_t since_ns; /* the turn, or the slice of it, in which its sqe was taken */
    struct op_session *session;
    struct op_ring *ring;
    struct op_pool *pool;         /* NULL: it touches none */
    struct fabric_memory *memory; /* the pool's */
    struct op_lease *lease;
    struct op_route *route;
    uint8_t *local;
    uint64_t length, lease_offset;
    uint64_t compare, swap; /* CAS, FADD */
    struct op_channel *channel;
    struct op_grant *grant;
    struct op_batch *batch; /* its completion is the batch's */
    struct list batch_node; /* among the batch's members */
    void (*ended)(struct worker *w, struct op *op, int status, uint8_t outcome);
    void *ended_arg;
    void *channel_data;         /* SEND, RECV: channel/'s own */
    const struct op_kind *kind; /* NULL: nothing but bytes to or from a lease */
    uint32_t imm;
    uint32_t question; /* NOTIFY that waits for room: its lease's questions as it came */
    uint8_t flags;     /* RDMAD_SQE_* */
    uint64_t order;    /* of its sqe among its ring's transfers, from 1 */
    uint64_t next;     /* where the next part that was never posted begins */
    uint64_t posted;   /* bytes given to the fabric, less those that have to be given again */
    uint64_t placed;   /* bytes of parts that are done; CAS, FADD: what was there */
    int status;
    uint8_t opcode;
    uint8_t todo; /* OP_TODO_*: what has to be posted besides bytes */
    enum op_fence fence : 8;
    enum op_claim claim : 8; /* NOTIFY: of its lease's allowance */
    bool far;                /* SEND: the other end is at a peer */
    bool follows;            /* a link: what came before it has to be done */
    bool told_apart;         /* needs more than a cqe: in a batch, SILENT, LINK, a kind's release */
    bool charged;            /* counts for max_session_ops, and as in flight */
    bool tagged;             /* is in its ring's tags */
    bool begun;              /* takes turns with others of its share that have; share.h */
    bool stopped;            /* no further parts: one failed, or it was cancelled */
    bool some_failed;        /* a part failed */
    bool some_partial;       /* a part may have written some of its bytes */
    bool some_unknown;       /* nobody knows what became of a part */
    uint32_t inflight;       /* parts posted */
    uint32_t refused;  /* by a device, since the lease's key of this number, from 1; 0: never */
    struct list parts; /* posted */
    struct list again; /* to be posted again, before any new one */
    bool first_used;
    struct op_part first; /* most ops are of one part; further ones come from worker->parts. Last,
                             because it is not cleared with the rest */
};

/* What a good sqe means; validate.c fills it in, admit.c the last two. */
struct op_request {
    struct op_pool *pool;   /* NULL: it has none */
    struct op_lease *lease; /* likewise */
    struct op_grant *grant; /* likewise */
    uint8_t *local;
    uint64_t deadline_ns;   /* CLOCK_NEVER: none */
    uint64_t since_ns;      /* when its sqe was taken; 0: in this turn */
    uint64_t order;         /* as op.order; 0: it is no transfer */
    bool follows;           /* as op.follows */
    struct op_batch *batch; /* NULL: it belongs to none */
};

/* Several sqes with one cqe; batch.c. */
struct op_batch {
    struct op_ring *ring;
    struct list members; /* of struct op: those that have not ended, by batch_node */
    uint32_t taken;      /* entries so far */
    uint32_t left;       /* of them not ended */
    bool closed;         /* its last entry was taken */
    bool tagged;         /* is in its ring's batch_tags */
    bool silent, linked;
    /* chain.c's: it follows a link, this is the order of its first transfer; 0: it follows none. */
    uint64_t follows;
    bool waits;    /* it does, and nothing of it has started */
    bool unlinked; /* that was not done, so nothing of it is to start */
    uint64_t last; /* the order of its last entry */
    bool failed;
    bool some_done, some_failed, some_partial, some_unknown;
    uint8_t opcode;
    uint64_t bytes;
    struct tag tag; /* the last entry's user_data */
    uint64_t order; /* of the first member that was not done */
    int status;
    uint64_t info;
};

/* What goes into the cqe, besides user_data and opcode. */
struct op_result {
    int status;
    uint8_t outcome;
    uint16_t flags; /* RDMAD_CQE_* */
    uint64_t bytes; /* or value */
    uint64_t info;  /* lease_id or imm */
};

/* NULL: it is none of a lane. */
static inline struct op_lane *op_route_lane(struct op_route *route) {
    return route && !route->local ? container_of(route, struct op_lane, route) : NULL;
}

/* The lane that an op's bytes go by to its lease; NULL: none, or it was dropped. The op's own route
 * may be gone. */
static inline struct op_lane *op_lane_of(const struct op *op) {
    return op->lease ? op_route_lane(op->lease->route) : NULL;
}

/* Which opcodes end by themselves: fences wait for them, and they count for max_session_ops. RECV
 * and NOTIFIED wait for somebody else; account.h counts both. */
static inline bool op_is_own_time(uint8_t opcode) {
    const unsigned kinds = 1u << RDMAD_OP_READ | 1u << RDMAD_OP_WRITE | 1u << RDMAD_OP_CAS |
                           1u << RDMAD_OP_FADD | 1u << RDMAD_OP_NOTIFY | 1u << RDMAD_OP_SEND;
    return kinds >> opcode & 1;
}

/* For an op with a ring: its ring or its pool is being dropped. The op may still be there for some
 * turns (ends.c), but it neither sends nor receives any more. */
static inline bool op_ending(const struct op *op) {
    return op->ring->ending || (op->pool && op->pool->ending);
}

#endif
