/* SPDX-License-Identifier: MIT */
/*
 * channel.h - one end of a channel, and what crosses between the two ends.
 *
 * Read channel_wire.c (messages as bytes), channel.c (life, and a channel's turn), sends.c,
 * receives.c, rendezvous.c (large messages), landing.c (those between), carry.c (how a message gets
 * to the other end), and channel_call.c (the control thread's side).
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
 */
#ifndef RDMAD_OP_CHANNEL_H
#define RDMAD_OP_CHANNEL_H

#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/ends.h"
#include "daemon/op/engine/life.h"
#include "daemon/op/engine/message.h"
#include "daemon/op/engine/route.h"
#include "daemon/op/engine/submit.h"
#include "daemon/op/engine/worker.h"

/* Messages on their way (sent and not acknowledged), whatever the receiver allows. */
#define CHANNEL_WINDOW 1024u
/* Messages without a payload of one end that the fabric has at a time. */
#define CHANNEL_POSTS 4u
/* Within one daemon, longer ones are copied in turn with everything else. */
#define CHANNEL_COPY_MAX (16u * 1024u)
/* How long the end of a cancelled message waits for the other end to say what became of it. */
#define CHANNEL_SETTLE_NS (50 * NSEC_PER_MSEC)
#define CHANNEL_HEAD 96u
#define CHANNEL_BUCKETS 1024u
#define CHANNEL_KEEPS_UP 64u /* bits of small and gone */

enum channel_say {
    CHANNEL_STATE = 1, /* nothing but the state */
    CHANNEL_SYNC,      /* the first on a link: what came by another link is void */
    CHANNEL_DATA,      /* a message whole */
    CHANNEL_OFFER,     /* one to be READ */
    CHANNEL_KEY,       /* a new key for one that was offered */
    CHANNEL_WITHDRAW,  /* the sender wants it back */
    CHANNEL_FIN,       /* this end is gone; its last state */
    CHANNEL_SAYS
};

#define CHANNEL_FLAG_IMM 1u
#define CHANNEL_FLAG_LEASE 2u
#define CHANNEL_FLAG_ABRUPT 4u /* FIN: what was under way was canceled */
#define CHANNEL_FLAGS 7u

struct channel_state {
    uint32_t epoch, echo;  /* of this end's last SYNC; of the last that it had from the other */
    uint32_t refusals;     /* counted */
    uint64_t next, expect; /* the sender's numbers */
    uint64_t limit;
    uint64_t small, gone; /* bit n: of message next - 1 - n */
    uint64_t heard;       /* the other end's next */
};

struct channel_message {
    uint8_t say; /* enum channel_say */
    uint16_t flags;
    uint32_t imm;
    uint64_t channel; /* the receiver's number */
    struct channel_state state;
    uint64_t seq, length; /* DATA, OFFER, KEY, WITHDRAW */
    struct fabric_blob key;
    const uint8_t *payload; /* DATA: length bytes. OFFER in one daemon: the sender's buffer */
    struct fabric_landing **landing; /* DATA whose payload is to come: says where to; else NULL */
};

/* channel_wire.c. encode fills at most FABRIC_HEAD_MAX bytes, a DATA's payload comes behind them;
 * returns how many. decode checks everything that can be checked without knowing the channel; it
 * returns NULL, or what is wrong, and then *m has a channel if that much could be read, else 0. Of
 * a DATA without its payload that is to_come, else 0. */
size_t channel_encode(const struct channel_message *m, uint8_t *head);
const char *channel_decode(struct channel_message *m, const uint8_t *bytes, size_t size,
                           uint64_t to_come);

/* ---- for what stands above channel/ ---------------------------------------------------------- */

/* A SEND or RECV whose form is good and whose pool range is (rq->pool, rq->local): checks the
 * channel, and starts it by op_new, or returns the status with which it is refused. */
int channel_admit(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                  struct op_request *rq);
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
/* The lane's link is up, or gone; after the leases on it were told, and after all that was posted
 * on it has come back. */
void channels_lane_up(struct worker *w, struct op_lane *lane);
void channels_lane_down(struct worker *w, struct op_lane *lane);
/* Once a turn, before submit_run: acknowledgements and credits that gathered go out. */
unsigned channels_run(struct worker *w);
/* Before a sleep: true if acknowledgements wait; the next turn tells them. */
bool channels_hurry(struct worker *w);

/* Of fabric_env's received, landing and landed; bytes are a peer's: hostile. */
void channel_received(struct worker *w, uint64_t peer, uint64_t number, const uint8_t *bytes,
                      size_t size);
struct fabric_landing *channel_landing(struct worker *w, uint64_t peer, uint64_t number,
                                       const uint8_t *head, size_t size, uint64_t length);
void channel_landed(struct fabric_landing *landing, int status);

/* ---- the ends ---------------------------------------------------------------------------- */

/* Something that the fabric has. */
struct channel_post {
    struct op_part part; /* first: the fabric op's user; its op is NULL */
    struct op_channel *channel;
    struct op_send *send; /* NULL: without a payload */
    bool posted;
};

/* A SEND. Where it is: waiting, sent (it has a number), or leaving: over, as soon as neither the
 * fabric nor a window has its buffer. One that was given up is sent without an op. */
struct op_send {
    struct list node;
    struct op_channel *channel;
    struct op *op;
    enum { SEND_WAITING, SEND_SENT, SEND_LEAVING } where;
    uint64_t seq;
    struct channel_post post;
    int cancel;        /* the status with which it is to end, unless it is delivered */
    bool asked;        /* it was cancelled, so its end has a bound */
    bool withdraw;     /* to be said */
    bool given_up;     /* ends without an answer */
    int status;        /* leaving: how it ended */
    uint8_t outcome;   /* likewise */
    uint64_t at;       /* weak.c: how much of it was sent */
    bool large;        /* it was offered */
    bool wants_window; /* rendezvous.c */
    bool key_due;      /* the key is to be told again */
    uint64_t lost_via; /* the other end has no such link any more */
    struct op_window window;
    struct fabric_blob key;
};

/* A message that has its receive and is not over. */
struct op_arrival {
    struct list node;
    struct op_channel *channel;
    struct op *op; /* the RECV; NULL: gone, the receive waits for another */
    uint64_t seq, length;
    uint32_t imm;
    uint16_t flags;
    bool done;      /* its bytes are there, or it is too small, or gone */
    bool small;     /* the receive is */
    bool withdrawn; /* by the sender */
    int cancel;     /* of the RECV */
    bool landing;   /* landing.c: its payload is on its way to landing_at */
    struct fabric_landing landing_at;
    /* rendezvous.c */
    bool leased, ended; /* the lease is set up; the READ is over */
    struct op *reading;
    int read_status;
    struct op_lease lease;
};

struct channel_mail; /* carry.c */

struct op_channel {
    struct worker *worker;
    struct op_session *session; /* NULL: forgotten */
    uint64_t handle;            /* in session->channels */
    struct list hash_node, run_node, lane_node;
    bool remote;
    struct op_lane *lane; /* remote; NULL: dropped */
    struct seat *seat;    /* remote: of its lane, and of the connections of peer_in */
    uint64_t number, peer_number, peer_in;
    struct worker *peer_worker; /* not remote */
    uint32_t kind;
    struct plane_channel_stats *stats;    /* the control thread's, until the end is done */
    struct plane_channel_stats unwatched; /* and from then on */
    uint32_t ops;                         /* SENDs and RECVs not ended */

    bool open;
    bool fresh;               /* the lane is another: to begin with SYNC */
    bool synced;              /* the other end answered to that */
    bool tell;                /* the state is to be told */
    uint32_t acks, ack_turns; /* messages that are over and not told of; how long these waited */
    uint32_t ack_skips;       /* how many of the next are not to wait */
    uint64_t ack_ns;          /* the first of them */
    uint32_t epoch, peer_epoch;
    uint64_t via; /* the number of the other end's link here */

    /* What we send. */
    struct list waiting, sent, leaving; /* of struct op_send */
    uint32_t waits;                     /* length of waiting */
    uint64_t next_seq;
    uint64_t acked, peer_expect, limit; /* by the other end's state */
    uint32_t refusals_seen;
    bool news; /* a key or a withdrawal of one of sent is to be told */

    /* What we receive. */
    struct list recvs;         /* of struct op: posted, and no message has come for them */
    struct list arrivals;      /* of struct op_arrival, by number */
    uint32_t posted;           /* length of recvs */
    bool refusing;             /* drops all but number expect */
    bool stale;                /* in recvs or arrivals there is something to tidy up */
    uint64_t rollback;         /* from this number on arrivals are to be refused; NEVER: none */
    struct channel_state mine; /* next, expect, limit, small, gone, refusals */
    uint64_t told;             /* the limit that the other end knows of, when it is there */
    uint64_t heard;            /* how much of mine it has heard of */

    struct op *assembling; /* weak.c: the first of recvs has some pieces of a message */
    uint64_t assembling_seq, assembling_length, assembled;
    uint64_t came; /* weak.c: bit n: message mine.next - 1 - n did */

    struct channel_post posts[CHANNEL_POSTS];
    unsigned posted_sends; /* fabric ops that point here */

    /* Its end. */
    int reason;      /* of plane_channel_end; 0: alive */
    bool linger;     /* sends go on until they are over */
    int over;        /* why there is no other end any more; 0: there is */
    bool over_first; /* there was no reason then */
    bool closed;     /* it said so itself, and what it took it has acknowledged */
    bool fin_tried, fin_told;
    struct channel_mail *fin; /* kept for it */
    struct mail closed_mail, free_mail;
    struct error closed_why;

    /* Control thread only. */
    void *cookie;
    const struct plane_session *owner;
    bool forgotten;
};

/* What a worker knows of channels. */
struct channels {
    struct list bucket[CHANNEL_BUCKETS]; /* by number */
    struct list run;                     /* with something to do */
    struct slab sends, arrivals;
    struct fabric_audit audit; /* of windows that nobody asks about */
    unsigned acks_wait;        /* channels whose acknowledgement waits for an answer */
    bool hurry;                /* they wait no longer */
};
int channels_init(struct worker *w);
void channels_fini(struct worker *w);

/* channel.c */
struct op_channel *channel_find(const struct worker *w, uint64_t number);
void channel_touch(struct op_channel *ch);      /* it has something to do */
bool channel_may_end(struct op_channel *ch);    /* ends_may; if not it is touched */
void channel_posts_gone(struct op_channel *ch); /* forgotten: the fabric gave something back */
/* There is no other end any more, and why: its daemon lies (told to the control thread), or it
 * closed, or the peer is lost. The ops end in its next turn. */
void channel_over(struct op_channel *ch, int code, const char *why);
/* What the ops of a channel that ends are told, all the same: whichever of the two came first. */
static inline int channel_end_code(const struct op_channel *ch) {
    return ch->over && (ch->over_first || ch->linger) ? ch->over : ch->reason;
}
/* This end ends, and what was not sent is not sent any more. */
static inline bool channel_stopped(const struct op_channel *ch) {
    return ch->reason && !ch->linger;
}
void channel_fin(struct op_channel *ch, const struct channel_message *m); /* the other end's */
void channel_deliver(struct op_channel *ch, const struct channel_message *m);
void channel_op_end(struct op_channel *ch, struct op *op, const struct op_result *result);
static inline bool channel_lane_up(const struct op_channel *ch) {
    return ch->lane && ch->lane->up;
}
/* A key that came with m is for the link that the lane has. While SYNC is still to be said on that,
 * none can be. */
static inline bool channel_key_good(const struct op_channel *ch, const struct channel_message *m) {
    return !ch->fresh && m->state.echo == ch->epoch;
}

/* sends.c */
int send_take(struct op_channel *ch, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq);
void send_cancel(struct op_channel *ch, struct op *op, int status);
const char *sends_state(struct op_channel *ch, const struct channel_state *st);
void send_posted(struct op_send *s, const struct fabric_op *fop); /* the fabric gave it back */
void send_over(struct op_send *s, int status, uint8_t outcome);
void send_settle(struct op_send *s); /* its window or post is gone */
/* Sends what can be; *again is set when there is more for which there was no room. Returns how
 * many. */
unsigned sends_run(struct op_channel *ch, bool *again);
void sends_end(struct op_channel *ch);    /* all of them, as the channel ends */
void sends_rekey(struct op_channel *ch);  /* the other end began anew: via may be another */
void sends_resync(struct op_channel *ch); /* a post was lost, though its link was not */

void send_describe(const struct op_send *s, struct channel_message *m);
struct op_send *send_first(struct op_channel *ch); /* that is to be sent next; or NULL */
void send_left(struct op_send *s); /* the fabric has all of it: from waiting to sent */

/* weak.c: kinds without acknowledgements. */
static inline bool channel_weak(const struct op_channel *ch) {
    return ch->kind != RDMAD_CHANNEL_RELIABLE;
}
uint64_t weak_most(const struct fabric_link *link, uint32_t kind); /* bytes of one SEND */
unsigned weak_run(struct op_channel *ch, bool *again);
void weak_over(struct op_send *s, int status);
void weak_posted(struct op_send *s, const struct fabric_op *fop);
void weak_cancel(struct op_send *s);
void weak_end(struct op_channel *ch, int code);
void weak_receive(struct op_channel *ch, const struct channel_message *m);
const char *weak_deliver(struct op_channel *ch, const struct channel_message *m);
void weak_torn(struct op_channel *ch); /* the message that is put together is lost */
void weak_fin(const struct op_channel *ch, struct channel_message *m);

/* receives.c */
int recv_take(struct op_channel *ch, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq);
void recv_cancel(struct op_channel *ch, struct op *op, int status);
struct op *recv_first(struct op_channel *ch);           /* that takes the next message; or NULL */
void recv_unpost(struct op_channel *ch, struct op *op); /* takes it out of those posted */
/* It has its message, as described by length, small, imm and flags. */
void recv_done(struct op_channel *ch, struct op *op, const struct op_arrival *as);
const char *receive_message(struct op_channel *ch, const struct channel_message *m);
void receive_key(struct op_channel *ch, const struct channel_message *m);
void receive_withdraw(struct op_channel *ch, const struct channel_message *m);
void receives_heard(struct op_channel *ch, uint64_t next);
void receives_run(struct op_channel *ch); /* what is whole completes; limit is brought up to date */
void receives_end(struct op_channel *ch, int status);

/* rendezvous.c. The sender's side: */
/* The window of a message is there, or is not. */
void send_window_opened(struct op_send *s, const struct fabric_blob *key, const struct error *err);
void send_window_closed(struct op_send *s);
/* Towards what s->wants_window says. False: none can be had, s waited for it, and is no more. */
bool window_drive(struct op_send *s);
bool window_ready(const struct op_send *s);
static inline bool window_none(const struct op_send *s) {
    return s->window.state == WINDOW_NONE;
}
/* The receiver's: false when there is no memory for it. */
bool reading_start(struct op_arrival *a, const struct channel_message *m);
void reading_key(struct op_arrival *a, const struct fabric_blob *key);
void reading_stop(struct op_arrival *a);
void reading_close(struct op_arrival *a); /* when it is over */

/* landing.c */
struct fabric_landing *landing_start(struct op_arrival *a);
/* If there is one: nothing more is written there, and why. */
void landing_stop(struct op_arrival *a, int status);
void landings_void(struct op_channel *ch); /* what still lands came by a link that is no more */

/* carry.c. What is to be told rides on each message. 0, AGAIN (later), or why it never will. */
void channel_say(const struct op_channel *ch, struct channel_message *m, uint8_t say);
int channel_carry(struct op_channel *ch, struct channel_message *m, struct op_send *s);
uint64_t channel_small_max(const struct op_channel *ch); /* longer ones are offered */
struct channel_mail *channel_mail_new(void);

#endif
