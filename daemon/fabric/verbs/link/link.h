/* SPDX-License-Identifier: MIT */
/*
 * link.h - a link, its lanes and its ops: what all files of link/ stand on.
 *
 * An op is doomed (it ends with the next poll and is never posted), batched (in its lane, not
 * posted yet), posted, or asking (a message that has arrived and waits for its answer). In every
 * state but posted it can be ended at once, because no device has its memory.
 *
 * Messages (SEND) wait in the outbox for the peer's inbox to have room (outbox.c); all go by the
 * first lane.
 *
 * A link fails once: from then on nothing is posted, what is batched is doomed, the lane that
 * failed flushes, and the ops of other lanes have the quiesce bound to end by themselves. Then all
 * QPs that are left are broken, and 100 ms later they are destroyed, which no device can refuse.
 * When the last op is back, link_lost is told.
 */
#ifndef RDMAD_FABRIC_VERBS_LINK_LINK_H
#define RDMAD_FABRIC_VERBS_LINK_LINK_H

#include "daemon/base/log.h"
#include "daemon/fabric/verbs/instance/queue.h"
#include "daemon/fabric/verbs/wire/blob.h"
#include "daemon/fabric/verbs/wire/page.h"
#include <errno.h>

/* Why the ops behind the first failed one of a QP were flushed. */
enum lane_cause {
    LANE_WELL,
    LANE_REFUSED, /* the peer's device refused an op, not a READ: none behind it was executed */
    LANE_LOST,    /* silence, a READ refused, or we broke it: nobody knows */
};

struct verbs_lane {
    struct queue queue;
    struct verbs_link *link;
    enum lane_cause cause;
    uint32_t batched;
    struct list batch;   /* ops to post */
    struct list posted;  /* ops under way, oldest first */
    struct list sending; /* in verbs.sending while it has something that may be posted */
};

#define OUTBOX_SLOTS 64u
#define NO_SLOT UINT8_MAX

/* What a link needs to send messages, and to get results of CAS and FADD (outbox.c). */
struct outbox {
    uint8_t *memory; /* slots of messages, then a word a work request */
    size_t bytes;
    struct ibv_mr *mr;
    uint64_t blank; /* in a word that has no answer yet; hardly ever an answer */
    unsigned free;
    uint8_t slot[OUTBOX_SLOTS]; /* the free ones */
    struct inbox_place to;
    uint64_t sent,
        consumed; /* how many we sent; how many the peer has taken, as its counter last said */
    uint64_t ahead_max; /* by how much sent may be ahead of consumed */
    bool reading;       /* a READ of the counter is under way */
    bool stalled;       /* the first lane waits for room at the peer */
    struct list asking; /* messages that came there and wait for their answers */
    uint64_t asked;     /* one more than the number of the last that asks */
    uint64_t read_at_ns, pause_ns;
};

/*
 * The way out for weak messages of a kind (weak_sender.c). Its QP is of a lane of its own, behind
 * those of RC. The state tells how far the way to the peer's receiver is:
 *
 *     CLOSED --first message--> REQUESTING --it came--> READING --place read--> OPEN
 *        |                          |                      |
 *        +-- no QP can be made, or the peer refuses -------+--> NONE
 */
struct weak_sender {
    enum weak_state {
        WEAK_CLOSED,     /* nobody has wanted it yet */
        WEAK_REQUESTING, /* the target is asked to make a receiver */
        WEAK_READING,    /* its page is read to learn where that is */
        WEAK_OPEN,
        WEAK_NONE, /* there will be none */
    } state;
    struct fabric_op request;  /* an op of our own */
    struct weak_request words; /* what request says */
    struct weak_place place;   /* as last read, in our order of bytes */
    struct ibv_ah *ah;         /* of datagrams */
    uint64_t way_at_ns;        /* when to ask for the way to it again, */
    uint64_t until_ns;         /* and when to give up */
};
#define LANES_ALL (VERBS_LANES_MAX + WEAK_KINDS)

/*
 *     NEW --------------> CONNECTED --told--> UP
 *      |                     ^    |            |
 *      +--> CONNECTING ------+    |            |
 *               |                 |            |
 *               +-----------------+------------+--> FAILING --its last op is back--> LOST
 *
 * One that cannot be opened is LOST at once; link_close makes it CLOSED from anywhere.
 */
enum link_state {
    LINK_NEW,        /* has a hello */
    LINK_CONNECTING, /* by rdma_cm */
    LINK_CONNECTED,  /* link_up is to be told */
    LINK_UP,
    LINK_FAILING, /* waits for its ops, then link_lost is to be told */
    LINK_LOST,
    LINK_CLOSED,
};

struct verbs_link {
    struct fabric_link base;
    struct verbs *verbs;
    struct list node, changed; /* in verbs.links, verbs.changed */
    struct free_later end;
    const struct connect_way *way;
    void *cookie;
    enum link_state state;
    unsigned lanes;
    struct verbs_lane lane[LANES_ALL]; /* lanes of them, and those of weak messages at the end */
    struct weak_sender weak[WEAK_KINDS];
    struct outbox outbox;
    struct list doomed;   /* ops that end with the next poll, never posted */
    uint32_t ops;         /* taken and not given back */
    uint32_t cancelled;   /* how many of them are posted and were cancelled */
    uint64_t deadline_ns; /* connecting: to be up; failing: to be broken, then to be destroyed */
    bool broken;          /* failing: its QPs are in ERR, and flushes are waited for */
    bool reads;           /* the other end answers READs and atomic ops */
    bool atomics;         /* both devices have atomic ops */
    uint64_t packet;      /* bytes of one packet */
    char host[64];        /* for messages */
    struct error why;     /* of the loss */
    struct cm_call *cm;   /* of its way; NULL: none */
};

static inline struct verbs_link *verbs_link_of(struct fabric_link *fl) {
    return container_of(fl, struct verbs_link, base);
}

static inline bool link_lives(const struct verbs_link *l) {
    return l->state == LINK_CONNECTED || l->state == LINK_UP;
}

/* The lane of weak messages of that kind. */
static inline struct verbs_lane *link_weak_lane(struct verbs_link *l, enum weak_kind kind) {
    return &l->lane[VERBS_LANES_MAX + kind];
}

enum op_state { OP_DOOMED, OP_BATCHED, OP_POSTED, OP_ASKING };

/* What a link keeps of an op, in its scratch. */
struct op_mark {
    uint64_t address; /* at the target; of a message its number on the link */
    uint32_t rkey;
    uint8_t lane, state;
    uint8_t slot;          /* in the outbox; NO_SLOT: none */
    uint8_t seals;         /* how often it was posted with its end sealed (read_seal.c) */
    int32_t cancel_status; /* 0: not cancelled */
    uint16_t seal, sealed; /* what was put at its end, and what was there before */
    uint64_t cancel_ns;    /* when it must be back */
};
_Static_assert(sizeof(struct op_mark) <= sizeof(((struct fabric_op *)0)->scratch), "op_mark");

static inline struct op_mark *op_mark(struct fabric_op *op) {
    return (struct op_mark *)op->scratch;
}

/* The link has something to tell: a doomed op, a change of state, that its last op is back. */
void link_changed(struct verbs_link *l);
/* Whether the peer's page is to be read again and again until it says something new. */
bool link_wants_page(const struct verbs_link *l);

/* ---- an op comes ---------------------------------------------------------------------------- */

/* How many more ops a lane takes: the first keeps a place for reading the peer's page. */
static inline uint32_t lane_room(const struct verbs_lane *lane) {
    const struct verbs_link *l = lane->link;
    uint32_t kept = lane->batched;
    if (lane == l->lane && !l->outbox.reading)
        kept++;
    uint32_t room = queue_room(&lane->queue);
    return room > kept ? room - kept : 0;
}

/* An op is the link's from now on, to go by that lane; then it is batched there, or doomed. */
void link_take(struct verbs_lane *lane, struct fabric_op *op);
void link_batch(struct verbs_lane *lane, struct fabric_op *op);
void link_unbatch(struct verbs_lane *lane, struct fabric_op *op);
void lane_wake(struct verbs_lane *lane); /* it may post again, if it has anything to */

/* Its place in the outbox, if it has one, is free again. */
void link_release_slot(struct verbs_link *l, struct fabric_op *op);

/* ---- and goes ------------------------------------------------------------------------------- */

void link_complete(struct verbs_link *l, struct fabric_op *op, int status, uint8_t outcome);
void link_doom(struct verbs_link *l, struct fabric_op *op, int status); /* untouched */
void link_doom_batches(struct verbs_link *l);                           /* PEER_LOST, untouched */
void link_complete_doomed_op(struct verbs_link *l, struct fabric_op *op);
void link_complete_doomed(struct verbs_link *l);

/* ---- the end of a READ (read_seal.c) --------------------------------------------------------- */

#define READ_SEALS_MAX 4u

/* op is about to be posted. NULL, or the address that vanished. */
const void *read_seal_put(struct fabric_op *op);
/* op, which was posted, is done; false: its seal is still there. */
bool read_seal_is_gone(const struct fabric_op *op);
/* op was not executed this time: what was sealed is there again. */
void read_seal_take_off(struct fabric_op *op);

/* ---- weak messages -------------------------------------------------------------------------- */

bool link_is_request(const struct verbs_link *l, const struct fabric_op *op);
/* Messages of that kind cannot be sent: those that wait are doomed. */
void link_refuse_weak(struct verbs_link *l, enum weak_kind kind);

#endif
