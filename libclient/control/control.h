/* SPDX-License-Identifier: MIT */
/*
 * control.h - requests, replies and events on the session's socket.
 *
 * Any number of threads may have requests under way. One of those that wait sleeps on the socket on
 * behalf of all. What the daemon says unasked goes to the session's take_event.
 */
#ifndef RDMAD_LIBCLIENT_CONTROL_H
#define RDMAD_LIBCLIENT_CONTROL_H

#include "libclient/base/session.h"
#include <rdmad/wire.h>

/*
 * One request and its reply. accept runs under the session's lock, before any later event is looked
 * at: there an object is put into its table, so that later events find it.
 */
struct rdmad_call {
    uint16_t type;
    const void *request; /* fill may write to it */
    size_t request_size;
    void *reply;
    size_t reply_size;
    int *fds;
    unsigned nfds; /* exactly that many come with the reply */
    int sent_fd;   /* goes with the request, if sends_fd; stays the caller's */
    bool sends_fd;
    void (*accept)(struct rdmad_session *s, const struct rdmad_call *call);
    /* May be NULL. With the lock, each time before a daemon is asked: fills in what is another at
     * the next daemon. */
    void (*fill)(struct rdmad_session *s, const struct rdmad_call *call, void *request);
    union { /* what the reply makes; accept knows which */
        struct rdmad_lease *lease;
        struct rdmad_channel *channel;
        struct rdmad_service *service;
        struct rdmad_pool *pool;
        struct rdmad_ring *ring;
        uint64_t number; /* of what may have gone until then */
    } object;
    bool quiet;   /* part of cleaning up: the last error stays what it was */
    bool one_try; /* not asked again of a daemon that has come after the one that it was asked of */

    /* control.c's own */
    struct rdmad_call *next;
    uint32_t seq;
    uint16_t version; /* of the answer */
    uint32_t resumes; /* of the session, when the answer came: which daemon gave it */
    bool done;
    bool cut;       /* its daemon has gone, and the session is AWAY */
    bool lacks_fds; /* RDMAD_E_SYSTEM: reply tells what was made, and has to be ended again */
    int status;
    char text[RDMAD_TEXT_MAX + 1];
};

/* The first fields of a call whose request and reply are these structs. */
#define RDMAD_CALL(message, req, rep)                                                   \
    .type = (message), .request = &(req), .request_size = sizeof(req), .reply = &(rep), \
    .reply_size = sizeof(rep)

/* Returns the daemon's answer, with the sentence for rdmad_last_error. RDMAD_E_TIMEOUT, and the
 * session lost: the daemon was silent for too long. While the session is away it waits, and asks
 * the next daemon if the one before has not answered. */
int rdmad_control_call(struct rdmad_session *s, struct rdmad_call *call);
/* The same, for what is handed back to the daemon that takes the session over. If that is out of
 * memory it is asked again in a moment, ten times for all that the session has. (The session could
 * not go and come again: what such a daemon had taken already would end.) */
int rdmad_control_hand_back(struct rdmad_session *s, struct rdmad_call *call);
/* Makes calls of one try and without descriptors at the same time: all are asked before any is
 * waited for. Each one's status and text tell what became of it; the last error stays what it was.
 */
void rdmad_control_call_all(struct rdmad_session *s, struct rdmad_call *const *calls,
                            unsigned count);
/*
 * For what takes several questions, of which all are one daemon's to answer:
 *
 *     struct rdmad_attempt a = RDMAD_ATTEMPT(s);
 *     do
 *         rc = ...;
 *     while (rdmad_control_again(s, &a, rc));
 *
 * True: the daemon that had answered some of it has gone with what it had made, and the next one
 * can be asked from the start. As often as with one question.
 */
struct rdmad_attempt {
    uint32_t resumes;
    unsigned tries;
};
#define RDMAD_ATTEMPT(session) \
    { .resumes = rdmad_resumes(session) }
bool rdmad_control_again(const struct rdmad_session *s, struct rdmad_attempt *a, int rc);

/* For who does not wait: asks, and puts the call among those that are under way, of one try, until
 * it is done or left. Returns 0; RDMAD_E_DAEMON_LOST, there is no daemon to ask; or RDMAD_E_AGAIN,
 * the socket is full. */
int rdmad_control_begin(struct rdmad_session *s, struct rdmad_call *call);
/* Receives until it is done or the deadline; returns whether it is. Its status tells what became of
 * it, and the last error stays what it was. */
bool rdmad_control_is_done(struct rdmad_session *s, struct rdmad_call *call, uint64_t deadline_ns);
/* As long as a call is waited for, for who needs its end after all. */
void rdmad_control_finish(struct rdmad_session *s, struct rdmad_call *call);

/* A call whose request is answered by a status alone. */
int rdmad_control_tell(struct rdmad_session *s, uint16_t type, const void *request, size_t size,
                       bool quiet);

/* Asks something that any daemon answers at once, which loses the session if this one does not. */
void rdmad_control_prod(struct rdmad_session *s);

/* With the lock: a request whose answer nobody waits for, if the socket has room for it. */
void rdmad_control_post(struct rdmad_session *s, uint16_t type, const void *request, size_t size);
/* With the lock: posts what any daemon answers at once, whatever else it has to do. */
void rdmad_control_ask(struct rdmad_session *s);
/* With the lock: the daemon has been silent for too long after it was asked to do that. The session
 * is lost, with RDMAD_E_TIMEOUT. */
void rdmad_control_give_up(struct rdmad_session *s, const char *asked_to);

/* With the lock: takes in what the socket has, without waiting. Only while no other thread sleeps
 * on the socket (or when the socket is dead): what is taken from under a sleeper does not wake it.
 */
void rdmad_control_receive(struct rdmad_session *s);
/* With the lock, for calls that tell the present state: the same, unless a thread sleeps on the
 * socket, which takes it in anyway. */
void rdmad_control_look(struct rdmad_session *s);
/* With the lock, released meanwhile: receives until ready(s, arg), loss or the deadline. */
void rdmad_control_wait(struct rdmad_session *s, bool (*ready)(struct rdmad_session *, void *),
                        void *arg, uint64_t deadline_ns);
/* With the lock, released meanwhile: until the session is open (true), lost or the deadline. */
bool rdmad_control_wait_open(struct rdmad_session *s, uint64_t deadline_ns);
/* With the lock: ends the session on our side. Only the first reason counts. */
void rdmad_control_lose(struct rdmad_session *s, int reason, const char *text);
/* With the lock: the daemon is not there any more. The session is away if it can be resumed, else
 * lost. */
void rdmad_control_gone(struct rdmad_session *s, const char *text);
/* With the lock, when the daemon that takes the session over has refused with rc what is handed
 * back to it. True: it is drained, and takes nothing. The session is away, and is shown to a daemon
 * again. */
bool rdmad_control_drained(struct rdmad_session *s, int rc);

/* Whether the session is not open; looks at the socket first, for callers that do not read it. */
bool rdmad_check_gone(struct rdmad_session *s);
/* Remembers and returns RDMAD_E_DAEMON_LOST with the reason. */
int rdmad_fail_lost(struct rdmad_session *s);

#endif
