/* SPDX-License-Identifier: MIT */
/*
 * call.h - one call of plane/plane.h on its way: to the worker, and back with the answer.
 *
 * The control thread makes a call (call_prepare), says what it is about and posts it. The worker
 * runs its apply, which answers at once (call_finish) or when certain ops have ended (call_wait).
 * The answer travels back as the same mail, runs done on the control thread and frees the call.
 * Calls that undo something must not fail, so a plane keeps a reserve of calls for when malloc
 * does.
 *
 * What a call is about depends on its kind: call_ring(c) and so on, each of which is for calls of
 * that kind only.
 */
#ifndef RDMAD_OP_CALL_H
#define RDMAD_OP_CALL_H

#include "daemon/op/seam/objects.h"
#include <assert.h>

enum call_kind {
    /* Of a session: */
    CALL_SESSION,
    CALL_RING,
    CALL_POOL,
    CALL_LEASE_ADD,
    CALL_LEASE_EXTEND,
    CALL_LEASE_KEY,
    CALL_LEASE_END, /* or to forget it */
    CALL_GRANT,
    CALL_CHANNEL_ADD,
    CALL_CHANNEL_OPEN,
    CALL_CHANNEL_REST,
    CALL_CHANNEL_WAY,
    CALL_CHANNEL_END, /* or to forget it; the last of a session's */
    CALL_USER,        /* nobody's session's: of a user, or what a peer may use */
    /* Of a peer: */
    CALL_LANE,
    CALL_PEER,        /* its connections */
    CALL_WINDOW_OPEN, /* for the first time, or anew */
    CALL_WINDOW_EXTEND,
    CALL_WINDOW_CLOSE,
};

struct call_session {
    struct op_user *user; /* to be used or freed */
    struct plane_share share;
    bool pause; /* or resume */
};

struct call_user {
    struct user_id user;
    uint64_t peer;
    struct plane_share share;
};

struct call_ring {
    uint64_t handle;
    struct op_ring *ring; /* to be added; or found, and being dropped */
};

struct call_pool {
    uint64_t handle;
    struct op_pool *pool; /* likewise */
};

struct call_lease_add {
    uint64_t handle;
    struct op_lease *lease;
    struct op_share *share;           /* to be used or freed */
    struct plane_lane *lane;          /* route link */
    struct fabric_window_spec window; /* route local */
};

struct call_lease_extend {
    uint64_t handle, deadline_ns;
    uint64_t notify_ref; /* of a lease whose owner's daemon has come back */
};

struct call_lease_key {
    uint64_t handle;
    struct fabric_blob key;
};

struct call_lease_end {
    uint64_t handle;
    int reason;
    struct op_lease *lease; /* found */
};

struct call_grant {
    uint64_t lease_id;
    int reason;             /* of its end */
    struct op_grant *grant; /* to be added; or found, and being dropped */
};

struct call_channel_add {
    uint64_t handle;
    struct op_channel *channel;
    struct plane_lane *lane; /* NULL: within this daemon */
    plane_done *done;        /* as channel_added passes it on */
    void *arg;
};

struct call_channel_open {
    uint64_t handle, peer_number;
    struct worker *peer_worker; /* NULL: the other end is a peer's */
};

struct call_channel_end {
    uint64_t handle;
    int reason;
    bool linger;
    struct op_channel *channel; /* found */
};

struct call_channel_rest {
    uint64_t handle;
    struct op_channel *channel; /* found */
};

struct call_channel_way {
    uint64_t handle, number;
    struct plane_lane *lane;
    uint64_t peer_in;
};

struct call_lane {
    struct plane_lane *lane;
    struct fabric_blob offer; /* to be opened with */
};

struct call_peer {
    struct op_fabric *fabric;
    uint64_t peer;
    uint64_t number;          /* of the link to be forgotten */
    bool secured;             /* is its control connection */
    struct fabric_blob hello; /* to be answered with an offer */
};

struct call_window_open {
    struct plane_window *window;
    struct op_notifier *notifier; /* its lessee's; NULL: it has none, or has it already */
    uint64_t via;                 /* the number of a link of the peer's */
};

struct call_window_extend {
    struct plane_window *window;
    uint64_t deadline_ns;
};

struct call_window_close {
    struct plane_window *window;
    int reason;
};

struct call {
    struct mail mail;
    struct list node;  /* in worker->waiting */
    struct list group; /* calls that are answered together, by the last of them */
    struct plane *plane;
    struct worker *worker;
    struct plane_session *session;   /* whose thing it is about; NULL: a peer's */
    void (*apply)(struct call *c);   /* on the worker */
    bool (*settled)(struct call *c); /* while waiting: true once it is done */
    plane_done *done;
    plane_blob_done *blob_done;
    void *arg;

    enum call_kind kind;
    union {
        struct call_session session;
        struct call_user user;
        struct call_ring ring;
        struct call_pool pool;
        struct call_lease_add lease_add;
        struct call_lease_extend lease_extend;
        struct call_lease_key lease_key;
        struct call_lease_end lease_end;
        struct call_grant grant;
        struct call_channel_add channel_add;
        struct call_channel_open channel_open;
        struct call_channel_end channel_end;
        struct call_channel_rest channel_rest;
        struct call_channel_way channel_way;
        struct call_lane lane;
        struct call_peer peer;
        struct call_window_open window_open;
        struct call_window_extend window_extend;
        struct call_window_close window_close;
    } about; /* as kind says */

    /* The answer. */
    struct error result;
    struct fabric_blob blob;
    void *garbage;           /* freed after done: mails in it may have been under way until then */
    struct op_account *left; /* by the session that is gone */
    uint64_t left_ns;
};

#define CALL_ABOUT(noun, its_kind)                                  \
    static inline struct call_##noun *call_##noun(struct call *c) { \
        assert(c->kind == (its_kind));                              \
        return &c->about.noun;                                      \
    }
CALL_ABOUT(session, CALL_SESSION)
CALL_ABOUT(user, CALL_USER)
CALL_ABOUT(ring, CALL_RING)
CALL_ABOUT(pool, CALL_POOL)
CALL_ABOUT(lease_add, CALL_LEASE_ADD)
CALL_ABOUT(lease_extend, CALL_LEASE_EXTEND)
CALL_ABOUT(lease_key, CALL_LEASE_KEY)
CALL_ABOUT(lease_end, CALL_LEASE_END)
CALL_ABOUT(grant, CALL_GRANT)
CALL_ABOUT(channel_add, CALL_CHANNEL_ADD)
CALL_ABOUT(channel_open, CALL_CHANNEL_OPEN)
CALL_ABOUT(channel_end, CALL_CHANNEL_END)
CALL_ABOUT(channel_rest, CALL_CHANNEL_REST)
CALL_ABOUT(channel_way, CALL_CHANNEL_WAY)
CALL_ABOUT(lane, CALL_LANE)
CALL_ABOUT(peer, CALL_PEER)
CALL_ABOUT(window_open, CALL_WINDOW_OPEN)
CALL_ABOUT(window_extend, CALL_WINDOW_EXTEND)
CALL_ABOUT(window_close, CALL_WINDOW_CLOSE)
#undef CALL_ABOUT

/* ---- control thread ---------------------------------------------------------------------- */

bool calls_reserve(struct plane *p); /* false: out of memory */
void calls_reserve_free(struct plane *p);

struct call *call_prepare(struct plane *p, struct worker *w, enum call_kind kind,
                          void (*apply)(struct call *), plane_done *done, void *arg);
/* The same, of a session's, to its worker. */
struct call *call_prepare_of(struct plane_session *s, enum call_kind kind,
                             void (*apply)(struct call *), plane_done *done, void *arg);
void call_post(struct call *c);
/* Answers without asking the worker. */
void call_refuse(struct call *c, int code, const char *why);

/* ---- worker ------------------------------------------------------------------------------ */

void call_finish(struct call *c);                          /* with success, or with c->result */
void call_fail(struct call *c, int code, const char *why); /* or not */
/* Finishes when settled says so: at once, or at the end of a turn. The call has a session. */
void call_wait(struct call *c, bool (*settled)(struct call *c));
void calls_settle(struct worker *w); /* finishes those that wait for what is over, oldest first */

#endif
