/* SPDX-License-Identifier: MIT */
/*
 * session.h - one client process's connection and all that it owns.
 *
 * The happy path: session_new at accept (charged, on a worker), rings, pools, leases and handles
 * come and go by requests, session_close when the socket ends. Closing takes these steps, each
 * begun when the one before reported: (0) its questions to other daemons are given up, its services
 * close, and sessions of this daemon let go of channels to it; (1) the data plane lets go of the
 * session's rings, pools, handles and channels, so that nothing is under way in its name; (2) its
 * leases end (ORPHANED) at their lessees, its handles are released at their owners and its channels
 * end at their other ends, after which nobody else reaches its memory either; (3) pools and rings
 * are unmapped on the registration thread and their charges go back; (4) the session is freed.
 * Whatever runs asynchronously on a session's behalf holds it (session_hold), so no step can free
 * what another still uses; the session itself counts as one hold until (3) is under way. From the
 * first step on plane is NULL. Closing twice is harmless.
 */
#ifndef RDMAD_STATE_SESSION_H
#define RDMAD_STATE_SESSION_H

#include "daemon/plane/plane.h"
#include "daemon/state/state.h"

struct conn; /* ipc/conn.h */

/* Something of the session's waits for an answer from elsewhere, for as long as its client said. It
 * is given up when the session closes, which takes it out of the list first. */
struct session_call {
    struct list node; /* in session->calls */
    void (*give_up)(struct session_call *call, const struct error *why);
};

struct session {
    struct state *state;
    struct list node; /* in state->sessions */
    uint64_t id;
    uid_t uid;
    gid_t gid;
    pid_t pid; /* for display only, never for a decision */
    char name[RDMAD_NAME_MAX + 1];
    bool greeted;
    bool closing; /* atomic: the registration thread looks whether a pool is still wanted */
    unsigned holds;
    unsigned steps; /* of (2), not yet reported */
    uint64_t since_ns;
    struct conn *conn;             /* NULL once the socket is gone */
    struct plane_session *plane;   /* NULL once closing */
    struct plane_session *leaving; /* closing: what was plane, until it is dropped */

    struct slots rings;        /* of struct ring_object (state/ring_object.h) */
    struct slots pools;        /* of struct pool */
    struct slots handles;      /* of struct handle (state/handle.h): leases attached to */
    struct list leases;        /* of struct lease (state/lease.h): granted */
    struct list leases_untold; /* that ended; the client, who does not read, will hear of it */
    struct slots channels;     /* of struct channel (state/channel.h) */
    struct list services;      /* of struct service (state/service.h) */
    struct list watches;       /* of struct watch (state/names.h), which end when it closes */
    unsigned nwatches;
    uint64_t watch_numbers; /* given out */
    struct list others;     /* of struct channel, of sessions here: the other end is ours */
    struct list calls;      /* of struct session_call */

    /* Who waits until the last lease has ended and the last handle is free (closing). */
    struct session_waiter {
        plane_done *done; /* NULL: nobody */
        void *arg;
    } leases_gone, handles_gone, channels_gone;
    /* Handles that only still answer with why they ended, the oldest first: as told to the client,
     * and as still to be told when it reads. */
    struct list handles_ended, handles_untold;
    uint32_t nhandles_ended;
    bool renewals_untold; /* of handles; the client does not read */
    bool closes_untold;   /* of channels */

    struct quota_account account;
    struct quota_account *uid_account;
    struct quota_charge charge;
};

int session_new(struct state *st, uid_t uid, gid_t gid, pid_t pid, struct session **out,
                struct error *err);
/* Begins the end described above; why (may be NULL) is told to the client and the log. */
void session_close(struct session *s, const struct error *why);
void session_hold(struct session *s);
void session_release(struct session *s); /* may free it */
struct session *session_find(struct state *st, uint64_t id);

/* Gives up all that waits (closing). */
void session_give_up_calls(struct session *s);

/* Sends a message of the wire to the client; harmless when it is gone. */
void session_send(struct session *s, uint16_t type, uint32_t seq, const void *body, size_t size,
                  const int *fds, unsigned nfds);
/* Whether what was sent waits for the client to read it. */
bool session_lags(const struct session *s);
void session_send_error(struct session *s, uint16_t type, uint32_t seq, const struct error *why);

#endif
