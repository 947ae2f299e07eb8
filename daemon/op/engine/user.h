/* SPDX-License-Identifier: MIT */
/*
 * user.h - a user at a worker: what its sessions have used of the worker's time, and whether they
 * may use more now.
 *
 * The measure. Everything that a user makes the worker do has a cost in bytes, as long as copying
 * so many takes: an sqe USER_OP_COST (a CANCEL that looks at many ops as many times that, a call of
 * the control thread, an attach to another daemon or a doorbell some of them), and the bytes that
 * this CPU moves.
 *
 * Virtual time. A user's vtime grows by its costs, divided by its weight. The worker's floor is the
 * least vtime of those who had to wait in the last turn, and in a turn a user may go on until its
 * vtime is a piece ahead of the floor. That piece is as long for everybody, and so large that all
 * who were busy together cost USER_TURN_COST. So those who want more than there is get parts by
 * their weights, whatever they do with it; what somebody took too much, because its last piece was
 * large, comes off its next turns. Who wants less than its part holds up nobody and saves nothing
 * up: who is behind the floor is brought up to it. If nobody had to wait, nobody owes anything: the
 * floor is where the foremost is.
 *
 * What was spent besides ops of routes and their bytes (user_spend_beside) counts on links, too,
 * where this CPU moves the bytes (flow_pay).
 *
 * Other workers count, too (engine/elsewhere.h): whom they serve as well pays more here.
 *
 * Rates. What a user uses is told to two rates (base/rate.h), which its sessions on all workers
 * share. A user that is beyond one is put aside: its rings are not looked at and its ops on routes
 * are passed over, until a moment at which the worker wakes. The worker waits for nothing.
 *
 * Everything here but the account belongs to the worker's thread.
 */
#ifndef RDMAD_OP_ENGINE_USER_H
#define RDMAD_OP_ENGINE_USER_H

#include "daemon/base/rate.h"
#include "daemon/base/send_cost.h"
#include "daemon/op/engine/account.h"
#include "daemon/op/engine/elsewhere.h"
#include "daemon/op/engine/worker.h"

#define USER_OP_COST 2048u
#define USER_CALL_COST (80 * USER_OP_COST)    /* of the control thread: mostly its wake-up */
#define USER_ATTACH_COST (192 * USER_OP_COST) /* more: another daemon, which is asked, pays too */
#define USER_DOORBELL_COST (4 * USER_OP_COST) /* one that epoll told of */
#define USER_OWED_MOST (512 * USER_OP_COST)   /* that a user pays for at once on a route */
#define USER_TURN_COST (256 * USER_OP_COST)   /* of all users together, in a turn */

struct op_user {
    struct worker *worker;
    struct op_account *account; /* of the same user, at all workers */
    struct list node;           /* in worker->users */
    struct list hot_node;       /* in worker->hot, or in worker->aside */
    struct list hot;            /* of struct op_session: those with hot or quiet rings */
    struct list still;          /* of struct op_session: those with still ones */
    uint64_t still_turn;        /* when these were last looked at; admit.c */
    struct list flows;          /* of struct op_flow, one a route */
    struct list held;           /* of struct op_channel: with bytes to send that its rate held up */
    struct list released_node;  /* in worker->released */
    bool routes_first;          /* of what it may have then; each other time: */
    bool routes_turn;
    unsigned sessions;
    unsigned prompt;     /* of its rings; prompt.h */
    uint64_t part;       /* of each of its sessions, in sqes, */
    uint64_t part_turn;  /* in this turn; admit.c */
    unsigned busy;       /* sessions of which something was taken in the last turn */
    unsigned polled;     /* sessions whose rings were looked at in the last turn */
    uint64_t share;      /* its weight with its priority */
    uint64_t weight;     /* what of that is left for this worker */
    uint64_t price;      /* of a byte, in vtime; fixed point */
    uint64_t whole_turn; /* if nobody else is busy */
    uint64_t vtime;
    uint64_t beside; /* of what vtime has grown by: calls, and sqes that were for no route */
    struct elsewhere elsewhere;
    struct list seen_node; /* in worker->seen */
    uint64_t seen;         /* the last turn in which it was busy */
    uint64_t waited;       /* and in which it had more to do than it might */
    bool limited;          /* has a rate */
    bool aside;
    uint32_t ops_at_once; /* how much it may take before its rates are looked at again */
    uint64_t bytes_at_once;
    struct rate bytes, ops;
    uint64_t aside_since_ns, aside_until_ns, bytes_until_ns;
    struct send_rest wakeups; /* of its rings */
};

/* The session's user at its worker: the one that is there (spare is freed then), else spare, with
 * this share. */
struct op_user *user_join(struct worker *w, struct op_account *account, struct op_user *spare,
                          const struct plane_share *share);
void user_leave(struct op_user *u); /* a session has gone */
void user_set(struct op_user *u, const struct plane_share *share);
struct op_user *user_find(struct worker *w, struct user_id who);

void users_begin(struct worker *w); /* a turn begins */
uint64_t users_next_ns(const struct worker *w);
void user_is_busy(struct op_user *u); /* it is not marked in this turn yet */
/* Puts it aside if one of its rates says so; or that of bytes. */
bool user_hold_back(struct op_user *u);
bool user_hold_bytes(struct op_user *u);

/* On a link whose bytes this CPU moves, what it did for the user besides counts as bytes do: since
 * the last time, and at most USER_OWED_MOST, so that nobody's bytes starve. (Most of what is done
 * while the user has nothing to post, or while the link takes nothing, keeps nobody from anything.)
 * Where a device moves them nothing is lost by it; on the local route the user's turn has it. */
void flow_pay(struct op_flow *flow);

/* The same of one that has had nothing to post: it saves nothing up. */
void flow_lift(struct op_flow *flow);

static inline bool vtime_before(uint64_t a, uint64_t b) {
    return (int64_t)(a - b) < 0;
}

static inline uint64_t user_vtime_of(const struct op_user *u, uint64_t cost) {
    return (cost >> 16) * u->price + ((cost & 0xffff) * u->price >> 16);
}

/* It has rings to look at. */
static inline bool user_is_polled(const struct op_user *u) {
    return !list_empty(&u->hot) || !list_empty(&u->still);
}

/* It has something to do in this turn, whether it may do it or not. */
static inline void user_wants(struct op_user *u) {
    if (u->seen != u->worker->turns)
        user_is_busy(u);
}

/* It has something to do that must wait for a later turn. */
static inline void user_waits(struct op_user *u) {
    user_wants(u);
    u->waited = u->worker->turns;
    u->worker->gated = true;
}

/* Whether it may go on in this turn, as far as the others are concerned. */
static inline bool user_has_turn(const struct op_user *u) {
    return vtime_before(u->vtime, u->worker->limit);
}

static inline bool user_is_aside(struct op_user *u) {
    return u->limited && user_hold_back(u);
}

/* Whether its bytes have to wait. What they are of was taken: that is paid for, and its rate of ops
 * must not keep it. */
static inline bool user_owes_bytes(struct op_user *u) {
    return u->limited && user_hold_bytes(u);
}

static inline void user_spend(struct op_user *u, uint64_t cost) {
    user_wants(u);
    u->vtime += user_vtime_of(u, cost);
    elsewhere_spend(&u->elsewhere, cost);
}

/* Of what was spent, so much was for no op of a route: for a call, a doorbell, a CANCEL, a NOP. */
static inline void user_spent_beside(struct op_user *u, uint64_t cost) {
    u->beside += user_vtime_of(u, cost);
}
static inline void user_spend_beside(struct op_user *u, uint64_t cost) {
    user_spend(u, cost);
    user_spent_beside(u, cost);
}

/* It has used so much; bytes: that this CPU moves for it, or another's does. */
static inline void user_use_ops(struct op_user *u, uint64_t ops) {
    user_spend(u, ops * USER_OP_COST);
    if (u->limited)
        rate_use(&u->ops, ops, u->worker->now_ns);
}
static inline void user_use_bytes(struct op_user *u, uint64_t bytes, bool copied) {
    if (copied)
        user_spend(u, bytes);
    if (u->limited)
        rate_use(&u->bytes, bytes, u->worker->now_ns);
}

#endif
