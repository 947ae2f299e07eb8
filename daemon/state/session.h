/* SPDX-License-Identifier: MIT */
/*
 * session.h - one client process's connection and all that it owns.
 *
 * The happy path: session_new at accept (charged, on a worker), rings, pools, leases and handles
 * come and go by requests, session_close (session_end.h) when the socket ends. Whatever runs
 * asynchronously on its behalf holds it.
 */
#ifndef RDMAD_STATE_SESSION_H
#define RDMAD_STATE_SESSION_H

#include "daemon/base/audit_event.h"
#include "daemon/base/offload.h"
#include "daemon/base/user_id.h"
#include "daemon/plane/plane.h"
#include "daemon/state/policy.h"
#include "daemon/state/state.h"

struct conn;          /* ipc/conn.h */
struct session_pause; /* state/pause.h */

/* A call of the session that waits for an answer from elsewhere, as long as its client said. When
 * the session closes it is taken out of the list and given up. */
struct session_call {
    struct list node; /* in session->calls */
    void (*give_up)(struct session_call *call, const struct error *why);
};

/* How many ended handles a session keeps to tell why they ended: for the ops that it may submit
 * before it has read of the end. */
#define HANDLES_ENDED_MAX 64u

/* A call that waits for something. */
struct session_waiter {
    plane_done *done; /* NULL: nobody */
    void *arg;
};

/* Which session it was first (origin.h). */
struct session_origin {
    uint64_t life, session; /* life 0: it has none, and cannot be resumed */
    bool resumed;
};

/* Signs of life of its program (alive.h). */
struct session_alive {
    uint64_t looked_ns, seen_ns; /* looked_ns 0: nobody has asked yet */
    bool looking;
};

/* What was told of its ops that failed (failures.h). */
struct session_failures {
    struct list node;   /* in its user's failing, while some are not told */
    uint64_t since_ns;  /* since when it is in it */
    uint64_t looked_ns; /* when it was looked at last */
    uint64_t told[PLANE_CODES], told_ns[PLANE_CODES]; /* how many, and when the last were */
};

struct session {
    struct state *state;
    struct list node; /* in state->sessions */
    uint64_t id;
    uid_t uid;
    gid_t gid;
    pid_t pid;                 /* for display only, never for a decision */
    uint32_t tenant;           /* by whose socket it came; 0: by rdmad.sock */
    struct policy_who who;     /* as the policy matches it; the session's own copies */
    struct user_policy policy; /* what that comes to at the moment */
    char name[RDMAD_NAME_MAX + 1];
    struct session_origin origin;
    bool greeted;
    bool has_lifeline; /* its client was given it */
    uint16_t version;  /* of what is said to it; from HELLO on also of what it says */
    bool closing;      /* atomic: the registration thread looks whether a pool is still wanted */
    bool goes_on;      /* closing: with the next daemon */
    unsigned holds;
    unsigned steps; /* closing: parts of step 3 that have not reported yet */
    uint64_t since_ns;
    struct conn *conn;             /* NULL once the socket is gone */
    struct plane_session *plane;   /* NULL once closing */
    struct plane_session *leaving; /* closing: what was plane, until it is dropped, */
    struct plane_session *dropped; /* and until that is done: it may only be counted */
    struct usage_user *usage;      /* of its user, until the session has said its last word there */
    struct list usage_node;        /* in usage->sessions */

    struct slots rings;    /* of struct ring_object (state/ring_object.h) */
    struct slots pools;    /* of struct pool */
    struct slots handles;  /* of struct handle (state/handle.h): leases attached to */
    struct list leases;    /* of struct lease (state/lease.h): granted */
    struct slots channels; /* of struct channel (state/channel.h) */
    struct list services;  /* of struct service (state/service.h) */
    struct list watches;   /* of struct watch (state/names.h), which end when it closes */
    unsigned nwatches;
    uint64_t watch_numbers; /* given out */
    struct list others; /* of struct channel: of sessions here, whose other end is this session's */
    struct list calls;  /* of struct session_call */

    /* While it closes, who waits until the last of others has ended, the last lease has ended, the
     * last handle is freed, the last channel is freed. */
    struct session_waiter others_gone, leases_gone, handles_gone, channels_gone;
    struct list handles_ended; /* whose end the client knows, the oldest first; still in handles */
    uint32_t nhandles_ended;
    bool parts_void; /* its client has to be told anew which parts its leases have: part_told.c */
    struct list late_events;     /* of struct late_event (state/late_event.h) */
    struct session_pause *pause; /* NULL: it was never paused */
    struct session_alive alive;
    struct session_failures failures;

    struct quota_account account;
    struct quota_account *uid_account;
    struct quota_charge charge;
};

int session_new(struct state *st, uid_t uid, gid_t gid, pid_t pid, struct session **out,
                struct error *err);
/* The same, of a user whose groups and socket are known. tenant: the socket's number, 0: none. */
struct session_user {
    struct policy_who who;
    uint32_t tenant;
    gid_t gid;
    pid_t pid;
};
int session_new_of(struct state *st, const struct session_user *user, struct session **out,
                   struct error *err);
/* The policy has changed: what it comes to for each session and user is looked up anew. */
void sessions_apply_policy(struct state *st);
void session_hold(struct session *s);
void session_release(struct session *s); /* may free it */
struct session *session_find(struct state *st, uint64_t id);

/* What a pool or a ring is charged: itself, its mappings, its bytes. */
struct session_charges {
    struct quota_charge count, maps, bytes;
};
int session_charge(struct session *s, struct session_charges *c, enum quota_resource what,
                   uint64_t maps, uint64_t bytes, struct error *err);
void session_discharge(struct session_charges *c);
/* Gives a job to a registration thread. All jobs of a user count as one owner's. */
void session_post(const struct session *s, struct offload_job *job,
                  void (*run)(struct offload_job *), void (*done)(struct offload_job *));
/* On any thread: whether the session still wants what is made for it. */
bool session_is_open(const void *session);
int session_fail_ending(struct error *err); /* RDMAD_E_SHUTDOWN */

/* Answers whoever waits, once. */
static inline void waiter_answer(struct session_waiter *w, const struct error *result) {
    plane_done *done = w->done;
    w->done = NULL;
    if (done)
        done(w->arg, result);
}

static inline struct user_id session_user_id(const struct session *s) {
    return (struct user_id){.uid = s->uid, .tenant = s->tenant};
}
/* Whose doing it is what it does, for audit and events. */
static inline struct audit_who session_who(const struct session *s) {
    return (struct audit_who){
        .kind = AUDIT_USER, .uid = s->uid, .tenant = s->who.socket, .pid = s->pid};
}
/* Adds what its ops have come to so far; nothing once its last word is in s->usage. latency may be
 * NULL. */
void session_usage(const struct session *s, struct usage_sums *sums, struct histogram *latency);
/* Sends a message of the wire to the client; harmless when it is gone. Returns whether the client
 * has it, or may have it later (conn_send). */
bool session_send(struct session *s, uint16_t type, uint32_t seq, const void *body, size_t size,
                  const int *fds, unsigned nfds);
/* Whether what was sent waits for the client to read it. */
bool session_lags(const struct session *s);
void session_send_error(struct session *s, uint16_t type, uint32_t seq, const struct error *why);

#endif
