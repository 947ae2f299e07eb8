/* SPDX-License-Identifier: MIT */
/*
 * chan.h - the record of a channel's way to a peer. Of channel.c.
 */
#ifndef RDMAD_PEER_CHAN_H
#define RDMAD_PEER_CHAN_H

#include "daemon/peer/internal.h"
#include "daemon/state/channel.h"

enum chan_stage {
    CHAN_WAITING,  /* who connects: for the peer's hello */
    CHAN_ASKED,    /* who connects: for the service to accept */
    CHAN_OFFERED,  /* who accepts: at the service */
    CHAN_DIALLING, /* who accepts: for the hello of whom we dial back */
    CHAN_ADDING,   /* for our data plane */
    CHAN_BOUND,    /* for our lane and, who accepts, for CHAN_OPEN */
    CHAN_LIVE,
};

struct chan {
    struct state *state;
    struct peer *out, *in; /* our connection to the other daemon, its to us; NULL: none yet */
    struct list out_node, in_node;
    enum chan_stage stage;
    bool acceptor;
    bool bound;               /* both daemons know both numbers, or will in a moment */
    bool opened;              /* who accepts: CHAN_OPEN came */
    bool other_gone;          /* the other daemon knows that it is over */
    struct channel *channel;  /* our end; NULL: not accepted yet */
    struct incoming incoming; /* who accepts: while OFFERED */
    uint64_t other;           /* the other end's number */
    uint32_t there;           /* the other end's worker */
    uint32_t kind;            /* who accepts: what the other end's daemon can make of it */
    uint8_t token[PEER_NODE_ID_BYTES];
    uint16_t port; /* who accepts: what is to be dialled */
    char host[RDMAD_NAME_MAX + 1];
    struct lane *lane;
    struct lane_user user;
    struct timer timer;
    uint64_t timeout_ns;
};

void chan_free(struct chan *c);

#endif
