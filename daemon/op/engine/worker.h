/* SPDX-License-Identifier: MIT */
/*
 * worker.h - one data-plane thread: its state, and one turn of its loop.
 *
 * worker_turn does everything that can be done now and never waits; what happens depends only on
 * its now_ns, mails, rings and fabrics. loop.c runs it on a thread, spins and sleeps. Tests run it
 * by hand on a scripted clock.
 */
#ifndef RDMAD_OP_WORKER_H
#define RDMAD_OP_WORKER_H

#include "daemon/base/clock.h"
#include "daemon/op/engine/op.h"
#include "daemon/op/engine/seat.h"
#include "daemon/op/tool/ids.h"
#include "daemon/op/tool/slab.h"
#include "daemon/op/tool/spin.h"

struct worker {
    unsigned index;
    struct mailbox mailbox;
    struct mailbox *control; /* answers and events go there */
    const struct plane_settings *settings;
    const struct plane_events *events;
    uint64_t now_ns; /* of this turn */
    uint64_t turns;
    uint64_t secret; /* of tags */

    struct seat local;
    struct seat links[PLANE_FABRICS_MAX]; /* by the plane's number of the fabric */
    unsigned nlinks;
    struct op_route local_route;

    struct list sessions;
    uint64_t spent;     /* on sqes, in this turn */
    uint64_t ends_turn; /* the turn in which ends were ended, so far; ends.c */
    uint32_t ends;
    bool ends_left;        /* some were left to the next turn */
    struct list hot;       /* rings that are polled */
    struct list parked;    /* rings whose client knocks */
    struct list deaf;      /* rings whose knocks are not listened to, and */
    uint64_t deaf_look_ns; /* when they are looked at next */
    struct list dirty;     /* rings to flush at the end of the turn */
    struct list runnable;  /* routes with parts to post */
    struct list violated;  /* sessions to shut out at the end of the turn */
    struct list waiting;   /* calls that wait for ops to end */
    struct deadlines deadlines;
    struct list fences;        /* rings of which something behind a fence may start */
    struct channels *channels; /* channel.h */
    struct slab ops, parts, batches;
    struct ids grants;    /* by their leases' numbers */
    struct ids notifiers; /* of peers' attaches, by their references */

    /* A fault in memory of a session elsewhere; one at a time, the next access faults again. */
    struct mail fault_mail;
    const void *fault_address;
    bool fault_told; /* atomic: the mail is under way */

    struct plane_counters counters; /* relaxed atomics, written by this worker only */
    bool pong;                      /* atomic: the loop turned since plane_alive asked */
    struct mail ping_mail;

    /* loop.c */
    pthread_t thread;
    bool started, stopping;
    struct mail stop_mail;
    int epoll_fd, timer_fd;
    uint64_t timer_ns;                 /* what timer_fd is set to */
    uint64_t spin_min_ns, spin_max_ns; /* atomic: reload changes them */
    struct spin spin;
    uint64_t look_ns, look_every_ns; /* a busy loop's next look at epoll */
};

/* settings, events, control and hosts (one a fabric, NULL where it has none) must outlive the
 * worker. */
int worker_init(struct worker *w, unsigned index, const struct plane_settings *settings,
                const struct plane_events *events, struct mailbox *control,
                struct fabric_host *const *hosts, uint64_t now_ns, struct error *err);
/* Every session, lane and window is gone. */
void worker_fini(struct worker *w);

/* One turn; returns how much happened, 0 for nothing. */
unsigned worker_turn(struct worker *w, uint64_t now_ns);
/* Of a mail: takes what the seat has brought, before what the mail is about to close there. A
 * device acknowledges messages that we have not looked at, so their senders may have gone on. */
void worker_hear(struct worker *w, struct seat *seat);
/* When a turn is due though nothing comes in; CLOCK_NEVER: no such time. */
uint64_t worker_next_ns(struct worker *w);

bool worker_can_start(struct worker *w); /* memory for one more op is at hand */

/* The session broke a rule: it is shut out at the end of the turn and reported once. */
void worker_violated(struct worker *w, struct op_session *s, int code, const char *why);

/* Counters that other threads read: one writer, so a plain add with an atomic store is enough. */
static inline void counter_add(uint64_t *counter, uint64_t n) {
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}
static inline void counter_sub(uint64_t *counter, uint64_t n) {
    __atomic_store_n(counter, *counter - n, __ATOMIC_RELAXED);
}

/* knocks.c */
/* Epoll told of a knock: wakes the ring if there is work on it, and says whether. */
bool knocks_heard(struct worker *w, struct op_ring *r);
void knocks_run(struct worker *w);               /* looks at the rings we are deaf to */
uint64_t knocks_next_ns(const struct worker *w); /* when that is due */

/* loop.c */
int loop_init(struct worker *w, struct error *err);
void loop_fini(struct worker *w);
int loop_start(struct worker *w, struct error *err);
void loop_stop(struct worker *w); /* joins the thread; harmless when it never ran */
int loop_watch_ring(struct worker *w, struct op_ring *r, struct error *err);
void loop_unwatch_ring(struct worker *w, struct op_ring *r);
void loop_listen_ring(struct worker *w, struct op_ring *r, bool listen); /* to its knocks */

#endif
