/* SPDX-License-Identifier: MIT */
/*
 * session.h - the session as all other objects see it: the tables that they are in, and the lock of
 * those.
 *
 * session->lock guards the session's tables and everything that the socket brings. It is held for
 * moments only, never while something waits. Rings take no lock, except to tell an error.
 */
#ifndef RDMAD_LIBCLIENT_SESSION_H
#define RDMAD_LIBCLIENT_SESSION_H

#include "libclient/base/object.h"
#include <pthread.h>
#include <rdmad/rdmad.h>
#include <stdbool.h>

#define RDMAD_LEASE_BUCKETS 256u
#define RDMAD_CHANNEL_BUCKETS 256u

struct rdmad_blocking;
struct rdmad_call;
struct rdmad_copies;
struct rdmad_holds;
struct rdmad_pause;
struct rdmad_event_source;
struct rdmad_msg_header;

/*
 *     OPEN --- the socket or the daemon ends it, rdmad_close (rdmad_control_lose) ---> LOST
 *      |                                                                                |
 *      +--- in a child of fork ---> INHERITED <--- in a child of fork ------------------+
 */
enum rdmad_session_state {
    RDMAD_SESSION_OPEN,
    RDMAD_SESSION_LOST,      /* nothing can be asked of the daemon any more */
    RDMAD_SESSION_INHERITED, /* by fork: it is the parent's, and lost to us */
};

struct rdmad_session {
    struct rdmad_object object;
    struct rdmad_session *next; /* fork.c */
    int state;                  /* atomic; enum rdmad_session_state */
    uint64_t serial;            /* of this session in this process, for error.c */
    int sock;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a reply or event came, or the receiving thread went away */
    bool receiving;         /* some thread sleeps on the socket on behalf of all */
    uint32_t seq;
    uint32_t heard;           /* packets that came */
    uint64_t call_timeout_ns; /* how long the daemon may be silent; UINT64_MAX: for ever */
    struct rdmad_call *calls; /* waiting for their replies */
    /* With the lock: takes an event as it came. Returns NULL, or what is wrong with it. */
    const char *(*take_event)(struct rdmad_session *s, const struct rdmad_msg_header *h,
                              const void *body);

    int lost_reason;
    bool lost_told;
    char lost_text[RDMAD_TEXT_MAX + 1];

    struct rdmad_lease *lease[RDMAD_LEASE_BUCKETS]; /* by owner's number or lessee's handle */
    struct rdmad_channel *channel[RDMAD_CHANNEL_BUCKETS];
    struct rdmad_service *services;
    struct rdmad_event_source *first_source, **last_source;
    int epoll, event_fd; /* rdmad_session_fd; -1 until it is asked for */
    bool event_fd_set;   /* it is readable */
    struct rdmad_pool *pools;
    uint32_t pools_destroyed; /* atomic; when it changes, rings' hints of pools are void */
    struct rdmad_ring *rings;
    struct rdmad_holds *holds; /* of the rings */
    struct rdmad_blocking *blocking;
    struct rdmad_copies *copies;
    struct rdmad_pause *pause;

    uint64_t id, max_pool_bytes, default_timeout_ns, spin_ns;
    uint32_t blocking_entries;
    bool guard;            /* RDMAD_GUARD=1: pools' buffers are guarded */
    char runtime_dir[108]; /* for messages */
    char node[RDMAD_NAME_MAX + 1];
    char fabric[16];
};

static inline bool rdmad_is_lost(const struct rdmad_session *s) {
    return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != RDMAD_SESSION_OPEN;
}
/* Whether the process was forked, and the session is its parent's. */
static inline bool rdmad_is_inherited(const struct rdmad_session *s) {
    return __atomic_load_n(&s->state, __ATOMIC_RELAXED) == RDMAD_SESSION_INHERITED;
}
#endif
