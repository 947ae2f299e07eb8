/* SPDX-License-Identifier: MIT */
/*
 * chan.h - the way of a channel of ours to its other end, at a peer.
 *
 *   connecting: WAITING --> ASKED -----> ADDING ------------> LINKING --> LIVE
 *   accepting:  OFFERED --> DIALLING --> ADDING --> BOUND --> LINKING --> LIVE
 *
 *   a way that is lost, of a channel that may return: LIVE, or again in any from ADDING --> RESTING
 *
 * In any stage it is freed when the channel's end here lets go of it. OFFERED has no end yet: it is
 * freed when the service refuses it or its peer gives up.
 *
 * Nothing that a peer says is believed without a look at the connection it comes by: a number must
 * be of a channel of that very peer, and a bind needs the token and the same node. A number that
 * finds nothing is made up, or of a channel that has ended meanwhile, and is ignored; only a bind
 * is answered even then, because its sender has a channel to end.
 */
#ifndef RDMAD_PEER_CHANNEL_CHAN_H
#define RDMAD_PEER_CHANNEL_CHAN_H

#include "daemon/peer/control/record.h"
#include "daemon/peer/lane/lane.h"
#include "daemon/state/channel.h"

enum chan_stage {
    CHAN_WAITING,  /* connecting: for the peer's hello */
    CHAN_ASKED,    /* connecting: for the service to accept */
    CHAN_OFFERED,  /* accepting: at the service */
    CHAN_DIALLING, /* accepting: for the hello of whom we dial back */
    CHAN_ADDING,   /* for our data plane */
    CHAN_BOUND,    /* accepting: for CHAN_OPEN; both daemons know both numbers */
    CHAN_LINKING,  /* for our lane; both ends can receive */
    CHAN_LIVE,
    CHAN_RESTING, /* for our data plane to let go; chan_return.h */
};

struct chan {
    struct state *state;
    struct peer *out, *in; /* our connection to the other daemon, and its to us; NULL: none yet */
    struct list out_node, in_node;
    bool counted; /* among in's channels, for its policy */
    enum chan_stage stage;
    bool acceptor;
    bool again;               /* of a channel that was open before; chan_return.h */
    bool other_gone;          /* the other daemon knows that the channel is over */
    struct channel *channel;  /* our end; NULL: not accepted yet */
    struct incoming incoming; /* accepting: while OFFERED */
    uint64_t other;           /* the other end's number */
    uint32_t there;           /* the other end's worker */
    uint32_t kind;            /* accepting: what the other end's daemon can make of it */
    uint8_t token[PEER_NODE_ID_BYTES];
    uint16_t port; /* accepting: what is to be dialled */
    char host[RDMAD_NAME_MAX + 1];
    struct lane *lane;
    struct error why; /* RESTING */
    struct lane_user user;
    struct timer timer;
    uint64_t timeout_ns;
};

struct chan *chan_new(struct state *st, bool acceptor); /* NULL: out of memory */
void chan_free(struct chan *c);
void chan_enter(struct chan *c, enum chan_stage stage); /* as drawn above */
int chan_start_timer(struct chan *c, uint64_t timeout_ns, struct error *err);
/* ch's way is c from now on. */
void chan_give_way(struct chan *c, struct channel *ch);
/* c needs p. node is c's out_node or in_node, list p's chans_out or chans_in. */
void chan_join_peer(struct peer *p, struct list *list, struct list *node);
struct chan *chan_by_number(struct peer *p, uint64_t number); /* NULL: not found */
bool chan_same_node(const struct peer *a, const struct peer *b);

/* Both connections are there: makes its lane and gives its end to the data plane. */
void chan_add(struct chan *c);
/* Makes it LIVE if everything is there that an open channel needs. */
void chan_check_ready(struct chan *c);
/* Our way is lost, of a channel that may return: it rests. False: the channel is to end instead. */
bool chan_leave(struct chan *c, const struct error *why);
/* The channel has failed or is over: its end here tells everybody who has to know. */
void chan_fail(struct chan *c, const struct error *why);

void chan_send_refuse(struct peer *p, uint64_t ref, const struct error *why);
void chan_send_alive(struct peer *p, uint64_t ref, uint64_t silent_ns);
void chan_send_end(struct peer *p, uint64_t ref, int reason, const char *text);

#endif
