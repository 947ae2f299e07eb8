/* SPDX-License-Identifier: MIT */
/*
 * internal.h - the objects behind librdmad's handles, and what its files ask of each other.
 *
 * session.c opens and closes; control.c talks to the daemon over the socket; event.c keeps what the
 * daemon says unasked; pool.c, alloc.c, lease.c, service.c, channel.c are the objects; ring.h's
 * files are the asynchronous transfers, blocking.h's the blocking ones on top of them.
 *
 * Locks: session->lock guards the session's tables and everything the socket brings. It is held
 * for moments only, never while something waits. Rings take no lock, but on the way to an error.
 */
#ifndef RDMAD_LIBCLIENT_INTERNAL_H
#define RDMAD_LIBCLIENT_INTERNAL_H

#include "libclient/arena.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/object.h"
#include "libclient/base/session.h"
#include "libclient/base/sized.h"
#include "libclient/base/text.h"
#include "libclient/holders.h"
#include <pthread.h>
#include <rdmad/rdmad.h>
#include <rdmad/ring.h>
#include <rdmad/wire.h>
#include <stdbool.h>

/* Lies in whatever may have news for rdmad_next_event (event.c). */
struct rdmad_news {
    struct rdmad_news *next, **link; /* link is what points here; NULL: nothing to tell */
    /* With the lock: fills one piece of news into *out, which is zero. Returns whether there is
     * more; then it stays the first in the queue. If not, it may free itself. */
    bool (*take)(struct rdmad_news *news, struct rdmad_event *out);
};

struct rdmad_pool {
    struct rdmad_object object;
    struct rdmad_session *session;
    struct rdmad_pool *next;
    uint64_t handle;
    char *base;
    size_t bytes;
    struct rdmad_arena *arena;
    struct rdmad_holders holders;
    struct rdmad_guard *guard; /* NULL: not in guard mode */
};

struct rdmad_lease {
    struct rdmad_object object;
    struct rdmad_session *session;
    struct rdmad_lease *next; /* in its bucket */
    bool owner;
    bool requested; /* lessee: of a service */
    bool linked;
    uint64_t id;     /* the owner's number */
    uint64_t handle; /* lessee: what sqes name */
    uint64_t pool;   /* owner: handle of the pool that it is on */
    struct rdmad_lent lent;
    uint64_t length;
    uint32_t rights;
    uint64_t deadline_ns; /* CLOCK_BOOTTIME */
    int ended;            /* 0 or why */
    uint64_t ended_ns;
    struct rdmad_news news;
    bool tell_ended, tell_renewed; /* events not taken yet */
    char ended_text[RDMAD_TEXT_MAX + 1];
    char uri[RDMAD_URI_MAX + 1];
    char fabric[16];
    void *user;
};

/* ---- control.c ----------------------------------------------------------------------------- */

/*
 * One request and its reply. accept runs under the session's lock, before any later event is
 * looked at: an object that the daemon may tell news of is put into its table there.
 */
struct rdmad_call {
    uint16_t type;
    const void *request;
    size_t request_size;
    void *reply;
    size_t reply_size;
    int *fds;
    unsigned nfds; /* exactly that many come with the reply */
    int sent_fd;   /* goes with the request, if sends_fd; stays the caller's */
    bool sends_fd;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: wait as long as the daemon lives */
    void (*accept)(struct rdmad_session *s, const struct rdmad_call *call);
    void *arg;
    bool quiet; /* part of cleaning up: the last error stays what it was */

    /* control.c's own */
    struct rdmad_call *next;
    uint32_t seq;
    bool done;
    int status;
    char text[RDMAD_TEXT_MAX + 1];
};

/* Returns the daemon's answer, with the sentence for rdmad_last_error. */
int rdmad_control_call(struct rdmad_session *s, struct rdmad_call *call);

/* With the lock: a request whose answer nobody waits for, if the socket has room for it. */
void rdmad_control_post(struct rdmad_session *s, uint16_t type, const void *request, size_t size);

/* With the lock: takes in what the socket has, without waiting. Only while nobody else sleeps on
 * the socket (or it is dead): what is taken away from under a sleeper does not wake it. */
void rdmad_control_receive(struct rdmad_session *s);
/* With the lock: the same, or else whoever sleeps on the socket does it; for those who tell how
 * things stand. */
void rdmad_control_look(struct rdmad_session *s);
/* With the lock, released meanwhile: receives until ready(s, arg), loss or the deadline. */
void rdmad_control_wait(struct rdmad_session *s, bool (*ready)(struct rdmad_session *, void *),
                        void *arg, uint64_t deadline_ns);
/* With the lock: ends the session on our side. Only the first reason counts. */
void rdmad_control_lose(struct rdmad_session *s, int reason, const char *text);

/* Looks at the socket first; for those who do not read it. */
bool rdmad_check_lost(struct rdmad_session *s);
/* Remembers and returns RDMAD_E_DAEMON_LOST with the reason. */
int rdmad_fail_lost(struct rdmad_session *s);

/* ---- event.c ------------------------------------------------------------------------------- */

/* All with the lock. */
/* An event as it came. Returns a sentence when the wire does not allow it. */
const char *rdmad_event_message(struct rdmad_session *s, const struct rdmad_msg_header *h,
                                const void *body);
/* Queues it, if it is not yet, and wakes who waits for events or for changes in general. */
void rdmad_news_queue(struct rdmad_session *s, struct rdmad_news *news);
/* Out of the queue, if it is in it. */
void rdmad_news_drop(struct rdmad_session *s, struct rdmad_news *news);
void rdmad_event_lease_ended(struct rdmad_lease *lease, int reason, const char *text);
void rdmad_event_forget(struct rdmad_lease *lease);
void rdmad_event_bell(struct rdmad_session *s); /* after anything that may be an event */
/* Puts a ring's doorbell into the session's descriptor, if there is one. */
void rdmad_event_watch(struct rdmad_session *s, int fd);

/* ---- fork.c -------------------------------------------------------------------------------- */

/* From add to remove: in a child of fork the session is lost, and inherited. */
void rdmad_fork_add(struct rdmad_session *s);
void rdmad_fork_remove(struct rdmad_session *s);

/* ---- pool.c, lease.c ----------------------------------------------------------------------- */

/* The pool that memory lies in, or NULL. With the lock. */
struct rdmad_pool *rdmad_pool_of(struct rdmad_session *s, const void *memory);
struct rdmad_pool *rdmad_pool_by_handle(struct rdmad_session *s, uint64_t handle);
/* Unmaps and frees; tells nobody. It is gone since that call. */
void rdmad_pool_dispose(struct rdmad_pool *pool, const char *call);

/* With the lock. */
struct rdmad_lease *rdmad_lease_find(struct rdmad_session *s, bool owner, uint64_t number);
/* A request of that type whose answer is an attach: *out is the lease. */
int rdmad_lease_take(struct rdmad_session *s, uint16_t type, const void *request, size_t size,
                     const char uri[RDMAD_URI_MAX + 1], struct rdmad_lease **out);
/* The daemon has forgotten it, and it has ended as an object. */
void rdmad_lease_forget(struct rdmad_lease *lease);
/* Frees all leases; tells nobody. */
void rdmad_leases_dispose(struct rdmad_session *s);

/* ---- service.c, channel.c ------------------------------------------------------------------ */

/* What events bring, with the lock. */
void rdmad_name_news(struct rdmad_session *s, const void *body); /* names.c */
void rdmad_service_incoming(struct rdmad_session *s, const void *body);
void rdmad_service_incoming_gone(struct rdmad_session *s, const void *body);
void rdmad_service_handed_over(struct rdmad_session *s, const void *body);
void rdmad_channel_closed(struct rdmad_session *s, const void *body);
/* With the lock: the session is about to hang up, which is no accident. */
void rdmad_channels_farewell(struct rdmad_session *s);
/* Free all of them; tell nobody. */
void rdmad_services_dispose(struct rdmad_session *s);
void rdmad_names_dispose(struct rdmad_session *s);
void rdmad_channels_dispose(struct rdmad_session *s);

/* ---- ring.c -------------------------------------------------------------------------------- */

/* Waits until the daemon has taken all that was submitted on any ring of the session before: a
 * request that it is sent after that comes after it. */
void rdmad_rings_taken(struct rdmad_session *s);

/* ---- ring_create.c ------------------------------------------------------------------------- */

/* With the lock: puts the doorbells of all rings into the session's descriptor. */
void rdmad_rings_watch(struct rdmad_session *s);

/* ---- blocking.c ---------------------------------------------------------------------------- */

int rdmad_blocking_new(struct rdmad_session *s);
void rdmad_blocking_free(struct rdmad_blocking *b);

/* ---- copies.c ------------------------------------------------------------------------------ */

int rdmad_copies_new(struct rdmad_session *s);
void rdmad_copies_free(struct rdmad_copies *c);

#endif
