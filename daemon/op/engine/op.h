/* SPDX-License-Identifier: MIT */
/*
 * op.h - an op on its way, and the things a worker knows that an op can name.
 *
 * Read this directory in this order: op.h, seat.h (a fabric), worker.h (the loop's turn), rings.c
 * (sqes come in), validate.c (may it?), route.c (which way, and is it there?), submit.c (parts go
 * to the fabric), complete.c (parts come back, one cqe goes out), deadlines.c (ops that take too
 * long), ends.c (many end at once); what few ops need: fence.c, chain.c, batch.c, cancel.c and
 * tags.h, notify.h and notify.c, channel.h; account.h (how many there may be), slab.h (their
 * memory), table.c (what the control thread adds and drops), loop.c (sleeping), and last call.h,
 * plane.c, control.c, lane.c, window.c and notify_peer.c: the other side of the seam.
 *
 * The happy path of a write: ring_serve copies the sqe, op_validate turns it into a request (a
 * pointer, a lease, a route), op_start gives it an op, submit posts it in parts of at most the
 * fabric's largest message, op_part_ended folds each part's result in, op_finish writes one cqe.
 *
 * Others leave that path at one place each. CAS and FADD are one part whose answer is a value. A
 * NOTIFY has one part more, behind its bytes. SEND, RECV and NOTIFIED go to channel_admit and
 * notified_take. A fence keeps an op from being queued; a batch, or SILENT, changes what its end
 * tells.
 *
 * The unhappy path of a lane: its link breaks and gives all parts back; those that may be posted
 * again are kept with their op (op.again), the op waits in its lease's held list, and so does what
 * comes meanwhile. The control thread makes the lane another link and gives each lease on it a new
 * key, which lets the lease's ops go on. All that time deadlines, cancellations and the ends of
 * leases reach a held op as any other.
 *
 * Everything here belongs to one worker's thread. An op holds what it names by counting itself
 * there (ring, pool, lease, session); whoever drops such a thing cancels its ops and waits until
 * the count is zero.
 */
#ifndef RDMAD_OP_OP_H
#define RDMAD_OP_OP_H

#include "daemon/base/slots.h"
#include "daemon/fabric/fabric.h"
#include "daemon/ipc/ring.h"
#include "daemon/op/engine/account.h"
#include "daemon/op/tool/deadlines.h"
#include "daemon/op/tool/tags.h"
#include "daemon/plane/plane.h"

/* Parts of one op in flight. More would only let a large op queue deeper before a small one. */
#define OP_MAX_PARTS 8u

struct worker;
struct seat;
struct call;

/* A way bytes can go: the local fabric, or a lane's link. */
struct op_route {
    struct seat *seat; /* the fabric, seat.h */
    struct fabric_link *link;
    struct list run;  /* of struct op_share: those with ops that have a part to post, in turn */
    struct list node; /* in worker->runnable or, while full, in seat->full */
    bool full;        /* the link said AGAIN */
    bool up;          /* the link takes posts; while it is not, ops wait with their leases */
};

/* A session's place in a route's queue, however many leases it has there. */
struct op_share {
    struct op_route *route;
    struct list node; /* in session->shares */
    struct list turn; /* in route->run */
    struct list ops;  /* with a part to post; served in turn, too */
    unsigned leases;  /* that use it */
};

/* A lane is one link at a time: none, new, being opened, up, lost, and so on from the start. */
struct op_lane {
    struct op_route route; /* its link is NULL before the first hello */
    struct list leases;    /* of struct op_lease */
    struct list channels;  /* of struct op_channel, by lane_node */
    void *cookie;
    struct call *opening; /* the plane_lane_open not answered yet */
    bool up;              /* said to be so; route.up is false a little earlier when it breaks */
    bool lost;            /* the link it has is of no use any more */
    uint64_t number;      /* the peer's for the link, once opening it was answered; atomic */
    uint64_t datagram;    /* the longest message of one, as number; atomic */
    uint64_t hellos;      /* how many were made so far */
    struct mail lost_mail;
    struct error lost_why;
    uint64_t lost_hello; /* which of them lost_mail is about */
};

struct op_channel;  /* channel.h */
struct op_send;     /* likewise */
struct op_grant;    /* notify.c */
struct op_notifier; /* notify.h */
struct op_batch;    /* batch.c */

struct op_session {
    struct worker *worker;
    struct list node; /* in worker->sessions */
    uint64_t id;
    void *cookie;
    struct slots rings, pools, leases;
    struct slots channels;  /* of struct op_channel, by the session's handles */
    struct list grants;     /* of struct op_grant: leases that it granted */
    struct list shares;     /* of struct op_share, one a route */
    struct list every_ring; /* of struct op_ring, those being dropped too */
    struct list own;        /* of struct op: the daemon's, which have no ring */
    struct list doomed;     /* those of own that ends.c has */
    uint64_t ends_turn;     /* the worker's when ends was 0; ends.c */
    uint32_t ends;
    struct list throttled; /* rings that wait for ops to end */
    uint32_t inflight;     /* ops of all of them */
    uint32_t charged;      /* those of them that count for max_session_ops */
    uint32_t waits;        /* RECVs and NOTIFIEDs */
    uint32_t calls;        /* that wait; call.c */
    /* How many of either it may have as it stands; account.c. */
    uint32_t waits_may, ops_may, ops_free;
    struct op_account *uid, *all;
    uint64_t name_bytes;  /* of its rings' tables of names; account.c */
    uint64_t turn, spent; /* the worker's, when it was last served; in sqes, rings.c */
    bool shut;            /* takes no more sqes: violated, or being dropped */
    struct list violated_node;
    struct mail violated_mail;
    struct error violated_why;
    struct plane_session_stats stats;
};

/* What the worker knows of how a ring's client knocks; knocks.c. */
struct knocks {
    struct list node;      /* in worker->deaf: not listened to */
    uint32_t taken_before; /* sqes of the ring at the last knock that was not in vain */
    uint64_t deaf_until_ns, deaf_for_ns;
    uint32_t in_vain; /* in a row */
};

struct op_ring {
    struct op_session *session;
    struct ring *ring;
    struct list node;       /* in worker->hot, worker->parked or session->throttled */
    struct list dirty_node; /* in worker->dirty: to be flushed this turn */
    struct list session_node;
    struct list ops;    /* of struct op: those that end by themselves, */
    struct list waits;  /* and RECV and NOTIFIED, */
    struct list doomed; /* and of both those that ends.c has */
    bool ending;        /* nothing that waits on it begins any more */
    uint32_t inflight;  /* both */
    bool tagged;        /* these are in tags; cancel.c */
    struct tags tags, batch_tags;
    bool parked;        /* its wait word is set: its client will knock */
    uint64_t active_ns; /* when it last had an sqe or an answer */
    uint64_t taken;     /* transfers so far; chain.c's, as the next */
    uint64_t refused;   /* the number of one that follows a broken link as it is taken; 0: none */
    uint64_t broken;    /* the same, as it starts */
    bool linked;        /* the last has RDMAD_SQE_LINK */
    uint32_t moving;    /* ops under way that a fence waits for; fence.c */
    struct list behind; /* of struct op: one with a fence, and what came after it */
    struct list fence_node; /* in worker->fences: something of behind may start */
    struct op_batch *batch; /* the one whose last entry has not come yet */
    struct knocks knocks;
};

struct op_pool {
    uint8_t *base;
    uint64_t bytes;
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
    int reason;                   /* why it ended; 0: alive */
    bool leased_link;             /* of a peer: not used in the last margin before the deadline */
    struct fabric_audit *use;     /* route link: what ops on it came to; NULL: nobody asks */
    bool keyed;                   /* key is good for the route as it is now */
    struct list held;             /* ops that wait for a key */
    struct op_route *route;       /* NULL: the lane was dropped under it */
    struct op_share *share;       /* of its session in that route */
    uint64_t notify_ref;          /* route link: what a NOTIFY names at the owner; 0: none */
    uint32_t notify_number;       /* route link: of the last message posted */
    uint32_t notify_taken;        /* route link: of so many the owner's daemon owes nothing more */
    uint32_t notify_claims;       /* route link: ops that may post one and have not */
    uint32_t notify_asked;        /* route link: notify_number when it was last asked about that */
    uint32_t notify_turn;         /* route link: how often it was */
    bool asking;                  /* route link: an op that asks is under way */
    struct list notify_waiting;   /* route link: NOTIFYs that found no room as far as is known */
    struct op_notifier *notifier; /* route local; notify.h */
    struct list lane_node;        /* in lane->leases */
    struct list ops;              /* of struct op, by holds_node */
    struct fabric_blob key;       /* what the fabric wants to hear */
    struct fabric_window *window; /* route local: our own, on the local fabric */
};

/* Its lists; a lease of the daemon's own, to read a message by, has them as well. */
static inline void op_lease_init(struct op_lease *lease) {
    list_init(&lease->lane_node);
    list_init(&lease->ops);
    list_init(&lease->held);
    list_init(&lease->notify_waiting);
}

/* What a peer may reach here; window.c. */
struct op_window {
    struct worker *worker;
    struct seat *seat; /* the peer's */
    enum { WINDOW_NONE, WINDOW_OPENING, WINDOW_OPEN, WINDOW_CLOSING } state;
    struct fabric_window *window;   /* unless there is none */
    struct fabric_window_spec spec; /* of this one, or of the one to be opened next */
    bool extended;                  /* while it was being opened */
    struct op_notifier *notifier;   /* its lessee may notify; notify.h */
    struct op_send *send;           /* it is of a message of a channel: rendezvous.c is told */
    struct call *opening;           /* the open or reopen that is not answered yet */
    struct call *closing;           /* the close */
};

/* Of op->todo. */
#define OP_TODO_BEGIN 1u  /* its first part; tells an op of no bytes from one not begun */
#define OP_TODO_NOTICE 2u /* NOTIFY: the word to the lease's owner, after the bytes */

struct op_part {
    struct fabric_op fop;
    struct op *op;
    struct list node; /* in op->parts while posted, in op->again while it waits to be again */
};

/*
 * Every admitted sqe but NOP and CANCEL is one of these. What moves bytes to or from a lease has a
 * lease and a route; a SEND or RECV has a channel instead, and channel.c is in charge of it from
 * op_new to op_end; a NOTIFIED has a grant (notify.c). An op without a ring is the daemon's own:
 * ended tells whoever started it.
 */
struct op {
    struct list node;       /* in share->ops while it has a part to post, or in lease->held; or its
                               channel's, grant's or fence's queue */
    struct list home_node;  /* in its ring's ops or waits, or the session's own; or doomed there */
    struct list holds_node; /* in its lease's ops; RECV: in its pool's waits */
    struct tag tag;         /* its user_data */
    struct deadline due;    /* when deadlines.c looks at it next */
    uint64_t deadline_ns;
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
    uint64_t channel_seq; /* SEND: the message's number; channel.c's own, as the next */
    void *channel_data;
    uint32_t imm;
    uint32_t turn;   /* NOTIFY that waits for room: lease->notify_turn as it came */
    uint8_t flags;   /* RDMAD_SQE_* */
    uint64_t order;  /* of its sqe among its ring's transfers, from 1 */
    uint64_t next;   /* where the next part that was never posted begins */
    uint64_t posted; /* bytes given to the fabric, less those that have to be given again */
    uint64_t placed; /* bytes of parts that are done; CAS, FADD: what was there */
    int status;
    uint8_t opcode;
    uint8_t todo;      /* OP_TODO_*: what has to be posted besides bytes */
    bool told_apart;   /* its end is no plain cqe: a batch's, SILENT's, or NOTIFY's */
    bool charged;      /* counts for max_session_ops, and as in flight */
    bool tagged;       /* is in its ring's tags */
    bool moving;       /* a fence waits for it */
    bool behind;       /* waits behind a fence */
    bool unlinked;     /* and what it is linked to was not done */
    bool reserved;     /* NOTIFY: holds one of its lease's allowance */
    bool ask;          /* NOTIFY of the daemon's own: without a notice; notify.c */
    bool stopped;      /* no further parts: one failed, or it was cancelled */
    bool some_failed;  /* a part failed */
    bool some_partial; /* a part may have written some of its bytes */
    bool some_unknown; /* nobody knows what became of a part */
    uint32_t inflight; /* parts posted */
    struct list parts; /* posted */
    struct list again; /* to be posted again, before any new one */
    bool first_used;
    struct op_part first; /* most ops are of one part; further ones come from worker->parts. Last,
                             because it is not cleared with the rest */
};

/* Of a ring's: the ring or the pool is being dropped. It may still be there for some turns
 * (ends.c), but neither sends nor receives any more. */
static inline bool op_ending(const struct op *op) {
    return op->ring->ending || (op->pool && op->pool->ending);
}

/* ---- start and end of any op (submit.c, complete.c) ------------------------------------------ */

struct op_request;
/* Counts the op at its ring, session, pool (and lease), with its deadline running; not in any queue
 * yet. worker_can_start must have said yes. */
struct op *op_new(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                  const struct op_request *rq);
/* What goes into the cqe, besides user_data and opcode. */
struct op_result {
    int status;
    uint8_t outcome;
    uint16_t flags; /* RDMAD_CQE_* */
    uint64_t bytes; /* or value */
    uint64_t info;  /* lease_id or imm */
};
/* Nothing can touch its buffers any more: one cqe (or its share in the batch's, or ended), and it
 * is freed. It must be in no queue but those that op_new put it in. */
void op_end(struct worker *w, struct op *op, const struct op_result *result);
/* A READ or WRITE of the daemon's own in the name of a session, through a lease that only the
 * caller knows (keyed or not, as any other: it waits for lease_key, and survives its lane's links).
 * pool and lease count it. ended is told in place of a cqe, when nothing counts the op any more but
 * its memory is still there. NULL when out of memory. */
struct op *op_start_own(struct worker *w, struct op_session *s, struct op_pool *pool,
                        struct op_lease *lease, const struct rdmad_sqe *what, uint64_t deadline_ns,
                        void (*ended)(struct worker *w, struct op *op, int status, uint8_t outcome),
                        void *arg);

/* Which kinds end by themselves: fences wait for them, and they count for max_session_ops. RECV and
 * NOTIFIED wait for somebody else; account.h counts both. */
static inline bool op_is_own_time(uint8_t opcode) {
    const unsigned kinds = 1u << RDMAD_OP_READ | 1u << RDMAD_OP_WRITE | 1u << RDMAD_OP_CAS |
                           1u << RDMAD_OP_FADD | 1u << RDMAD_OP_NOTIFY | 1u << RDMAD_OP_SEND;
    return kinds >> opcode & 1;
}

/* ---- messages between workers of two daemons ------------------------------------------------- */

/* The first byte of every SEND tells whose it is. */
enum op_message { OP_MESSAGE_NOTIFY = 1, OP_MESSAGE_CHANNEL = 2 };
/* worker.c gives what the fabric received to these; bytes are a peer's: hostile. */
uint64_t notify_received(struct worker *w, uint64_t peer, const uint8_t *bytes, size_t size);
void channel_received(struct worker *w, uint64_t peer, uint64_t number, const uint8_t *bytes,
                      size_t size);
/* fabric_env's landing and landed. */
struct fabric_landing *channel_landing(struct worker *w, uint64_t peer, uint64_t number,
                                       const uint8_t *head, size_t size, uint64_t length);
void channel_landed(struct fabric_landing *landing, int status);

/* ---- channel.c's doors, for the rest of op/ -------------------------------------------------- */

/* A SEND or RECV whose form is good and whose pool range is (rq->pool, rq->local): checks the
 * channel, and starts it by op_new, or returns the status with which it is refused. */
int channel_admit(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                  const struct op_request *rq);
/* op_cancel of an op with a channel: ends it now, or when what is out of it has come back. */
void channel_op_cancel(struct worker *w, struct op *op, int status);
/* What env.complete brings of a SEND that is not a NOTIFY's: fop.user is an op_part, whose op has a
 * channel, or is NULL (a message that the daemon sends by itself). */
void channel_part_ended(struct worker *w, struct op_part *part);
/* The session ends: its channels do, at once; when they have, and it has no ops any more, they are
 * freed. */
void channels_session_end(struct op_session *s);
bool channels_session_settled(struct op_session *s);
void channels_session_gone(struct worker *w, struct op_session *s);
/* The lane is dropped, with what was left on it. */
void channels_lane_dropped(struct op_lane *lane);
/* The window of a message is there, or is not; rendezvous.c. */
void send_window_opened(struct op_send *s, const struct fabric_blob *key, const struct error *err);
void send_window_closed(struct op_send *s);
/* The lane's link is up, or gone; after the leases on it were told, and after all that was posted
 * on it has come back. */
void channels_lane_up(struct worker *w, struct op_lane *lane);
void channels_lane_down(struct worker *w, struct op_lane *lane);
/* Once a turn, before submit_run: acknowledgements and credits that gathered go out. */
unsigned channels_run(struct worker *w);
/* Before a sleep: true if acknowledgements wait; the next turn tells them. */
bool channels_hurry(struct worker *w);

/* ---- validate.c -------------------------------------------------------------------------- */

/* What a good sqe means. */
struct op_request {
    struct op_pool *pool;   /* NULL: it has none */
    struct op_lease *lease; /* likewise */
    struct op_grant *grant; /* likewise */
    uint8_t *local;
    uint64_t deadline_ns;   /* CLOCK_NEVER: none */
    uint64_t order;         /* as op.order; 0: it is no transfer; rings.c fills in the rest, too */
    struct op_batch *batch; /* NULL: it belongs to none */
};

/* Returns 0 and fills *rq, or the code of the first thing wrong. *lease_id is the owner's number
 * when the status concerns a lease, else 0. */
int op_validate(const struct op_session *s, const struct plane_settings *settings, uint64_t now_ns,
                const struct rdmad_sqe *sqe, struct op_request *rq, uint64_t *lease_id);

/* The moment from which ops on the lease fail as expired. */
uint64_t op_lease_limit_ns(const struct op_lease *lease, const struct plane_settings *settings);

/* ---- rings.c: sqes come in --------------------------------------------------------------- */

/* Takes what the hot rings offer; returns how many sqes. */
unsigned rings_serve(struct worker *w);
void rings_flush(struct worker *w);
void rings_wake(struct worker *w, struct op_ring *r);          /* a parked ring is polled again */
bool rings_park(struct worker *w, struct op_ring *r);          /* false: it has work */
void rings_unthrottle(struct worker *w, struct op_session *s); /* an op of the session ended */
void rings_dirty(struct worker *w, struct op_ring *r);
/* An sqe whose form is good, and which no fence stops, becomes an op, or is answered. Returns what
 * that took, in plain sqes. */
uint32_t sqe_start(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                   struct op_request *rq);

/* ---- route.c ----------------------------------------------------------------------------- */

void route_init(struct op_route *route, struct seat *seat);
void route_ready(struct worker *w, struct op_route *route); /* it may have something to post */
void route_full(struct op_route *route);                    /* its link said AGAIN */
/* The fabric moved: its full links may take posts again. */
void routes_retry(struct worker *w, struct seat *seat);
void route_down(
    struct op_route *route); /* takes no posts any more; its ops wait with their leases */
/* The session's share in the route for one more lease: one that is there, else spare. The other is
 * freed. */
struct op_share *share_get(struct op_session *s, struct op_route *route, struct op_share *spare);
void share_put(struct op_share *share); /* one lease less */
/* The op has something to post: it queues on its route, or waits for its lease's key. */
void op_queue(struct worker *w, struct op *op);
void op_hold(struct op *op); /* it waits for the lease's next key */
void lease_unkey(struct op_lease *lease);
void lease_key(struct worker *w, struct op_lease *lease, const struct fabric_blob *key);

/* ---- submit.c ---------------------------------------------------------------------------- */

/* An admitted sqe becomes an op. worker_can_start must have said yes. */
void op_start(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq);
/* Posts parts on every route that takes them; returns how many. */
unsigned submit_run(struct worker *w);
bool op_has_more(const struct op *op);                        /* something to post, now or later */
struct op_part *op_part_get(struct worker *w, struct op *op); /* NULL: out of memory */
void op_part_posted(struct op *op, struct op_part *part);
void op_part_put(struct worker *w, struct op_part *part); /* its memory is free again */

/* ---- complete.c -------------------------------------------------------------------------- */

void op_part_ended(struct worker *w, struct op_part *part);
/* Posts no further part, takes back what the fabric lets go of, finishes when nothing is left. */
void op_cancel(struct worker *w, struct op *op, int status);
/* Nothing of it is posted and nothing is to be: it ends as what it came to. */
void op_finish(struct worker *w, struct op *op);
/* It goes without a word, its cqe still reserved. */
void op_vanish(struct worker *w, struct op *op);
/* An sqe that never becomes an op: NOP, CANCEL, or refused. */
void op_answer(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
               const struct op_request *rq, int status, uint64_t lease_id);
/* One reservation becomes a cqe, or is given back. */
void op_tell(struct worker *w, struct op_ring *r, uint64_t user_data, uint8_t opcode,
             const struct op_result *result);
void op_tell_nothing(struct worker *w, struct op_ring *r);
/* What deadlines.c calls. */
void op_due(struct worker *w, struct op *op);
/* Moves the next look at the op to its deadline or its lease's, whichever is earlier. */
void op_set_due(struct worker *w, struct op *op);

/* ---- batch.c ----------------------------------------------------------------------------- */

size_t batch_size(void);
/* The entry has MORE, or its ring has a batch that waits for its last: it becomes a member
 * (rq->batch). Returns 0, or why it is one that is refused. */
int batch_join(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
               struct op_request *rq);
void batch_ended(struct worker *w, struct op_batch *b, uint64_t order,
                 const struct op_result *result); /* of one member */
void batch_add(struct op_batch *b, struct op *op);
void batch_unlink(struct op_batch *b); /* what is linked to it has been told */
/* All members of those of that name; returns how many. */
uint32_t batches_cancel(struct op_ring *r, uint64_t user_data, uint32_t *looks);
void batch_tag(struct op_batch *b);                   /* if it has one: it can be found by it */
void batch_drop(struct worker *w, struct op_ring *r); /* with its ring */

/* ---- fence.c ----------------------------------------------------------------------------- */

bool fence_stops(const struct op_ring *r, const struct rdmad_sqe *sqe);
void fence_hold(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                const struct op_request *rq);
void fence_wake(struct worker *w, struct op_ring *r); /* an op of it ended while others wait */
void fences_run(struct worker *w);

/* ---- chain.c: RDMAD_SQE_LINK ---------------------------------------------------------------- */

uint64_t chain_take(struct op_ring *r, const struct rdmad_sqe *sqe); /* its order */
void chain_follow(struct op_ring *r, struct rdmad_sqe *sqe);         /* before it joins a batch */
/* CANCELED: what it is linked to was not done. The first when it is taken, the second when it
 * starts, which may be at once. */
int chain_admit(struct op_ring *r, uint64_t order, uint8_t flags);
int chain_start(struct op_ring *r, uint64_t order, uint8_t flags, bool unlinked);
void chain_refused(struct op_ring *r, uint64_t order, uint8_t flags); /* as it was taken */
void chain_canceled(struct op *op); /* while it waits behind a fence; before chain_ended */
void chain_ended(struct op_ring *r, uint64_t order, uint8_t flags, uint8_t outcome);

/* ---- ends.c ------------------------------------------------------------------------------ */

/* Whether the session may end one more op in this turn; if not there will be another one at once.
 */
bool ends_may(struct op_session *s);
/* What is doomed is all that it has. Then, once a turn until it is true: nothing is left. */
void ends_doom_ring(struct op_ring *r);
bool ends_ring(struct op_ring *r, int status);
void ends_doom_session(struct op_session *s);
bool ends_session(struct op_session *s, int status);
bool ends_pool(struct op_session *s, struct op_pool *pool, int status);

/* ---- cancel.c ---------------------------------------------------------------------------- */

/* Cancels the lease's ops at once; with pick those alone that it picks. */
typedef bool ops_pick(const struct op *op);
void ops_cancel_lease(struct worker *w, struct op_lease *lease, ops_pick *pick, int status);
/* Dooms what waits for a message in the pool, and cancels what else holds it. */
void ops_cancel_pool(struct op_session *s, struct op_pool *pool, int status);
/* What CANCEL's status is, and what it took, in sqes. */
int cancel_by_name(struct op_ring *r, uint64_t user_data, uint32_t *cost);
#define LOOKS_PER_SQE 8u /* ops that can be looked at while one is started */
void op_tag(struct op_ring *r, struct op *op);
void op_untag(struct op_ring *r, struct op *op);
void ring_forget_tags(struct op_ring *r); /* none is in flight */

/* ---- notify.c ---------------------------------------------------------------------------- */

/* Queues it when the allowance lets it in; else it waits, or is refused. */
void notify_start(struct worker *w, struct op *op);
void notify_release(struct op *op); /* what was reserved and not used */
/* Leaves the notice, or posts the message that carries it; as fabric.post, and NOMEM. */
int notify_post(struct worker *w, struct op *op);
bool notify_must_wait(const struct op *op); /* for its bytes, before notify_post */
/* A message with a notice may be lost: the owner's daemon must learn which was the last, and say
 * what there is room for. */
void notify_ask(struct worker *w, struct op_session *s, struct op_lease *lease);
/* NOTIFIED: takes a notice or waits; 0 or why it is refused. */
int notified_take(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                  struct op_request *rq);
struct op_grant *op_grant_new(void);
uint64_t grant_number(const struct op_grant *g); /* its lease's */
/* The session's, some a turn; true: it has none any more. */
bool grants_session_gone(struct worker *w, struct op_session *s);
void notifier_window_closed(struct worker *w, struct op_window *ow);

#endif
