/* SPDX-License-Identifier: MIT */
/*
 * worker.h - one thread of the data plane: all that it has. What it does is in turn/turn.h.
 */
#ifndef RDMAD_OP_ENGINE_WORKER_H
#define RDMAD_OP_ENGINE_WORKER_H

#include "daemon/base/clock.h"
#include "daemon/op/engine/op.h"
#include "daemon/op/engine/op_fabric.h"
#include "daemon/op/tool/ids.h"
#include "daemon/op/tool/slab.h"
#include "daemon/op/tool/spin.h"

/* Ops that ended in this turn, and are alike; tally.c. */
struct latency_note {
    uint64_t since_ns;
    struct op_session *session;
    struct op_lane *lane; /* NULL: by none, or by a channel's */
    uint32_t count;
    uint8_t opcode;
    uint8_t route; /* enum plane_route */
};

#define LATENCY_NOTES 64u

struct latency {
    unsigned count; /* of notes */
    struct latency_note notes[LATENCY_NOTES];
    struct histogram spans[RDMAD_OP_COUNT][PLANE_ROUTES]; /* relaxed, as counters */
    uint64_t failed[PLANE_CODES];
};

struct worker {
    unsigned index;
    struct mailbox mailbox;
    struct mailbox *control; /* answers and events go there */
    const struct plane_settings *settings;
    const struct plane_events *events;
    uint64_t now_ns;    /* of this turn, or later in it */
    uint64_t now_ticks; /* from before that was read; 0: time is scripted */
    uint64_t turns;
    uint64_t secret;                    /* of tags */
    const struct op_kind *const *kinds; /* by opcode; kind.h */

    struct op_fabric local;
    struct op_fabric links[PLANE_FABRICS_MAX]; /* by the plane's number of the fabric */
    unsigned nlinks;
    struct op_route local_route;

    struct list sessions;
    struct ranges pools; /* of all of them: whose is an address? */
    /* Whose turn it is; user.c. */
    struct list users;     /* of struct op_user */
    struct list seen;      /* of struct op_user: those who were busy in the last turn or this */
    struct list aside;     /* of struct op_user: beyond a rate, until */
    uint64_t aside_ns;     /* the first of them may go on */
    struct list released;  /* of struct op_user: who may, and has channels in held */
    uint64_t floor, limit; /* of vtime, in this turn */
    const struct op_user *alone; /* nobody else was busy in the last turn; may be NULL */
    uint64_t look_at_users;      /* the turn in which those who are idle are looked at */
    bool gated;                  /* somebody has to wait for the next turn */
    uint64_t spent;              /* on sqes, in this turn */
    uint64_t routed;             /* sqes that became ops of a route, ever */
    uint64_t looks;              /* at quiet rings of the user that is served */
    uint64_t quiet_ns;           /* a ring that has done nothing for so long is parked; 0: never */
    struct per_turn ends;        /* ops that were ended; ends.c */
    struct per_turn releases;    /* and that a fence let go; fence_release.c */
    bool ends_left;              /* some were left to the next turn */
    struct list hot;             /* of struct op_user: those with rings that are polled */
    struct list parked;          /* rings whose client rings the doorbell */
    struct list deaf;            /* rings whose doorbell is not listened to, and */
    uint64_t deaf_look_ns;       /* when they are looked at next */
    struct list sooner;          /* of struct op_lease, whose deadline came nearer; sooner.c */
    struct list dirty;           /* rings to flush */
    struct list owed;            /* rings to whose clients a wakeup is owed, and */
    uint64_t owed_ns;            /* when it is tried again, of some of them */
    struct list prompt;          /* rings that are looked at between slices of long ops; prompt.h */
    unsigned nprompt;
    struct list runnable; /* routes with parts to post */
    struct list violated; /* sessions to shut out at the end of the turn */
    struct list waiting;  /* calls that wait for ops to end */
    struct deadlines deadlines;
    struct list fences;        /* rings of which something behind a fence may start */
    struct list notices_due;   /* of struct op_grant: those that may give notices */
    struct list untaken;       /* sessions whose number of notices is to be told */
    struct channels *channels; /* channel/channel.h */
    struct slab ops, parts, batches;
    struct ids grants;    /* by their leases' numbers */
    struct ids notifiers; /* of peers' attaches, by their references */

    /* A fault in memory of another worker's session. One is told at a time: whatever else is gone
     * faults again at the next access. */
    struct mail fault_mail;
    const void *fault_address;
    bool fault_told; /* atomic: the mail is under way */
    /* A user was put aside. One is told at a time, likewise: others will be again. */
    struct mail throttled_mail;
    struct user_id throttled_user;
    enum plane_rate throttled_by;
    bool throttled_told; /* atomic: the mail is under way */

    /* A peer is held by its rate: the same. */
    struct mail held_mail;
    uint64_t held_peer;
    enum plane_rate held_by;
    bool held_told; /* atomic: the mail is under way */

    struct plane_counters counters; /* relaxed atomics, written by this worker only */
    struct latency latency;
    struct op_trace *traces; /* NULL: nobody traces; trace.h */
    bool pong;               /* atomic: the loop turned since plane_worker_turns asked */
    struct mail ping_mail;

    /* turn/loop.c */
    pthread_t thread;
    bool started, stopping;
    struct mail stop_mail;
    int epoll_fd, timer_fd;
    uint64_t timer_ns;                 /* what timer_fd is set to */
    uint64_t spin_min_ns, spin_max_ns; /* atomic: reload changes them */
    struct spin spin;
    uint64_t look_ns, look_every_ns; /* a busy loop's next look at epoll */
};

bool worker_can_start(struct worker *w); /* memory for one more op is at hand */

/* The session broke a rule: it is shut out at the end of the turn and reported once. */
void worker_violated(struct worker *w, struct op_session *s, int code, const char *why);

/* When its sqe was taken. */
static inline uint64_t request_since(const struct worker *w, const struct op_request *rq) {
    return rq->since_ns ? rq->since_ns : w->now_ns;
}

/* Counters that other threads read: one writer, so a plain add with an atomic store is enough. */
static inline void counter_add(uint64_t *counter, uint64_t n) {
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}
static inline void counter_sub(uint64_t *counter, uint64_t n) {
    __atomic_store_n(counter, *counter - n, __ATOMIC_RELAXED);
}

#endif
