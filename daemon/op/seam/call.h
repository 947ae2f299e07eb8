/* SPDX-License-Identifier: MIT */
/*
 * call.h - one call of plane.h on its way: to the worker, and back with the answer.
 *
 * The control thread makes a call (call_new), fills it in and posts it; the worker runs its apply,
 * which answers at once (call_finish) or when the ops it has to see to their end are gone
 * (call_wait); the answer travels back as the same mail, runs done on the control thread and frees
 * the call. Undoing must not fail, so a plane keeps a reserve of calls for when malloc does.
 */
#ifndef RDMAD_OP_CALL_H
#define RDMAD_OP_CALL_H

#include "daemon/op/engine/account.h"
#include "daemon/op/engine/worker.h"

struct plane {
    struct plane_settings settings;
    struct plane_events events;
    struct mailbox *control;
    struct fabric_host *hosts[PLANE_FABRICS_MAX]; /* NULL where the fabric has none */
    struct worker *worker;                        /* settings.workers of them */
    unsigned *sessions;                           /* on each */
    struct op_account all;                        /* sessions */
    struct list uids;                             /* of struct op_account */
    struct list reserve;                          /* of struct call, by node */
    unsigned reserve_used;
};

/* The opaque objects of plane.h: what the control thread keeps, around what the worker keeps. */
struct plane_session {
    struct plane *plane;
    struct worker *worker;
    bool dropped;
    struct slots channels; /* of struct op_channel, by handle; channel_call.c */
    struct op_session op;
};

struct plane_lane {
    struct plane *plane;
    struct worker *worker;
    bool dropped;
    uint64_t hellos; /* asked for so far */
    char host[256];
    struct op_lane op;
};

struct plane_window {
    struct plane *plane;
    struct worker *worker;
    struct op_window op;
};

struct call {
    struct mail mail;
    struct list node;  /* in worker->waiting */
    struct list group; /* calls that are answered together, by the last of them */
    struct plane *plane;
    struct worker *worker;
    void (*apply)(struct call *c);   /* on the worker */
    bool (*settled)(struct call *c); /* while waiting: true once it is done */
    plane_done *done;
    plane_blob_done *blob_done;
    void *arg;

    /* What it is about, as far as apply needs it. */
    struct plane_session *session;
    struct plane_lane *lane;
    struct plane_window *window;
    struct seat *seat; /* of a peer's connections */
    uint64_t handle;
    void *object; /* a new ring, pool or lease; or what settled finishes with */
    uint64_t deadline_ns, peer;
    uint64_t via; /* the number of a link of the peer's */
    uint32_t count;
    int reason;
    bool linger;
    struct fabric_window_spec window_spec;
    struct fabric_blob given; /* a hello, an offer or a key */
    struct op_share *share;   /* to be used or freed */

    /* The answer. */
    struct error result;
    struct fabric_blob blob;
    void *garbage;           /* freed after done: mails in it may have been under way until then */
    struct op_account *left; /* by the session that is gone */
};

/* ---- control thread ---------------------------------------------------------------------- */

struct call *call_new(struct plane *p, struct worker *w, void (*apply)(struct call *),
                      plane_done *done, void *arg);
void call_post(struct call *c);
/* Answers without asking the worker. */
void call_refuse(struct call *c, int code, const char *why);

/* Makes workers without threads; plane_start then starts them, tests turn them by hand. */
int plane_assemble(const struct plane_settings *settings, const struct plane_events *events,
                   struct mailbox *control, uint64_t now_ns, struct plane **out, struct error *err);
void plane_dismantle(struct plane *p);

/* ---- worker ------------------------------------------------------------------------------ */

void call_finish(struct call *c);                          /* with success */
void call_fail(struct call *c, int code, const char *why); /* or not */
/* Finishes when settled says so: at once, or at the end of a turn. The call has a session. */
void call_wait(struct call *c, bool (*settled)(struct call *c));
void calls_settle(struct worker *w); /* those that wait, oldest first: is it over? */

/* table.c: sessions, and what sqes can name. */
void table_session_add(struct call *c);
void table_session_drop(struct call *c);
void table_ring_add(struct call *c);
void table_ring_drop(struct call *c);
void table_pool_add(struct call *c);
void table_pool_drop(struct call *c);
void table_lease_add(struct call *c);
void table_lease_extend(struct call *c);
void table_lease_key(struct call *c);
void table_lease_end(struct call *c);
void table_lease_forget(struct call *c);
void table_shut_out(struct op_session *s); /* its rings are not looked at any more */

/* channel.c */
void table_channel_add(struct call *c);
void table_channel_open(struct call *c);
void table_channel_end(struct call *c);
void table_channel_forget(struct call *c);

/* lane.c: connections to peers. */
void lane_hello(struct call *c);
void lane_open(struct call *c);
void lane_drop(struct call *c);
void lane_up(void *worker, void *cookie);
void lane_lost(void *worker, void *cookie, const struct error *why);
void peer_offer(struct call *c);
void peer_forget(struct call *c);
void peer_expel(struct call *c);

/* window.c: what peers may reach here. */
void window_open(struct call *c);
void window_reopen(struct call *c);
void window_extend(struct call *c);
void window_close(struct call *c);
void window_opened(void *worker, void *cookie, const struct fabric_blob *key,
                   const struct error *err);
void window_closed(void *worker, void *cookie);

/* Events, delivered on the control thread. */
void event_session_violated(struct mail *mail);
void event_lane_lost(struct mail *mail);
void event_memory_fault(struct mail *mail);

#endif
