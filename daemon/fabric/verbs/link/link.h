/* SPDX-License-Identifier: MIT */
/*
 * link.h - a link's inner words, for the files that make it (link.c, cm.c), post on it (post.c) and
 * take back what was posted (recover.c).
 *
 * An op is doomed (it ends with the next poll, never posted), batched (in its lane, not posted yet)
 * or posted, or a message that came there and waits for its answer (asking). Every state but posted
 * can be ended at once, for no device has its memory.
 *
 * Messages (SEND) wait in the outbox for the peer's inbox to have room (outbox.c); all go by the
 * first lane.
 *
 * A link fails once: from then on nothing is posted, what is batched is doomed, the lane that
 * failed flushes, and the ops of other lanes have the quiesce bound to end by themselves. Then all
 * that is left is broken, and 100 ms later the QPs are destroyed, which no device can refuse. When
 * the last op is back, link_lost is told.
 */
#ifndef RDMAD_FABRIC_VERBS_LINK_H
#define RDMAD_FABRIC_VERBS_LINK_H

#include "daemon/base/log.h"
#include "daemon/fabric/verbs/target/weak.h"
#include <errno.h>

/* Why the ops behind the first failed one of a QP were flushed. */
enum lane_cause {
    LANE_WELL,
    LANE_REFUSED, /* the peer's device refused an op, not a READ: none behind it was executed */
    LANE_LOST,    /* silence, a READ refused, or we broke it: nobody knows */
};

struct lane {
    struct queue queue;
    struct link *link;
    enum lane_cause cause;
    uint32_t batched;
    struct list batch;   /* ops to post */
    struct list posted;  /* ops under way, oldest first */
    struct list sending; /* in verbs.sending while there is something to post, and one may */
};

#define OUTBOX_SLOTS 64u
#define NO_SLOT UINT16_MAX

/* What a link needs to send messages, and to get results of CAS and FADD (outbox.c). */
struct outbox {
    uint8_t *memory; /* slots of messages, then a word a work request */
    size_t bytes;
    struct ibv_mr *mr;
    unsigned free;
    uint16_t slot[OUTBOX_SLOTS]; /* the free ones */
    struct inbox_place to;
    uint64_t sent, consumed; /* by us; and by the peer, as its counter was last */
    uint64_t window;         /* by which they may differ */
    bool reading;            /* the counter */
    bool stalled;            /* the first lane waits for room at the peer */
    struct list asking;      /* messages that came there and wait for their answers */
    uint64_t asked;          /* one more than the number of the last that asks */
    uint64_t read_at_ns, pause_ns;
};

/* The way out for messages of a kind that may be lost (gate.c). Its QP is of a lane of its own,
 * behind those of RC. */
struct gate {
    enum gate_state {
        GATE_SHUT,     /* nobody wanted it */
        GATE_KNOCKING, /* the target is asked to make a door, */
        GATE_ASKING,   /* and its page is read for where that is */
        GATE_OPEN,
        GATE_NONE, /* there will be none */
    } state;
    struct fabric_op knock;  /* an op of our own, */
    struct knock words;      /* and what it says */
    struct door_place place; /* as last read, in our order of bytes */
    struct ibv_ah *ah;       /* of datagrams */
};
#define LANES_ALL (VERBS_LANES_MAX + DOORS)

enum link_state {
    LINK_NEW,        /* has a hello */
    LINK_CONNECTING, /* by rdma_cm */
    LINK_CONNECTED,  /* link_up is to be told */
    LINK_UP,
    LINK_FAILING, /* waits for its ops, then link_lost is to be told */
    LINK_LOST,
    LINK_CLOSED,
};

struct link {
    struct fabric_link base;
    struct verbs *verbs;
    struct list node, news; /* in verbs.links, verbs.news */
    struct grave grave;
    void *cookie;
    enum link_state state;
    unsigned lanes;
    struct lane lane[LANES_ALL]; /* lanes of them, and those of the gates at the end */
    struct gate gate[DOORS];
    struct outbox outbox;
    struct list doomed;   /* ops that end with the next poll, never posted */
    uint32_t ops;         /* taken and not given back */
    uint32_t cancelled;   /* of them, posted ones that somebody wants back */
    uint64_t deadline_ns; /* connecting: to be up; failing: to be broken, then to be destroyed */
    bool broken;          /* failing: its QPs are, flushes are waited for */
    bool reads;           /* the other end answers READs and atomic ops, of which */
    bool atomics;         /* it and we have any */
    uint64_t packet;      /* bytes of one packet */
    char host[64];        /* for messages */
    struct error why;     /* of the loss */
    struct cm_call *cm;   /* cm.c's; NULL: none */
};

static inline bool is_knock(const struct link *l, const struct fabric_op *op) {
    return op == &l->gate[DOOR_DATAGRAM].knock || op == &l->gate[DOOR_UNACKED].knock;
}

enum op_state { OP_DOOMED, OP_BATCHED, OP_POSTED, OP_ASKING };

/* What a link keeps of an op, in its scratch. */
struct op_mark {
    uint64_t address; /* at the target; of a message its number on the link */
    uint32_t rkey;
    uint8_t lane, state;
    uint16_t slot;         /* in the outbox; NO_SLOT: none */
    int32_t cancel_status; /* 0: not cancelled */
    uint64_t cancel_ns;    /* when it must be back */
};
_Static_assert(sizeof(struct op_mark) <= sizeof(((struct fabric_op *)0)->scratch), "op_mark");

static inline struct op_mark *op_mark(struct fabric_op *op) {
    return (struct op_mark *)op->scratch;
}

/* link.c: makes the QPs of a link; bare ones for rdma_cm. */
int link_make_queues(struct link *l, unsigned lanes, bool bare, struct error *err);
/* Every lane's queue is in RTS; the offer was the target's. link_up comes with the next poll. */
void link_connected(struct link *l, uint64_t number, uint64_t max_message,
                    const struct inbox_place *inbox);
void link_tell(struct link *l); /* it has news: a doomed op, a change of state, its last op back */

/* post.c */
void link_doom(struct link *l, struct fabric_op *op, int status); /* untouched */
void link_complete(struct link *l, struct fabric_op *op, int status, uint8_t outcome);
void link_doom_batches(struct link *l); /* PEER_LOST, untouched */
void link_complete_doomed(struct link *l);
void lane_wake(struct lane *lane); /* it may post again, if it has anything to */
void link_doom_batched(struct lane *lane, struct fabric_op *op, int status);

/* outbox.c. open: the queues are made; close: they are destroyed. */
int outbox_open(struct link *l, struct error *err);
void outbox_close(struct link *l);
void outbox_connect(struct link *l, const struct inbox_place *to);
/* Takes a slot, of which there is one, for op: 0, RDMAD_E_LENGTH, or RDMAD_E_FAULT with op->fault.
 */
int outbox_fill(struct link *l, struct fabric_op *op);
void outbox_release(struct link *l, struct fabric_op *op); /* if it has one */
bool outbox_may_send(const struct outbox *ob);             /* the peer has a receive for one more */
void outbox_sge(struct outbox *ob, const struct fabric_op *op, struct ibv_sge *sge);
/* Where the answer of a work request that took its place lands, and what it was. */
void outbox_word_sge(const struct lane *lane, const struct ibv_send_wr *wr, struct ibv_sge *sge);
uint64_t outbox_word(const struct lane *lane, const struct slot *slot);
bool outbox_wants_news(const struct link *l); /* the peer's page is to be read now */
void outbox_page_sge(const struct link *l, struct ibv_sge *sge);
void outbox_news(struct link *l); /* it was */
void outbox_look(struct link *l); /* for timers */
/* The message lies there; its answer is looked for in the page. end: there will be none. */
void outbox_ask(struct link *l, struct fabric_op *op);
void outbox_asks_end(struct link *l, int status);
bool outbox_asking(const struct link *l); /* the page is read until it says something */

/* gate.c. ready: 0 when messages of that kind may be put on *lane, or why not: UNSUPPORTED, or
 * AGAIN. */
int gate_ready(struct link *l, enum door_kind kind, struct lane **lane);
void gates_connect(struct link *l);
void gate_knocked(struct link *l, const struct fabric_op *op); /* its knock came back */
bool gates_asking(const struct link *l);                       /* the peer's page is to be read */
bool gates_news(struct link *l, const struct inbox_page *page);
/* Puts what is special to that kind into wr and its sge. */
void gate_message(struct link *l, enum door_kind kind, struct ibv_send_wr *wr, struct ibv_sge *sge);
void gates_close(struct link *l); /* the QPs are gone */

/* recover.c: what was posted comes back. */
void lane_ended(struct queue *q, struct slot *slot, const struct ibv_wc *wc);
void lane_break(struct lane *lane); /* its ops come back flushed */
/* The link has failed; the first sentence counts. */
void link_fail(struct link *l, const struct error *why);
/* Destroys the QPs, then gives back every op with status. */
void link_tear_down(struct link *l, int status);
void link_settle(struct link *l); /* tells the loss when all ops are back */
void link_look(struct link *l);

/* cm.c: connecting by rdma_cm. Starts connecting l (LINK_CONNECTING) by the offer; later
 * link_connected or link_fail. cm_hang_up ends that, or the connection: called before the link's
 * QPs are destroyed, also when cm_dial failed. */
int cm_dial(struct link *l, const char *host, const struct verbs_offer *offer, struct error *err);
void cm_hang_up(struct link *l);

#endif
