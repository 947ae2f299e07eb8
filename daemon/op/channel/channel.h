/* SPDX-License-Identifier: MIT */
/*
 * channel.h - one end of a channel, and what crosses between the two ends.
 *
 * Read wire (messages as bytes) and core; for what is sent send, inbox and carry (how a message
 * gets to the other end) and sends; for what is received recv, arrivals, landing, reading and
 * receives; weak (kinds without acknowledgements); and on top deliver (what the other end says),
 * turn, life and entry (where the rest of the data plane comes in). What the control thread asks is
 * in seam/channels.c.
 *
 * Each end sends messages numbered 0, 1, 2... and receives the other's. The receiver is in charge:
 * its state, which rides on every message that it sends, says how far it has come. *next*: all
 * below are over and done with, so it is the acknowledgement. *expect*: the number that it takes
 * next; those between are matched with receives, and complete in order. *limit*: the sender may
 * send those below, because their receives are posted. So a message always finds its receive, and
 * nothing is ever kept in between: the daemon holds no messages, whoever stalls.
 *
 * A small message is one fabric SEND, copied into its receive; a longer one may come straight there
 * while the fabric receives it, where the fabric can do that (a landing). A large one is an offer:
 * the sender opens a window on its buffer and tells the key, the receiver READs into the posted
 * buffer, and acknowledges.
 *
 * When a receive was taken back after its credit was told, the message that came for it is
 * refused: the receiver counts a *refusal* in its state and takes nothing but number expect from
 * then on; the sender goes back to that number. It does the same after a new link to the receiver:
 * it begins with a SYNC of a new *epoch*, and goes on when a state *echoes* it, at that state's
 * expect. As the fabric keeps the order of a link, a message that was sent again never meets its
 * first copy. What was cancelled meanwhile is simply not in the sequence any more.
 *
 * A message may be over without having been delivered: its receive was too *small*, or it is
 * *gone* (withdrawn by the sender, or its memory could not be read). Those two bit maps reach 64
 * messages below next; the receiver completes nothing further when a bit would fall out that the
 * sender has not *heard* of.
 *
 * An end may lose its way to the other, and get another later (rest.c). Nothing is said of what was
 * on the way then: it ends as unknown, and both ends begin with message 0 again.
 */
#ifndef RDMAD_OP_CHANNEL_H
#define RDMAD_OP_CHANNEL_H

#include "daemon/op/channel/wire.h"
#include "daemon/op/engine/window.h"
#include "daemon/op/tool/ids.h"

/* Messages on their way (sent and not acknowledged), whatever the receiver allows. */
#define CHANNEL_WINDOW 1024u
/* Messages without a payload of one end that the fabric has at a time. */
#define CHANNEL_POSTS 4u
/* Those that have come and wait, of a channel that needs no memory for finding them; a power of
 * two.
 */
#define CHANNEL_FEW 8u
/* Within one daemon, longer ones are copied in turn with everything else. */
#define CHANNEL_COPY_MAX (16u * 1024u)
/* How long the end of a cancelled message waits for the other end to say what became of it. */
#define CHANNEL_SETTLE_NS (50 * NSEC_PER_MSEC)
#define CHANNEL_SPARE_LETTERS 256u
#define CHANNEL_KEEPS_UP 64u /* bits of small and gone */

/* Something that the fabric has. */
struct channel_post {
    struct op_part part; /* first: the fabric op's user; its op is NULL */
    struct op_channel *channel;
    struct op_send *send; /* NULL: without a payload */
    bool posted;
};

struct channel_letter; /* inbox.h */
struct op_arrival;     /* arrival.h */

/* What this end sends: send, sends. */
struct channel_out {
    struct list waiting, sent, leaving; /* of struct op_send */
    uint32_t waits;                     /* length of waiting */
    uint32_t refusals;                  /* how many of the other end's were heeded */
    uint64_t next_seq;
    uint64_t acked, expect, limit; /* by the other end's state */
    struct list due;               /* of struct op_send, by due_node: of which more is to be said */
};

/* What it receives: recv, receives, landing, reading. */
struct channel_in {
    struct list recvs;          /* of struct op: posted, and no message has come for them */
    struct list arrivals;       /* of struct op_arrival, by number; arrivals.h */
    struct op_arrival **place;  /* where each is found; NULL: few is used */
    uint32_t places;            /* how many; a power of two */
    uint32_t landings;          /* how many of them are LANDING */
    uint32_t posted;            /* length of recvs */
    bool refusing;              /* drops all but number expect */
    struct list attention;      /* those of them that ended, or are to: by attention_node */
    uint64_t rollback;          /* from this number on arrivals are to be refused; NEVER: none */
    uint64_t stopped_from;      /* and from this one on they were told to stop, */
    uint32_t stopping;          /* which so many have not done yet */
    struct channel_state state; /* next, expect, limit, small, gone, refusals */
    uint64_t limit_told;        /* the limit that the other end knows of, when it is there */
    uint64_t heard;             /* how much of state it has heard of */
    struct op_arrival *few[CHANNEL_FEW];
};

/* What the other end is to be told of that: turn. */
struct channel_due {
    bool state;             /* the state */
    bool full;              /* the link had no room for it in this turn */
    uint32_t acks;          /* messages that are over and not told of */
    uint32_t ack_turns;     /* how long these waited */
    uint32_t ack_skips;     /* how many of the next are not to wait */
    uint64_t acks_since_ns; /* the first of them */
};

/* A message without acknowledgements that comes in pieces: weak. */
struct channel_pieces {
    struct op *op;       /* the first of recvs, which has some; NULL: none */
    uint64_t seq, whole; /* its number and length */
    uint64_t assembled;  /* so much of it came */
    uint64_t seen;       /* bit n: something of message state.next - 1 - n did */
};

/*
 * Whether both ends speak of the same numbers (sync.h):
 *
 *               opened, to a peer        SYNC posted           echoed
 *      CLOSED --------------------> DUE -------------> SAID -----------> DONE
 *        |                           ^                  |                  |
 *        |                           +------------------+------------------+
 *        |                           a link made anew or gone, or a post lost
 *        +-- opened, within the daemon --> DONE
 *        |   any of these -- its way is gone --> CLOSED
 *        +-- opened, without acknowledgements --> NONE
 */
struct channel_sync {
    enum { SYNC_CLOSED, SYNC_DUE, SYNC_SAID, SYNC_DONE, SYNC_NONE } state;
    uint32_t epoch, peer_epoch;
    bool resting; /* CLOSED: what was on the way that is gone ends */
    bool parting; /* its daemon leaves: it neither sends nor takes any more */
};

/*
 * How it ends, which has three parts.
 *
 * This end (op_channel_end):            ALIVE --> LINGERING (what was sent is still delivered)
 *                                         |           |
 *                                         +-----------+--> STOPPING
 *
 * The other (channel_closed, _lost):    THERE --> CLOSED (it said so; what it took is acknowledged)
 *                                         |
 *                                         +-----> LOST (its daemon lies, or its peer is gone)
 *
 * The last word to it (turn.c), when    UNTOLD --> TRIED (there was no room) --> TOLD
 * this end ends and no op is left:        |                                        ^
 *                                         +----------------------------------------+
 */
struct channel_end {
    enum { END_ALIVE, END_LINGERING, END_STOPPING } state;
    enum { OTHER_THERE, OTHER_CLOSED, OTHER_LOST } other;
    enum { FIN_UNTOLD, FIN_TRIED, FIN_TOLD } fin;
    int reason;                    /* of plane_channel_end; ALIVE: 0 */
    int other_reason;              /* THERE: 0 */
    bool other_first;              /* it ended while this end was ALIVE */
    struct channel_letter *letter; /* in one daemon: put aside for FIN */
    struct mail closed_mail, free_mail;
    void (*closed_event)(struct mail *mail); /* closed_mail's, on the control thread */
    struct error closed_why;
};

struct op_channel {
    struct worker *worker;
    struct op_session *session; /* NULL: forgotten */
    uint64_t handle;            /* in session->channels, until it is to be forgotten */
    struct id_node number_node; /* among the worker's, */
    struct list run_node;       /* those with something to do, */
    struct list anew_node;      /* and those that began anew */
    struct list unended_node;   /* in session->unended */
    struct list held_node;      /* in its user's held */
    uint32_t kind;
    uint32_t ops;                         /* SENDs and RECVs not ended */
    struct plane_channel_stats *stats;    /* the control thread's, until the end is done */
    struct plane_channel_stats unwatched; /* and from then on */

    /* The two ends, and the way from one to the other. */
    bool remote; /* it is at a peer */
    uint64_t number, peer_number, peer_in;
    uint64_t via;               /* remote: the number of the other end's link here */
    struct op_lane *lane;       /* remote; NULL: dropped */
    struct list lane_node;      /* in lane->channels, */
    struct list full_node;      /* and in lane->full, until its link takes what is due */
    struct op_fabric *fabric;   /* remote: of its lane, and of the connections of peer_in */
    struct worker *peer_worker; /* not remote */
    struct list inbox;          /* not remote: of struct channel_letter, what the other end said */
    struct channel_post posts[CHANNEL_POSTS];
    unsigned posted_sends; /* fabric ops that point here */

    struct channel_sync sync;
    struct channel_out out;
    struct channel_in in;
    struct channel_due due;
    struct channel_pieces pieces;
    struct channel_end end;

    /* Control thread only. */
    struct {
        void *cookie;
        const void *owner;
        bool forgotten;
    } control;
};

/* What a worker knows of channels. */
struct channels {
    struct ids by_number;
    struct list run;     /* with something to do */
    struct list anew;    /* of which an end began anew: keys of what they send are to be new */
    struct list full;    /* of struct op_lane: with channels that wait for room on its link */
    struct list unended; /* of struct op_session: with channels that wait for ends_may */
    struct slab sends, arrivals;
    struct channel_letter *spare_letters; /* by next */
    unsigned spares;                      /* how many */
    struct fabric_audit audit;            /* of windows that nobody asks about */
    struct channel_message outgoing;      /* to a peer, while it is made */
    const struct op_channel *released; /* its turn among its user's held is now; NULL: nobody's */
    uint64_t copied;                   /* bytes of messages into receives, since the turn began */
    unsigned acks_wait;                /* channels whose acknowledgement waits for an answer */
    bool hurry;                        /* they wait no longer */
};
int channels_init(struct worker *w);
void channels_fini(struct worker *w);

static inline bool channel_over(const struct op_channel *ch) { /* there is no other end */
    return ch->end.other != OTHER_THERE;
}
static inline bool channel_ending(const struct op_channel *ch) { /* this end is */
    return ch->end.state != END_ALIVE;
}
/* What was not sent is not sent any more. */
static inline bool channel_stopped(const struct op_channel *ch) {
    return ch->end.state == END_STOPPING;
}
/* With what code all ops of a channel that ends are ended: that of whichever end ended first. */
static inline int channel_end_code(const struct op_channel *ch) {
    const struct channel_end *end = &ch->end;
    bool other = channel_over(ch) && (end->other_first || end->state == END_LINGERING);
    return other ? end->other_reason : end->reason;
}
static inline bool channel_lane_up(const struct op_channel *ch) {
    return ch->lane && ch->lane->state == OP_LANE_UP;
}
/* There is a way to the other end. */
static inline bool channel_can_say(const struct op_channel *ch) {
    return ch->sync.state != SYNC_CLOSED && !channel_over(ch) &&
           (!ch->remote || channel_lane_up(ch));
}
/* Whether a key that came with m is for the lane's present link. While SYNC is still to be said on
 * that link, none can be. */
static inline bool channel_key_good(const struct op_channel *ch, const struct channel_message *m) {
    return ch->sync.state != SYNC_DUE && m->state.echo == ch->sync.epoch;
}

/* Without acknowledgements: weak.c. */
static inline bool channel_weak(const struct op_channel *ch) {
    return ch->kind != RDMAD_CHANNEL_RELIABLE;
}
uint64_t weak_most(const struct fabric_link *link, uint32_t kind); /* bytes of one SEND; weak.c */

#endif
