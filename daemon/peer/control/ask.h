/* SPDX-License-Identifier: MIT */
/*
 * ask.h - questions to a peer that we have dialled: a number, a time-out, and an answer.
 *
 * An ask gets a number in the peer's table, and its message goes out when the peer is UP. The
 * answer names the number; whoever handles it ends the ask (ask_leave). An answer to a number that
 * is gone is ignored. When the session that asks closes, the ask is given up, whatever its
 * time-out. When the connection is lost every ask fails. Half of the table is the most that one
 * user can take; what the peer has not read is bounded besides, given up or not (unread.h).
 */
#ifndef RDMAD_PEER_CONTROL_ASK_H
#define RDMAD_PEER_CONTROL_ASK_H

#include "daemon/peer/control/record.h"
#include "daemon/state/session.h"

struct peer_ask;

struct ask_ops { /* a kind of question */
    /* The question has failed: a has left the peer's table, and the callee frees it. */
    void (*failed)(struct peer_ask *a, const struct error *why);
    /* Its time is up: tells the peer not to go on with it. NULL: there is nothing to tell. */
    void (*withdraw)(struct peer_ask *a);
    bool ends_itself; /* it does not end with its session's calls; who asked ends it */
    bool of_names;    /* about what is published there: the answer is what a peer may see */
};

struct peer_ask { /* the first member of a question of some kind */
    const struct ask_ops *ops;
    struct peer *peer;       /* NULL: it has left */
    uint64_t ref;            /* in peer->asks */
    struct session *session; /* whose; the ask does not outlive it */
    struct quota_charge charge;
    struct session_call call;
    bool sent;
    struct peer_msg question;
    struct timer timeout;
    uint64_t timeout_ns;
};

/* Makes a question to p, a record of that many bytes whose first member is the ask. timeout_ns 0:
 * as long as an attach may take. NULL: err says why. */
struct peer_ask *ask_new(size_t bytes, const struct ask_ops *ops, struct peer *p, struct session *s,
                         uint64_t timeout_ns, struct error *err);
/* Its question is complete: it goes out now, or when the peer is UP. */
void ask_begin(struct peer_ask *a);
/* The ask of that number and kind; NULL: there is none. */
struct peer_ask *ask_find(struct peer *p, uint64_t ref, const struct ask_ops *ops);
/* Enough of the answer has come: the ask cannot time out any more. */
void ask_stop_timeout(struct peer_ask *a);
/* Takes it out of the peer, which may be freed. */
void ask_leave(struct peer_ask *a);
void ask_fail(struct peer_ask *a, const struct error *why);

void asks_begin(struct peer *p);                         /* the peer is UP */
void asks_lose(struct peer *p, const struct error *why); /* its connection is gone */

#endif
