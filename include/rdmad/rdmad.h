/* SPDX-License-Identifier: MIT */
/*
 * rdmad.h - RDMA through rdmad, the daemon that owns the NIC. The only header a program includes.
 *
 *     rdmad_session *s;
 *     rdmad_pool *pool;
 *     rdmad_lease *there;
 *     if (rdmad_open(NULL, &s) || rdmad_pool_create(s, 1 << 20, 0, &pool) ||
 *         rdmad_lease_attach(s, uri, 0, &there))
 *         errx(1, "%s", rdmad_last_error(NULL));
 *     char *buf = rdmad_alloc(pool, 4096);
 *     memcpy(buf, "hello", 6);
 *     if (rdmad_write(there, 0, buf, 6))
 *         errx(1, "%s", rdmad_last_error(s));
 *     rdmad_close(s);
 *
 * Memory. A transfer names memory of a pool on this side and memory of a lease on the other. A pool
 * is shared memory that the daemon made and sealed; rdmad_alloc hands out pieces of it. A lease is
 * a timed right to a range of somebody's pool: its owner grants it and gets a URI, anybody the URI
 * reaches (and its scope allows) attaches to it. When the lease ends, by expiry, revocation,
 * release or the death of either side, nothing can reach the range any more.
 *
 * Errors. Functions return 0 or a negative RDMAD_E_* (abi.h), unless said otherwise. The sentence
 * that goes with the last error, with names and numbers in it, is rdmad_last_error().
 * RDMAD_E_AGAIN, and RDMAD_E_TIMEOUT of a call that was given a time to wait (timeout_ms as in
 * rdmad_next_event), are answers, not errors: they come without a sentence, as does a NULL of
 * rdmad_ring_reserve.
 *
 * Common errors. Of calls that ask the daemon something: RDMAD_E_DAEMON_LOST, the session is lost;
 * RDMAD_E_TIMEOUT, the daemon hangs (below); RDMAD_E_NOMEM, no memory here or there;
 * RDMAD_E_PROTOCOL, RDMAD_E_INTERNAL, what must not happen. What the comment of a call has after
 * "Errors:" is what else may come, RDMAD_E_LEASE_* being whichever tells how the lease has ended.
 *
 * Handles. Whoever uses a handle after its end (by free, destroy, close or its session's
 * rdmad_close), ends one twice, or gives NULL or another kind of handle where one is needed, is
 * ended with a message that names call and object, by abort(). The library keeps the last MiB of
 * ended objects of each kind for that; how a handle that is older behaves is undefined.
 *
 * Structs that may grow begin with their size, which their INIT sets: RDMAD_EVENT_INIT of struct
 * rdmad_event. So a program and a library of different versions get along: what only one of them
 * knows is 0, or as INIT has it. Without INIT a call returns RDMAD_E_INVAL, or aborts with a
 * message if it returns nothing. Fields named reserved are 0.
 *
 * Threads. A session, its pools and its leases may be used by any number of threads. A ring belongs
 * to one thread at a time; give each thread a ring of its own and none of them takes a lock on the
 * way of an op. The blocking calls may be made by any number of threads. They share rings of the
 * library's own behind a mutex each; those that may wait for another program (rdmad_send,
 * rdmad_recv, rdmad_wait_notified) have theirs apart, and never delay those that do not.
 *
 * Time is in milliseconds (what is not says so in its name: options.spin_us, and timeout_ns of an
 * sqe, which is the daemon's). timeout_ms of what waits: -1 for ever, 0 not at all. timeout_ms of
 * what asks another daemon (attach, connect, request, delegate, names): 0 as long as the daemon's
 * default. Anything else that is negative is refused with RDMAD_E_INVAL.
 *
 * A daemon keeps the limits of time that it is given; so does the library where it only waits
 * (for events, completions, connections, locks).
 *
 * A daemon that hangs, stopped by SIGSTOP say. A call that asks the daemon something ends with
 * RDMAD_E_TIMEOUT, and a sentence, when the daemon has said nothing at all for
 * options.call_timeout_ms: one that answers is waited for, however long the call takes, so a slow
 * revoke is none that hangs. With it the session is lost, as by RDMAD_E_DAEMON_LOST, which is what
 * other calls return from then on: no late answer is taken for another's, and a daemon that goes on
 * ends the session with all that it made for it. rdmad_close waits for nobody. Until such a daemon
 * goes on and sees that, or ends, it may still carry out ops that were given to it, though they
 * have ended here with RDMAD_UNKNOWN: their buffers are not yet the program's own.
 * What waits without having asked anything (rdmad_ring_wait and its kind, the blocking transfers
 * and messages, rdmad_next_event, rdmad_accept) ends as it is told to, and finds a daemon that
 * hangs, too: it asks once in call_timeout_ms whether the daemon is there, and loses the session
 * when nothing has come by the next time, so at the latest after twice that. (On a ring that is
 * made anew at the next daemon such a call may take 10 ms longer, also one that does not wait; and
 * if that daemon makes the ring and hangs before it begins it, call_timeout_ms.) The deadline of an
 * op is the daemon's to keep, and nobody keeps it meanwhile. A program that sleeps on descriptors
 * in an event loop of its own is not woken by that. Let it sleep no longer than call_timeout_ms,
 * and then do what it does when they are readable: rdmad_next_event with a timeout of 0 asks, and
 * so does rdmad_ring_arm.
 *
 * fork. A session is the process's that opened it, and ends with it, also when children live on.
 * In a child it is lost: calls return RDMAD_E_DAEMON_LOST, rdmad_close does nothing. Pools can be
 * read, but rdmad_alloc returns NULL and rdmad_free does nothing. A child opens a session of its
 * own.
 */
#ifndef RDMAD_RDMAD_H
#define RDMAD_RDMAD_H

#include <rdmad/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RDMAD_API __attribute__((visibility("default")))

typedef struct rdmad_session rdmad_session;
typedef struct rdmad_pool rdmad_pool;
typedef struct rdmad_lease rdmad_lease;
typedef struct rdmad_ring rdmad_ring;
typedef struct rdmad_service rdmad_service;
typedef struct rdmad_channel rdmad_channel;

/* ---- errors -------------------------------------------------------------------------------- */

/* The general text of an RDMAD_E_* code; never NULL. Thread-safe. */
RDMAD_API const char *rdmad_strerror(int error);
/* The code's name, "RDMAD_E_LIMIT".
 * Both live as long as the program. */
RDMAD_API const char *rdmad_errname(int error);

/*
 * The calling thread's last error in full words: what object, which limit, used and asked, what to
 * do next. With a session, the last error of a call on that session by this thread; with NULL, of
 * any call (use it when rdmad_open failed). Valid until the thread's next failing call. Never NULL.
 * Each thread has errors of its own. */
RDMAD_API const char *rdmad_last_error(const rdmad_session *session);

/* Version of the library, "0.1.0".
 * It lives as long as the program. */
RDMAD_API const char *rdmad_version(void);

/* For bindings of other languages, what the headers say, by its name: the value of a constant
 * ("RDMAD_E_LIMIT", "RDMAD_EVENT_INCOMING"), INT64_MIN when there is none; the size of a struct
 * ("rdmad_event"), 0 when there is none. */
RDMAD_API int64_t rdmad_constant(const char *name);
RDMAD_API size_t rdmad_struct_size(const char *name);

/* ---- sessions ------------------------------------------------------------------------------ */

struct rdmad_options {
    size_t size;             /* sizeof(struct rdmad_options), set by RDMAD_OPTIONS_INIT */
    const char *runtime_dir; /* NULL: $RDMAD_RUNTIME_DIR, /run/rdmad, or the user's own */
    const char *name; /* shown to operators, _ for what no name may have; NULL: the program's */
    uint32_t ring_entries;   /* of the blocking calls' ring, up to RDMAD_RING_MAX_ENTRIES; 0: 64 */
    int64_t spin_us;         /* spin this long before sleeping, 10,000 at most; -1: as the daemon
                                advises. Where other programs want all CPUs only threads of
                                SCHED_FIFO and SCHED_RR spin (sched(7)) */
    int64_t call_timeout_ms; /* how long the daemon may be silent when it was asked something, by a
                                call or by who waits (above); 0: 30 s, -1: for ever */
    int64_t resume; /* 1: the session outlives its daemon, see rdmad_open; 0: it does not */
};
#define RDMAD_OPTIONS_INIT \
    { sizeof(struct rdmad_options), NULL, NULL, 0, -1, 0, 1 }

/*
 * Connects to the daemon. options may be NULL. On success *out is the caller's to rdmad_close.
 *
 * If the daemon dies, or is stopped, and is started again (at the same place, with its runtime
 * directory), the session goes on there by itself: RDMAD_EVENT_SESSION_RESUMED. Pools keep their
 * addresses and contents, leases that were granted their URIs and deadlines, and so do those that
 * others made of them. Leases that were attached keep their handles, services their names and
 * budgets; watches of names begin anew (RDMAD_EVENT_NAMES_ANEW). Reliable channels stay open,
 * unless the other end does not come back, too; receives on them go on, with their time begun anew.
 * Other ops that were in flight end with RDMAD_E_DAEMON_LOST when nothing is at their buffers any
 * more, with what is known of them in the completion's outcome; none is done a second time. What is
 * submitted and asked meanwhile waits. What does not go on: channels of the other kinds (they
 * close), leases that were requested (they end), and sessions with pools of huge pages, which are
 * lost. If no daemon comes within call_timeout_ms the session is lost, as it is at once when the
 * daemon ends it. One that comes and says nothing for 10 s has not come, and is tried again. The
 * library has a thread for that, one for each daemon. Where none can be made, and at a daemon that
 * is too old for that, sessions end with their daemon.
 * Errors: RDMAD_E_NO_DAEMON: nothing answers at that place, or its socket may not be opened by
 * this user. RDMAD_E_PERM: the policy does not admit this user. RDMAD_E_LIMIT: the user, or the
 * machine, has as many sessions as it may. RDMAD_E_NAME: options.name is too long. RDMAD_E_INVAL:
 * another option is not valid. RDMAD_E_VERSION: library and daemon have no version of their
 * protocol in common. RDMAD_E_SHUTDOWN: the daemon is stopping. RDMAD_E_SYSTEM: a socket or a
 * descriptor could not be made. */
RDMAD_API int rdmad_open(const struct rdmad_options *options, rdmad_session **out);

/* Ends the session with all that belongs to it: rings, pools (also their memory: pointers into them
 * die), leases granted and attached. Ops in flight are abandoned, the daemon sees them to their
 * end. The other ends of channels hear RDMAD_E_CLOSED, but nothing waits for messages that were not
 * delivered yet: close a channel first for that. Nor is the daemon waited for: of more channels
 * than the socket takes at once, some 250, the other ends of the rest may hear RDMAD_E_CANCELED,
 * unless they are closed first. No other thread may still be using the session. NULL is allowed. */
RDMAD_API void rdmad_close(rdmad_session *session);

struct rdmad_session_info {
    size_t size; /* as in all that the library fills: set by its INIT */
    uint64_t id;
    uint64_t max_pool_bytes;
    uint64_t default_timeout_ms;
    const char *node;   /* the daemon's name */
    const char *fabric; /* what links to other daemons use: "tcp", "verbs" */
};
#define RDMAD_SESSION_INFO_INIT \
    { sizeof(struct rdmad_session_info), 0, 0, 0, NULL, NULL }
/* The strings live as long as the session. */
RDMAD_API void rdmad_session_get_info(const rdmad_session *session, struct rdmad_session_info *out);

/*
 * A descriptor for any event loop (level-triggered, readable): rdmad_next_event or a peek on a ring
 * that was armed with rdmad_ring_arm may have something. Do not read from it or close it. When it
 * is readable, take events until RDMAD_E_TIMEOUT, then completions until rdmad_ring_arm returns 0.
 * It stays readable once the session is lost.
 * Returns the descriptor, which stays the session's.
 * Errors: RDMAD_E_SYSTEM: it could not be made. */
RDMAD_API int rdmad_session_fd(rdmad_session *session);

/* A published lease or a service. */
struct rdmad_name {
    size_t size;
    char name[RDMAD_NAME_MAX + 1];
    uint32_t kind;   /* RDMAD_NAME_KIND_* */
    uint32_t rights; /* leases: RDMAD_RIGHT_* */
    uint64_t length; /* leases: bytes */
    uint64_t ttl_ms; /* leases: left */
};
#define RDMAD_NAME_INIT \
    { sizeof(struct rdmad_name), "", 0, 0, 0, 0 }
#define RDMAD_NAME_KIND_LEASE 0u
#define RDMAD_NAME_KIND_SERVICE 1u

/* What happened to a lease, a channel, a service, a watch or to the session. */
struct rdmad_event {
    size_t size;
    uint32_t type;  /* RDMAD_EVENT_* */
    int32_t reason; /* RDMAD_E_* */
    uint64_t lease_id;
    rdmad_lease *lease; /* still the caller's to rdmad_lease_free; NULL for session events */
    char text[RDMAD_TEXT_MAX + 1];
    rdmad_service *service; /* INCOMING, HANDED_OVER, NOT_RESUMED */
    rdmad_channel *channel; /* CHANNEL_CLOSED: still the caller's to close; _SILENT, _HEARD */
    void *memory;           /* HANDED_OVER: now the service's owner's, until rdmad_service_free */
    size_t length;          /* HANDED_OVER: of memory; NOTIFICATIONS_LOST: how many */
    uint64_t watch;         /* NAME_* */
    void *user;             /* of the lease, the channel or the service */
    void *reserved[4];
    struct rdmad_name name; /* stays the last */
};
#define RDMAD_EVENT_INIT                                                                     \
    {                                                                                        \
        sizeof(struct rdmad_event), 0, 0, 0, NULL, "", NULL, NULL, NULL, 0, 0, NULL, {NULL}, \
            RDMAD_NAME_INIT                                                                  \
    }
#define RDMAD_EVENT_LEASE_ENDED 1u    /* owner: the memory is its own again; lessee: ops fail now */
#define RDMAD_EVENT_LEASE_RENEWED 2u  /* lessee */
#define RDMAD_EVENT_SESSION_LOST 3u   /* the daemon is gone or ended the session; open a new one */
#define RDMAD_EVENT_INCOMING 4u       /* somebody connects to the service: rdmad_accept */
#define RDMAD_EVENT_CHANNEL_CLOSED 5u /* by the other end, or with its rdmad: reason tells how */
#define RDMAD_EVENT_HANDED_OVER 6u    /* memory of the service's budget, filled by a requester */
#define RDMAD_EVENT_NAME_THERE 7u     /* a watched name appeared, or was there at the start */
#define RDMAD_EVENT_NAME_GONE 8u      /* reason 0, or why the whole watch ended */
#define RDMAD_EVENT_NAMES_ANEW 9u /* what the watch told before is void; what there is follows */
/* An operator has paused the session (text says who and why): what is submitted waits, and its time
 * to be done (a timeout_ms, a timeout_ns) begins when the session is resumed. What rdmad had taken
 * before goes on, and leases, channels and all other calls live on. Of several pauses and resumes
 * that nobody took the last is told. A pause ends with its daemon: RESUMED comes before
 * SESSION_RESUMED, unless the next daemon has the session paused, too. */
#define RDMAD_EVENT_PAUSED 10u
#define RDMAD_EVENT_RESUMED 11u
/* The daemon had gone, and the session goes on with the one that came (rdmad_open says what goes
 * on). */
#define RDMAD_EVENT_SESSION_RESUMED 12u
/* By rdmad_channel_keepalive: the program at the channel's other end shows no sign of life, and
 * does so again. text says for how long. */
#define RDMAD_EVENT_CHANNEL_SILENT 13u
#define RDMAD_EVENT_CHANNEL_HEARD 14u
/* Comes before SESSION_RESUMED: notifications of leases of this session, which their senders know
 * to be there and nobody had taken, are lost with the daemon. length: how many; 0: some may be,
 * which is not known (the session has taken some before, and had no ring at that daemon). */
#define RDMAD_EVENT_NOTIFICATIONS_LOST 15u
/* Comes before SESSION_RESUMED: the daemon that came did not take all of service back, or not the
 * keep-alive of channel; reason and text say which and why. A service that listens no more refuses
 * rdmad_accept with that reason: close it, and listen again. */
#define RDMAD_EVENT_NOT_RESUMED 16u

/* Takes the next event; waits up to timeout_ms (-1: for ever, 0: not at all). Returns 0,
 * RDMAD_E_TIMEOUT, or RDMAD_E_DAEMON_LOST when the session is lost and its event was taken. Leases
 * that end say so here once each, also when nobody asks, and also those that were revoked here.
 * A lease, channel or service in an event stays the caller's.
 * Errors: RDMAD_E_INVAL: out is without its INIT, or timeout_ms is less than -1. */
RDMAD_API int rdmad_next_event(rdmad_session *session, int timeout_ms, struct rdmad_event *out);

/* ---- pools --------------------------------------------------------------------------------- */

/* Asks the daemon for a pool of at least bytes (rounded up to pages). flags: RDMAD_POOL_*. Its
 * pages are made here, in this process's own time and memory cgroup. With rdmad_options.resume 0 it
 * is then sealed: no hole can be punched into it, and its descriptor cannot be mapped for writing
 * once more. Else the next daemon has to map it, so whoever has the descriptor can do both, and a
 * hole ends the session.
 * On success *out is the caller's to rdmad_pool_destroy; it ends with the session.
 * Errors: RDMAD_E_LIMIT: the session, its user or the machine has as much pool memory as it may.
 * RDMAD_E_NOMEM: the memory cannot be had. RDMAD_E_INVAL: no bytes. RDMAD_E_RANGE: more than a
 * pool can have. RDMAD_E_RESERVED: an unknown flag. RDMAD_E_PERM: it could not be sealed.
 * RDMAD_E_SYSTEM: no descriptor. */
RDMAD_API int rdmad_pool_create(rdmad_session *session, size_t bytes, unsigned flags,
                                rdmad_pool **out);
/* Gives the pool back. Pointers into it die. RDMAD_E_BUSY, with a list of them, while ops or locks
 * hold some of it, or leases on it are alive. Leases that were attached to are no obstacle. */
RDMAD_API int rdmad_pool_destroy(rdmad_pool *pool);
/*
 * Makes a pool of the program's own memory: a memfd made with MFD_ALLOW_SEALING, of small pages, of
 * which its size is a multiple, and with no seals but F_SEAL_SHRINK and F_SEAL_GROW. What is in it
 * stays. The call makes the pages that are not there yet and adds F_SEAL_SHRINK, F_SEAL_GROW,
 * F_SEAL_SEAL and, with rdmad_options.resume 0, F_SEAL_FUTURE_WRITE, for good: by that mappings
 * that the program or others have go on, new ones can only be read, and write and holes are
 * refused. Without it whoever has the descriptor can write to the pool, and a hole ends the
 * session. fd remains the caller's to close. rdmad_alloc works on it as on any pool; a program that
 * has data in it uses rdmad_pool_base instead. RDMAD_E_FDS, RDMAD_E_PERM tell what is wrong with a
 * descriptor. Huge pages cannot be imported; rdmad_pool_create makes pools of them. On success *out
 * is the caller's to rdmad_pool_destroy, which leaves the memory to whoever else has mapped it.
 * Errors: RDMAD_E_UNSUPPORTED: this machine or daemon cannot import. RDMAD_E_INVAL: its size is no
 * multiple of a page. RDMAD_E_LIMIT, RDMAD_E_NOMEM as of rdmad_pool_create. */
RDMAD_API int rdmad_pool_import(rdmad_session *session, int fd, rdmad_pool **out);
/* The pool's bytes: what was asked for, rounded up to pages. */
RDMAD_API size_t rdmad_pool_size(const rdmad_pool *pool);
/* The start of the whole pool, for programs that lay it out themselves; do not mix with
 * rdmad_alloc. */
RDMAD_API void *rdmad_pool_base(const rdmad_pool *pool);

/*
 * A piece of the pool, aligned to 64 bytes and to its size class up to a page; its contents are
 * whatever was there. NULL when the pool has no room (see rdmad_last_error). Thread-safe; small
 * sizes come from a cache of the calling thread. The allocator's own records lie outside the pool.
 * It is the caller's until rdmad_free, or until the pool or the session ends. */
RDMAD_API void *rdmad_alloc(rdmad_pool *pool, size_t bytes);
/* Gives it back. A pointer that rdmad_alloc did not hand out, or did and got back, aborts with a
 * message: memory that the NIC can reach must not be handed out twice. While ops or locks hold some
 * of it, or a lease of this session's or a service's budget lies on it, it is not handed out again:
 * others may still read and write it. That is over when the lease's end was told or revoke or free
 * of it has returned, and when rdmad_service_close has; on a session that is lost it never is. NULL
 * is allowed.
 * Thread-safe: any thread may give it back. */
RDMAD_API void rdmad_free(rdmad_pool *pool, void *piece);

/* ---- leases -------------------------------------------------------------------------------- */

struct rdmad_lease_terms {
    size_t size;           /* sizeof(struct rdmad_lease_terms), set by RDMAD_LEASE_TERMS_INIT */
    uint64_t ttl_ms;       /* 0: 60,000; delegated what is left, requested what the service gives */
    uint32_t rights;       /* RDMAD_RIGHT_*; 0: READ and WRITE */
    uint32_t scope;        /* enum rdmad_scope */
    uint32_t scope_uid;    /* with RDMAD_SCOPE_UID */
    uint32_t max_attaches; /* at one time; 0: any number. 1: releasing it ends the lease */
    /* With RDMAD_SCOPE_PEER: the IP address of the lessee's daemon, or its node's name, which fits
     * only a daemon that has proven it by a certificate. */
    const char *scope_peer;
    const char *name;    /* publish under this name; NULL: not published */
    uint32_t flags;      /* RDMAD_LEASE_*; with any ttl_ms is at least 1000 */
    uint32_t ends_after; /* it ends when so many lessees have released it; 0: however many */
};
#define RDMAD_LEASE_TERMS_INIT \
    { sizeof(struct rdmad_lease_terms), 0, 0, 0, 0, 0, NULL, NULL, 0, 0 }

/*
 * Owner: lets others reach [memory, memory + length) of one of the session's pools. terms may be
 * NULL. A lease of no bytes is one, too: it can be attached to, and has nothing to reach. The lease
 * ends by itself after its ttl, with the session, or by rdmad_lease_revoke.
 * On success *out is the caller's to rdmad_lease_free, also after the lease's end.
 * Errors: RDMAD_E_RANGE: not all of the memory lies in one pool of the session. RDMAD_E_NAME:
 * terms.name is not valid. RDMAD_E_EXISTS: the name is taken. RDMAD_E_PERM: the policy lets this
 * user not publish it. RDMAD_E_ALIGN: RDMAD_RIGHT_ATOMIC of memory that is not aligned to 8.
 * RDMAD_E_LIMIT: as many leases as there may be, or ttl_ms is longer than the daemon allows.
 * RDMAD_E_INVAL: a term, or a right, is not valid. RDMAD_E_RESERVED: an unknown flag.
 * RDMAD_E_SHUTDOWN: the daemon is stopping. */
RDMAD_API int rdmad_lease_grant(rdmad_session *session, void *memory, size_t length,
                                const struct rdmad_lease_terms *terms, rdmad_lease **out);
/* Lessee: attaches to a lease by its URI or published name. timeout_ms 0: the daemon's default.
 * On success *out is the caller's to rdmad_lease_free, which releases it.
 * Errors: RDMAD_E_URI: that is no URI of a lease. RDMAD_E_NO_LEASE: there is none of that number,
 * key or name. RDMAD_E_SCOPE: it is not for this user or daemon. RDMAD_E_LEASE_EXPIRED,
 * RDMAD_E_LEASE_REVOKED, RDMAD_E_LEASE_RELEASED, RDMAD_E_LEASE_ORPHANED, RDMAD_E_LEASE_ADMIN: how
 * it has ended. RDMAD_E_UNREACHABLE, RDMAD_E_PEER_LOST: the owner's daemon. RDMAD_E_FABRIC: the
 * two daemons have no fabric in common. RDMAD_E_TIMEOUT: it did not answer in time. RDMAD_E_PERM:
 * the policy of either daemon. RDMAD_E_LIMIT: max_attaches, or as many handles as there may be.
 * RDMAD_E_SHUTDOWN: a daemon is stopping. */
RDMAD_API int rdmad_lease_attach(rdmad_session *session, const char *uri, int timeout_ms,
                                 rdmad_lease **out);
/* Owner: the lease ends ttl_ms from now, sooner or later than before.
 * Errors: RDMAD_E_PERM: attached, not granted. RDMAD_E_LIMIT: longer than the daemon allows.
 * RDMAD_E_INVAL: 0. RDMAD_E_LEASE_*: it has ended. RDMAD_E_SHUTDOWN: the daemon is stopping. */
RDMAD_API int rdmad_lease_renew(rdmad_lease *lease, uint64_t ttl_ms);
/* Owner: ends the lease. When it returns 0 nobody can read or write the memory any more.
 * The object stays, for rdmad_lease_free. At most the link's quiesce bound passes until it
 * returns; nothing if the lease has ended already, which is no error.
 * Errors: RDMAD_E_PERM: attached, not granted. */
RDMAD_API int rdmad_lease_revoke(rdmad_lease *lease);
/* Either side: revokes or releases if that was not done yet, and frees the object. NULL is allowed.
 */
RDMAD_API void rdmad_lease_free(rdmad_lease *lease);

/*
 * Lessee: makes a narrower lease of [offset, offset + length) of one that was granted with
 * RDMAD_RIGHT_DELEGATE, at its owner: of terms count ttl_ms (at most what is left), rights (at most
 * its own; 0: its own without DELEGATE) and max_attaches. uri is to be given to somebody else, for
 * example by rdmad_send_lease. It ends with the lease it is of, not with the attach.
 * RDMAD_E_DELEGATE when that lease may not be handed on.
 * Errors: RDMAD_E_RANGE: not all of it lies in the lease. RDMAD_E_RIGHTS: more than its own.
 * RDMAD_E_ALIGN: RDMAD_RIGHT_ATOMIC of what is not aligned to 8. RDMAD_E_LIMIT: as many leases as
 * its owner may have. RDMAD_E_PERM: granted, not attached. RDMAD_E_LEASE_*: it has ended.
 * RDMAD_E_UNREACHABLE, RDMAD_E_PEER_LOST, RDMAD_E_TIMEOUT: the owner's daemon. RDMAD_E_BUSY: it
 * does not read just now. */
RDMAD_API int rdmad_lease_delegate(rdmad_lease *lease, uint64_t offset, size_t length,
                                   const struct rdmad_lease_terms *terms, int timeout_ms,
                                   char uri[RDMAD_URI_MAX + 1]);
/* Asks a service for bytes of its budget: attached to a fresh lease of them. Of terms count ttl_ms
 * and rights. They go back when the lease ends, unless handed over. RDMAD_E_BUDGET: not that much
 * is left, or who asks may not have it. RDMAD_E_RIGHTS: the service does not give these rights.
 * On success *out is the caller's to rdmad_lease_free.
 * Errors: RDMAD_E_NO_SERVICE: there is none of that name, or it is closing. RDMAD_E_URI: that is
 * no URI of one. RDMAD_E_SCOPE: it is not for this user or daemon. RDMAD_E_DELEGATE: requested
 * memory cannot be handed on. RDMAD_E_INVAL: no bytes. RDMAD_E_LIMIT: ttl_ms is longer than the
 * service gives, or who asks has 256 leases of it. RDMAD_E_UNREACHABLE, RDMAD_E_PEER_LOST,
 * RDMAD_E_TIMEOUT: the owner's daemon. */
RDMAD_API int rdmad_lease_request(rdmad_session *session, const char *service_uri, size_t bytes,
                                  const struct rdmad_lease_terms *terms, int timeout_ms,
                                  rdmad_lease **out);
/* Requester: ends the lease and gives its memory, as it is, to the service's owner, who gets
 * RDMAD_EVENT_HANDED_OVER. lease is freed if it returns 0.
 * Errors: RDMAD_E_PERM: granted, not attached. RDMAD_E_INVAL: attached to, not requested of a
 * service. RDMAD_E_LEASE_*: it has ended.
 * RDMAD_E_NO_SERVICE: the service has closed. RDMAD_E_PEER_LOST, RDMAD_E_TIMEOUT: the owner's
 * daemon; whether it was told is unknown. RDMAD_E_HANDLE: this session's daemon was started again
 * meanwhile; whether the owner has the memory is unknown, too. */
RDMAD_API int rdmad_lease_hand_over(rdmad_lease *lease);
/* Lessee: the daemon asks the owner's for renewal in time, as long as the session lives and the
 * lease is not released; on 0 lets it run out. RDMAD_E_PERM: not granted with
 * RDMAD_LEASE_RENEWABLE.
 * Errors: RDMAD_E_LEASE_*: it has ended. */
RDMAD_API int rdmad_lease_keep(rdmad_lease *lease, int on);

/* Whatever the program wants to find again at its lease, channel or service: NULL until it is set;
 * events bring it along.
 * The library does not look at it, and does not free it. */
RDMAD_API void rdmad_lease_set_user(rdmad_lease *lease, void *user);
RDMAD_API void *rdmad_lease_get_user(const rdmad_lease *lease);

struct rdmad_lease_info {
    size_t size;
    uint64_t id;     /* the owner's number; of a published one another at each daemon */
    uint64_t length; /* bytes */
    uint64_t ttl_ms; /* left, rounded up; 0 when ended */
    uint32_t rights;
    int32_t ended;      /* 0 while alive, else RDMAD_E_* why */
    const char *uri;    /* lives as long as the object */
    const char *fabric; /* lessee: "local", "tcp", "verbs"; owner: "" */
};
#define RDMAD_LEASE_INFO_INIT \
    { sizeof(struct rdmad_lease_info), 0, 0, 0, 0, 0, NULL, NULL }
/* Fills out; of a lease that has ended, too. An owner's ttl_ms counts what its daemon renews
 * (RDMAD_LEASE_KEEP_ALIVE), but not what a lessee does (rdmad_lease_keep), of which it is not told:
 * it may be 0 while ended says that the lease is alive. rdmad_lease_uri is info.uri alone. */
RDMAD_API void rdmad_lease_get_info(const rdmad_lease *lease, struct rdmad_lease_info *out);
RDMAD_API const char *rdmad_lease_uri(const rdmad_lease *lease);

/* Counted here: use on this machine and over tcp, none over verbs. said_*: of any fabric, what
 * lessees' daemons say; as true as they are, and up to peer.ping_ms late. */
struct rdmad_lease_audit {
    size_t size;
    uint64_t bytes_read, bytes_written, ops;
    uint64_t idle_ms; /* since its last use; UINT64_MAX: never used */
    uint32_t attached, attached_total;
    uint64_t said_bytes_read, said_bytes_written, said_ops; /* by daemons of other machines */
};
#define RDMAD_LEASE_AUDIT_INIT \
    { sizeof(struct rdmad_lease_audit), 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Owner: asks the daemon how the lease was used.
 * Errors: RDMAD_E_PERM: attached, not granted. RDMAD_E_NO_LEASE: the daemon remembers it no more.
 */
RDMAD_API int rdmad_lease_get_audit(rdmad_lease *lease, struct rdmad_lease_audit *out);

/* ---- names --------------------------------------------------------------------------------- */

/* The names that begin with prefix (NULL: all) and come after one (NULL: from the first), in order,
 * of the daemon at where ("rdmad://HOST:PORT/"; NULL: this one). Fills at most max of an array, of
 * which the first has RDMAD_NAME_INIT, and sets *count;
 * fewer than max: there are no more. Those whose scope does not admit the caller are left out.
 * Errors: RDMAD_E_URI: where is no daemon's URI. RDMAD_E_NAME: prefix or after is too long.
 * RDMAD_E_PERM: the policy lets this user not reach that daemon. RDMAD_E_UNREACHABLE,
 * RDMAD_E_PEER_LOST, RDMAD_E_TIMEOUT: that daemon. RDMAD_E_BUSY: it does not read just now. */
RDMAD_API int rdmad_names_list(rdmad_session *session, const char *where, const char *prefix,
                               const char *after, int timeout_ms, struct rdmad_name *out,
                               size_t max, size_t *count);
/* From now on names that come and go are RDMAD_EVENT_NAME_*; first those that are there. Who takes
 * them late gets what there is then: a name that went and came is told as there again, one that
 * came and went as gone or not at all; after very many, and when the session has gone on with
 * another daemon, RDMAD_EVENT_NAMES_ANEW and what there is.
 * *watch is what rdmad_names_unwatch takes; it ends with the session.
 * Errors: as of rdmad_names_list. RDMAD_E_LIMIT: the session has as many watches as it may.
 * RDMAD_E_HANDLE, of unwatch: there is no such watch. */
RDMAD_API int rdmad_names_watch(rdmad_session *session, const char *where, const char *prefix,
                                int timeout_ms, uint64_t *watch);
RDMAD_API int rdmad_names_unwatch(rdmad_session *session, uint64_t watch);

#ifdef __cplusplus
}
#endif

#include <rdmad/channel.h> /* services, and channels between sessions */
#include <rdmad/transfer.h> /* what comes before what; transfers and messages, blocking and by rings */

#endif
