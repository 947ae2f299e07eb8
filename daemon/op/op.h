/* SPDX-License-Identifier: MIT */
/*
 * op.h - an op on its way, and the things a worker knows that an op can name.
 *
 * Read this directory in this order: op.h, worker.h (the loop's turn), rings.c (sqes come in),
 * validate.c (may it?), route.c (which way, and is it there?), submit.c (parts go to the fabric),
 * complete.c (parts come back, one cqe goes out), deadlines.c (ops that take too long), table.c
 * (what the control thread adds and drops), loop.c (sleeping), and last call.h, plane.c, control.c,
 * lane.c and window.c: the other side of the seam.
 *
 * The happy path of a write: ring_serve copies the sqe, op_validate turns it into a request (a
 * pointer, a lease, a route), op_start gives it an op, submit posts it in parts of at most the
 * fabric's largest message, op_part_ended folds each part's result in, op_finish writes one cqe.
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
#include "daemon/op/deadlines.h"
#include "daemon/plane/plane.h"

/* Parts of one op in flight. More would only let a large op queue deeper before a small one. */
#define OP_MAX_PARTS 8u

struct worker;
struct seat;
struct call;

/* A way bytes can go: the local fabric, or a lane's link. */
struct op_route {
    struct seat *seat; /* the fabric, worker.h */
    struct fabric_link *link;
    struct list run;  /* of struct op_share: those with ops that have a part to post, in turn */
    struct list node; /* in worker->runnable or, while full, in worker->full */
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
    void *cookie;
    struct call *opening; /* the plane_lane_open not answered yet */
    bool up;              /* said to be so; route.up is false a little earlier when it breaks */
    bool lost;            /* the link it has is of no use any more */
    uint64_t number;      /* the peer's for the link, once opening it was answered; atomic */
    uint64_t hellos;      /* how many were made so far */
    struct mail lost_mail;
    struct error lost_why;
    uint64_t lost_hello; /* which of them lost_mail is about */
};

struct op_session {
    struct worker *worker;
    struct list node; /* in worker->sessions */
    uint64_t id;
    void *cookie;
    struct slots rings, pools, leases;
    struct list shares;    /* of struct op_share, one a route */
    struct list ops;       /* of struct op */
    struct list throttled; /* rings that wait for ops to end */
    uint32_t inflight;     /* length of ops */
    bool shut;             /* takes no more sqes: violated, or being dropped */
    struct list violated_node;
    struct mail violated_mail;
    struct error violated_why;
    struct plane_session_stats stats;
};

struct op_ring {
    struct op_session *session;
    struct ring *ring;
    struct list node;       /* in worker->hot, worker->parked or session->throttled */
    struct list dirty_node; /* in worker->dirty: to be flushed this turn */
    uint32_t inflight;
    bool parked;        /* its wait word is set: its doorbell will tell */
    uint64_t active_ns; /* when it last had an sqe or an answer */
};

struct op_pool {
    uint8_t *base;
    uint64_t bytes;
    struct fabric_memory *memory;
    uint32_t inflight;
};

struct op_lease {
    uint64_t lease_id, length, deadline_ns;
    uint32_t rights;
    uint32_t inflight;
    int reason;                   /* why it ended; 0: alive */
    bool leased_link;             /* of a peer: not used in the last margin before the deadline */
    bool keyed;                   /* key is good for the route as it is now */
    struct list held;             /* ops that wait for a key */
    struct op_route *route;       /* NULL: the lane was dropped under it */
    struct op_share *share;       /* of its session in that route */
    struct list lane_node;        /* in lane->leases */
    struct fabric_blob key;       /* what the fabric wants to hear */
    struct fabric_window *window; /* route local: our own, on the local fabric */
};

/* What a peer may reach here; window.c. */
struct op_window {
    struct worker *worker;
    enum { WINDOW_NONE, WINDOW_OPENING, WINDOW_OPEN, WINDOW_CLOSING } state;
    struct fabric_window *window;   /* unless there is none */
    struct fabric_window_spec spec; /* of this one, or of the one to be opened next */
    bool extended;                  /* while it was being opened */
    struct call *opening;           /* the open or reopen that is not answered yet */
    struct call *closing;           /* the close */
};

struct op_part {
    struct fabric_op fop;
    struct op *op;
    struct list node; /* in op->parts while posted, in op->again while it waits to be again */
};

struct op {
    struct list node; /* in share->ops while it has a part to post, or in lease->held */
    struct list session_node;
    struct deadline due; /* when deadlines.c looks at it next */
    uint64_t deadline_ns;
    struct op_session *session;
    struct op_ring *ring;
    struct op_pool *pool;
    struct op_lease *lease;
    struct op_route *route;
    uint8_t *local;
    uint64_t length, lease_offset, user_data;
    uint64_t next;   /* where the next part that was never posted begins */
    uint64_t posted; /* bytes given to the fabric, less those that have to be given again */
    uint64_t placed; /* bytes of parts that are done */
    int status;
    uint8_t opcode;
    bool begun;        /* the first part was posted; tells an op of no bytes from one not begun */
    bool stopped;      /* no further parts: one failed, or it was cancelled */
    bool some_failed;  /* a part failed */
    bool some_partial; /* a part may have written some of its bytes */
    bool some_unknown; /* nobody knows what became of a part */
    uint32_t inflight; /* parts posted */
    struct list parts; /* posted */
    struct list again; /* to be posted again, before any new one */
    struct op_part first; /* most ops are of one part; further ones come from worker->parts */
    bool first_used;
};

/* ---- validate.c -------------------------------------------------------------------------- */

/* What a good sqe means. */
struct op_request {
    struct op_pool *pool;
    struct op_lease *lease;
    uint8_t *local;
    uint64_t deadline_ns;
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

/* ---- route.c ----------------------------------------------------------------------------- */

void route_init(struct op_route *route, struct seat *seat);
void route_ready(struct worker *w, struct op_route *route); /* it may have something to post */
void route_full(struct worker *w, struct op_route *route);  /* its link said AGAIN */
void routes_retry(struct worker *w); /* the fabric moved: full links may take posts again */
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
bool op_has_more(const struct op *op);                    /* something to post, now or later */
void op_part_put(struct worker *w, struct op_part *part); /* its memory is free again */

/* ---- complete.c -------------------------------------------------------------------------- */

void op_part_ended(struct worker *w, struct op_part *part);
/* Posts no further part, takes back what the fabric lets go of, finishes when nothing is left. */
void op_cancel(struct worker *w, struct op *op, int status);
/* An sqe that never becomes an op: NOP, or refused by op_validate. */
void op_answer(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe, int status,
               uint64_t lease_id);
/* What deadlines.c calls. */
void op_due(struct worker *w, struct op *op);
/* Moves the next look at the op to its deadline or its lease's, whichever is earlier. */
void op_set_due(struct worker *w, struct op *op);

#endif
