/* SPDX-License-Identifier: MIT */
/*
 * account.h - how many ops there may be, of a session, of a user and of all.
 *
 * Two kinds are counted apart. *Waits*, RECV and NOTIFIED, end when somebody else does something,
 * perhaps never: one beyond a limit is refused, and the client is told whose limit it is. All
 * others end by themselves: beyond a limit they stay in their ring until one of their session's has
 * ended. The first OPS_AT_ONCE of a session are not counted against the limits of its user and of
 * all, so there always is one whose end can be waited for.
 *
 * A user's sessions may be on several workers. So the counts of a user and of all are atomic, and a
 * session takes from both several at a time. What it took and does not use counts as used; it never
 * keeps as much as twice what it takes at a time.
 *
 * The last part of what all may have is for other users, as in state/quota.h (settings.keeps_last).
 *
 * The tables by which CANCEL finds ops by their names (tags.h) are charged to the same accounts, in
 * bytes: as many as the tables of all ops that are allowed take at most. Beyond that a table does
 * not grow, and a CANCEL costs more, because it has more to look at.
 *
 * The control thread makes and drops accounts as sessions begin and end; a worker uses those of its
 * sessions.
 */
#ifndef RDMAD_OP_ACCOUNT_H
#define RDMAD_OP_ACCOUNT_H

#include "daemon/base/list.h"
#include "daemon/plane/plane.h"
#include <stdbool.h>
#include <stdint.h>

#define WAITS_AT_ONCE 16u
#define OPS_AT_ONCE 64u
#define NAME_BYTES 64u /* of an op in the tables of names: two buckets, and two of its batch */

struct worker;
struct op_session;

struct op_account {        /* of a user, or of all */
    struct list node;      /* of a user: among all that there are */
    struct list idle_node; /* of a user without sessions: in the list that account_leave has */
    struct user_id who;
    unsigned sessions;
    uint64_t waits, ops; /* atomic */
    uint64_t name_bytes; /* atomic */
    uint32_t notices;    /* atomic: on leases of its sessions, that nobody took */
    /* Of a user, atomic: limits of its own; 0: those of the settings. */
    uint64_t max_waits, max_ops, max_session_waits;
    struct plane_share share; /* of a user; the control thread's */
    /* Of a user, atomic: what it cost all workers (engine/elsewhere.h). */
    uint64_t cost;
    /* Of its rates (base/rate.h), and what came of them; atomic. */
    uint64_t bytes_due_ns, ops_due_ns, throttled, throttled_ns;
    uint64_t told_ns[PLANE_RATES]; /* when the control thread was told that each held it back */
};

/* Control thread. A session of the user begins: returns the user's account, which is one of users
 * or is added to them. NULL: out of memory. */
struct op_account *account_join(struct list *users, struct user_id who);
/* A session ended at that time; a may be NULL. An account without sessions is kept in idle as
 * long as it owes its rates something: who comes again at once owes it still. Each call looks at
 * some of those, and frees the ones that owe nothing. */
void account_leave(struct list *idle, struct op_account *a, uint64_t now_ns);
/* NULL: there is none. */
struct op_account *account_find(const struct list *users, struct user_id who);

/* Worker. Whether the session may start one more: 0, or RDMAD_E_LIMIT and whose limit it is. */
int waits_room(const struct worker *w, struct op_session *s, uint64_t *whose);
void waits_ended(struct op_session *s); /* one of them */
/* The session has s->ops_may ops, all that it took. Takes some more; false: there are none. */
bool ops_more(const struct worker *w, struct op_session *s);
void ops_fewer(struct op_session *s); /* gives some back: it took many more than it has */
bool names_charge(void *session, int64_t bytes); /* a tags_charge, of an op_session */
/* The session has no ops and no waits any more: gives back all that it took. */
void account_return(struct op_session *s);

#endif
