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
struct rdmad_kept_part;
struct rdmad_pause;
struct rdmad_resume;
struct rdmad_event_source;
struct rdmad_watch;
struct rdmad_msg_header;

/*
 *          the daemon is gone             a daemon answers
 *     OPEN ------------------> AWAY ----------------------> RESUMING
 *      ^|                       ^|                             |||
 *      |+---- the daemon ends ---+----- none comes in time ----+|| the daemon is gone
 *      |      it, rdmad_close   |v                              |+-----> AWAY
 *      |                        LOST <--------- refused --------+
 *      +------------------- all is handed back ------------------+
 *
 *     any --- in a child of fork ---> INHERITED
 *
 * AWAY and RESUMING are states of a session that can be resumed; any other is lost at once.
 */
enum rdmad_session_state {
    RDMAD_SESSION_OPEN,
    RDMAD_SESSION_AWAY,      /* there is no daemon; another may come */
    RDMAD_SESSION_RESUMING,  /* the socket is the next daemon's, for session/resume.c alone */
    RDMAD_SESSION_LOST,      /* nothing can be asked of the daemon any more */
    RDMAD_SESSION_INHERITED, /* by fork: it is the parent's, and lost to us */
};

struct rdmad_session {
    struct rdmad_object object;
    struct rdmad_session *next; /* fork.c */
    int state;                  /* atomic; enum rdmad_session_state */
    uint32_t resumes;           /* atomic; how often another daemon has taken the session over */
    uint64_t serial;            /* of this session in this process, for error.c */
    int sock;                   /* the same number for the next daemon's */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a reply or event came, or the receiving thread went away */
    bool receiving;         /* some thread sleeps on the socket on behalf of all */
    uint16_t version;       /* of the client protocol: as proposed, and agreed on once greeted */
    bool greeted;
    uint32_t seq;
    uint32_t heard;           /* packets that came */
    uint64_t call_timeout_ns; /* how long the daemon may be silent; UINT64_MAX: for ever */
    uint64_t resume_call_ns;  /* RESUMING: the same, at most; others of its daemon wait, too */
    uint64_t ask_ns;          /* atomic; when who waits asks whether the daemon is there */
    uint32_t asked_heard;     /* heard, when that was asked last */
    bool asked_again;         /* and it was not the first question without an answer */
    unsigned shorts;          /* how often the daemon that takes it over was out of memory */
    bool met_silence;         /* the last daemon that it was shown to said nothing for too long */
    struct rdmad_call *calls; /* waiting for their replies */
    /* With the lock: takes an event as it came. Returns NULL, or what is wrong with it. */
    const char *(*take_event)(struct rdmad_session *s, const struct rdmad_msg_header *h,
                              const void *body);
    /* With the lock. What rings, which know a channel by its number alone, have to know of it:
     * whether the next daemon is to say what becomes of its receives; and why none knows it any
     * more, or 0. One that was closed here is the next daemon's matter, and known to nobody. */
    bool (*channel_outlives)(struct rdmad_session *s, uint64_t channel);
    int (*channel_left)(struct rdmad_session *s, uint64_t channel);

    uint32_t answered_at;  /* atomic; resumes, when another daemon last answered */
    int lifeline;          /* atomic; hangs up when the daemon is gone; -1: none */
    uint64_t let_go_by_ns; /* atomic; not OPEN: until when its daemon is waited for */

    int lost_reason;
    bool lost_told;
    char lost_text[RDMAD_TEXT_MAX + 1];

    struct rdmad_lease *lease[RDMAD_LEASE_BUCKETS];     /* by owner's number or lessee's handle */
    struct rdmad_kept_part *parts[RDMAD_LEASE_BUCKETS]; /* of leases that it granted */
    struct rdmad_channel *channel[RDMAD_CHANNEL_BUCKETS];
    struct rdmad_service *services;
    struct rdmad_watch *watches;
    uint64_t last_watch; /* the highest number that a watch has had */
    struct rdmad_event_source *first_source, **last_source;
    int epoll, event_fd; /* rdmad_session_fd; -1 until it is asked for */
    bool event_fd_set;   /* it is readable */
    struct rdmad_pool *pools;
    uint32_t pools_destroyed; /* atomic; when it changes, rings' hints of pools are void */
    struct rdmad_ring *rings;
    uint64_t rings_wake_ns;    /* atomic; the least of the rings' wake_ns; UINT64_MAX: none */
    unsigned rings_waking;     /* those for which back_fd is in the session's descriptor */
    bool takes_notices;        /* atomic; it has asked for notifications of its leases */
    struct rdmad_holds *holds; /* of the rings */
    struct rdmad_blocking *blocking;
    struct rdmad_copies *copies;
    struct rdmad_pause *pause;
    struct rdmad_resume *resume; /* NULL: it cannot be resumed */
    pthread_t resuming_thread;   /* RESUMING: the one that may ask */
    int back_fd; /* an eventfd, readable but while the session is away; -1: it cannot be resumed */
    void (*wake_resumer)(const struct rdmad_session *s); /* has its resumer look; NULL: likewise */

    uint64_t id, max_pool_bytes, default_timeout_ns, spin_ns;
    uint32_t blocking_entries;
    bool guard;            /* RDMAD_GUARD=1: pools' buffers are guarded */
    char runtime_dir[108]; /* for messages */
    char node[RDMAD_NAME_MAX + 1];
    char fabric[16];
};

/* Whether the daemon can be asked now. */
static inline bool rdmad_is_open(const struct rdmad_session *s) {
    return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) == RDMAD_SESSION_OPEN;
}
/* Whether it is over for good. */
static inline bool rdmad_is_lost(const struct rdmad_session *s) {
    return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) >= RDMAD_SESSION_LOST;
}
/* Whether the process was forked, and the session is its parent's. */
static inline bool rdmad_is_inherited(const struct rdmad_session *s) {
    return __atomic_load_n(&s->state, __ATOMIC_RELAXED) == RDMAD_SESSION_INHERITED;
}
/* RESUMING: how long the daemon may say nothing. */
static inline uint64_t rdmad_resume_patience_ns(const struct rdmad_session *s) {
    return s->call_timeout_ns < s->resume_call_ns ? s->call_timeout_ns : s->resume_call_ns;
}
static inline uint32_t rdmad_resumes(const struct rdmad_session *s) {
    return __atomic_load_n(&s->resumes, __ATOMIC_ACQUIRE);
}
#endif
