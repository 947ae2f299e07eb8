/* SPDX-License-Identifier: MIT */
/*
 * ask.h - questions to a peer that we have dialled: a number, a time-out, and an answer.
 *
 * An ask gets a number in the peer's table, its message goes out when the peer is UP, and who gets
 * the answer, which names the number, ends it (ask_leave). An answer to a number that is gone is
 * nobody's. When the session that asks closes, the ask is given up, whatever its time-out. When the
 * connection is lost every ask fails. Half of the table is the most that one uid can take.
 */
#ifndef RDMAD_PEER_CONTROL_ASK_H
#define RDMAD_PEER_CONTROL_ASK_H

#include "daemon/peer/control/record.h"
#include "daemon/state/session.h"

struct peer_ask;

struct ask_ops { /* a kind of question */
    /* It comes to nothing: a has left the peer and is the callee's to free. */
    void (*failed)(struct peer_ask *a, const struct error *why);
    /* Its time is up, and the peer should not go on with it; NULL: nothing to be told. */
    void (*withdraw)(struct peer_ask *a);
    bool ends_itself; /* not with its session's calls: who asked ends it */
};

struct peer_ask { /* the first member of a question of some kind */
    const struct ask_ops *ops;
    struct peer *peer; /* NULL: it has left */
    uint64_t ref;      /* in peer->asks */
    uid_t uid;
    struct session_call call;
    bool sent;
    struct peer_msg question;
    struct timer timeout;
    uint64_t timeout_ns;
};

/* One of bytes, of which the ask is the first member, on its way to p. timeout_ns 0: as an attach.
 * NULL: err tells. */
struct peer_ask *ask_new(size_t bytes, const struct ask_ops *ops, struct peer *p, struct session *s,
                         uint64_t timeout_ns, struct error *err);
/* Its question is complete: it goes out now, or when the peer is UP. */
void ask_begin(struct peer_ask *a);
/* The ask of that number and kind; NULL: nobody's. */
struct peer_ask *ask_find(struct peer *p, uint64_t ref, const struct ask_ops *ops);
/* It is answered so far that it cannot be late any more. */
void ask_stop_timeout(struct peer_ask *a);
/* Takes it out of the peer, which may be freed. */
void ask_leave(struct peer_ask *a);
void ask_fail(struct peer_ask *a, const struct error *why);

void asks_begin(struct peer *p);                         /* the peer is UP */
void asks_lose(struct peer *p, const struct error *why); /* its connection is gone */

#endif
