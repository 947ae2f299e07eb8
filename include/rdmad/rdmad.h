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
 * that goes with the last error, with names and numbers in it, is rdmad_last_error(). RDMAD_E_AGAIN
 * and RDMAD_E_TIMEOUT of rdmad_next_event, peek, wait and arm are answers, not errors: they come
 * without a sentence, as does a NULL of rdmad_ring_reserve.
 *
 * Threads. A session, its pools and its leases may be used by any number of threads. A ring belongs
 * to one thread at a time; give each thread a ring of its own and none of them takes a lock on the
 * way of an op. The blocking calls (rdmad_write, rdmad_read) share one ring behind a mutex.
 *
 * fork. A child must not use a session of its parent.
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

/* ---- errors -------------------------------------------------------------------------------- */

/* The general text of an RDMAD_E_* code; never NULL. Thread-safe. */
RDMAD_API const char *rdmad_strerror(int error);
/* The code's name, "RDMAD_E_LIMIT". */
RDMAD_API const char *rdmad_errname(int error);

/*
 * The calling thread's last error in full words: what object, which limit, used and asked, what to
 * do next. With a session, the last error of a call on that session by this thread; with NULL, of
 * any call (use it when rdmad_open failed). Valid until the thread's next failing call. Never NULL.
 */
RDMAD_API const char *rdmad_last_error(const rdmad_session *session);

/* Version of the library, "0.1.0". */
RDMAD_API const char *rdmad_version(void);

/* ---- sessions ------------------------------------------------------------------------------ */

struct rdmad_options {
    size_t size;             /* sizeof(struct rdmad_options), set by RDMAD_OPTIONS_INIT */
    const char *runtime_dir; /* NULL: $RDMAD_RUNTIME_DIR, else /run/rdmad */
    const char *name;        /* shown to operators; NULL: the program's name */
    uint32_t ring_entries;   /* of the blocking calls' ring; 0: 64 */
    int64_t spin_us;         /* spin this long before sleeping; -1: as the daemon advises */
};
#define RDMAD_OPTIONS_INIT \
    { sizeof(struct rdmad_options), NULL, NULL, 0, -1 }

/* Connects to the daemon. options may be NULL. On success *out is the caller's to rdmad_close. */
RDMAD_API int rdmad_open(const struct rdmad_options *options, rdmad_session **out);

/* Ends the session with all that belongs to it: rings, pools (also their memory: pointers into them
 * die), leases granted and attached. Ops in flight are abandoned, the daemon sees them to their
 * end. No other thread may still be using the session. NULL is allowed. */
RDMAD_API void rdmad_close(rdmad_session *session);

struct rdmad_session_info {
    uint64_t id;
    uint64_t max_pool_bytes;
    uint64_t default_timeout_ns;
    const char *node;   /* the daemon's name */
    const char *fabric; /* what links to other daemons use: "tcp", "verbs" */
};
/* The strings live as long as the session. */
RDMAD_API void rdmad_session_info(const rdmad_session *session, struct rdmad_session_info *out);

/*
 * A descriptor for any event loop (level-triggered, readable): rdmad_next_event or a peek on a ring
 * that was armed with rdmad_ring_arm may have something. Do not read from it or close it. When it
 * is readable, take events until RDMAD_E_TIMEOUT, then completions until rdmad_ring_arm returns 0.
 * It stays readable once the session is lost.
 */
RDMAD_API int rdmad_session_fd(rdmad_session *session);

/* What happened to a lease or to the session. */
struct rdmad_event {
    uint32_t type;  /* RDMAD_EVENT_* */
    int32_t reason; /* RDMAD_E_* */
    uint64_t lease_id;
    rdmad_lease *lease; /* still the caller's to rdmad_lease_free; NULL for session events */
    char text[RDMAD_TEXT_MAX + 1];
};
#define RDMAD_EVENT_LEASE_ENDED 1u   /* owner: the memory is its own again; lessee: ops fail now */
#define RDMAD_EVENT_LEASE_RENEWED 2u /* lessee */
#define RDMAD_EVENT_SESSION_LOST 3u  /* the daemon is gone or ended the session; open a new one */

/* Takes the next event; waits up to timeout_ms (-1: for ever, 0: not at all). Returns 0,
 * RDMAD_E_TIMEOUT, or RDMAD_E_DAEMON_LOST when the session is lost and its event was taken. Leases
 * that end say so here once each, also when nobody asks, and also those that were revoked here. */
RDMAD_API int rdmad_next_event(rdmad_session *session, int timeout_ms, struct rdmad_event *out);

/* ---- pools --------------------------------------------------------------------------------- */

/* Asks the daemon for a pool of at least bytes (rounded up to pages). flags: RDMAD_POOL_*. */
RDMAD_API int rdmad_pool_create(rdmad_session *session, size_t bytes, unsigned flags,
                                rdmad_pool **out);
/* Gives the pool back. RDMAD_E_BUSY while leases on it are alive. Pointers into it die. */
RDMAD_API int rdmad_pool_destroy(rdmad_pool *pool);
RDMAD_API size_t rdmad_pool_size(const rdmad_pool *pool);
/* The start of the whole pool, for programs that lay it out themselves; do not mix with
 * rdmad_alloc. */
RDMAD_API void *rdmad_pool_base(const rdmad_pool *pool);

/*
 * A piece of the pool, aligned to 64 bytes and to its size class up to a page; its contents are
 * whatever was there. NULL when the pool has no room (see rdmad_last_error). Thread-safe; small
 * sizes come from a cache of the calling thread. The allocator's own records lie outside the pool.
 */
RDMAD_API void *rdmad_alloc(rdmad_pool *pool, size_t bytes);
/* Gives it back. A pointer that rdmad_alloc did not hand out, or did and got back, aborts with a
 * message: memory that the NIC can reach must not be handed out twice. NULL is allowed. */
RDMAD_API void rdmad_free(rdmad_pool *pool, void *piece);

/* ---- leases -------------------------------------------------------------------------------- */

struct rdmad_lease_terms {
    size_t size;            /* sizeof(struct rdmad_lease_terms), set by RDMAD_LEASE_TERMS_INIT */
    uint64_t ttl_ms;        /* 0: 60,000 */
    uint32_t rights;        /* RDMAD_RIGHT_*; 0: both */
    uint32_t scope;         /* enum rdmad_scope */
    uint32_t scope_uid;     /* with RDMAD_SCOPE_UID */
    uint32_t max_attaches;  /* at one time; 0: any number. 1: releasing it ends the lease */
    const char *scope_peer; /* with RDMAD_SCOPE_PEER: the IP address of the lessee's daemon */
    const char *name;       /* publish under this name; NULL: not published */
};
#define RDMAD_LEASE_TERMS_INIT \
    { sizeof(struct rdmad_lease_terms), 0, 0, 0, 0, 0, NULL, NULL }

/*
 * Owner: lets others reach [memory, memory + length) of one of the session's pools. terms may be
 * NULL. The lease ends by itself after its ttl, with the session, or by rdmad_lease_revoke.
 */
RDMAD_API int rdmad_lease_grant(rdmad_session *session, void *memory, size_t length,
                                const struct rdmad_lease_terms *terms, rdmad_lease **out);
/* Lessee: attaches to a lease by its URI or published name. timeout_ms 0: the daemon's default. */
RDMAD_API int rdmad_lease_attach(rdmad_session *session, const char *uri, unsigned timeout_ms,
                                 rdmad_lease **out);
/* Owner: the lease ends ttl_ms from now, sooner or later than before. */
RDMAD_API int rdmad_lease_renew(rdmad_lease *lease, uint64_t ttl_ms);
/* Owner: ends the lease. When it returns 0 nobody can read or write the memory any more. */
RDMAD_API int rdmad_lease_revoke(rdmad_lease *lease);
/* Either side: revokes or releases if that was not done yet, and frees the object. NULL is allowed.
 */
RDMAD_API void rdmad_lease_free(rdmad_lease *lease);

struct rdmad_lease_info {
    uint64_t id;     /* the owner's number */
    uint64_t length; /* bytes */
    uint64_t ttl_ns; /* left; 0 when ended */
    uint32_t rights;
    int32_t ended;      /* 0 while alive, else RDMAD_E_* why */
    const char *uri;    /* lives as long as the object */
    const char *fabric; /* lessee: "local", "tcp", "verbs"; owner: "" */
};
RDMAD_API void rdmad_lease_info(const rdmad_lease *lease, struct rdmad_lease_info *out);
RDMAD_API const char *rdmad_lease_uri(const rdmad_lease *lease);

struct rdmad_lease_audit {
    uint64_t bytes_read, bytes_written, ops;
    uint64_t idle_ns; /* since its last use; UINT64_MAX: never used */
    uint32_t attached, attached_total;
};
/* Owner: asks the daemon how the lease was used. */
RDMAD_API int rdmad_lease_audit(rdmad_lease *lease, struct rdmad_lease_audit *out);

/* ---- blocking transfers -------------------------------------------------------------------- */

/*
 * Copies length bytes from buffer (in a pool of the lease's session) to the lease at offset, or the
 * other way. Returns when it is over: 0, the bytes are placed; else what went wrong, and
 * rdmad_last_outcome() tells what became of the target.
 */
RDMAD_API int rdmad_write(rdmad_lease *lease, uint64_t offset, const void *buffer, size_t length);
RDMAD_API int rdmad_read(rdmad_lease *lease, uint64_t offset, void *buffer, size_t length);
/* enum rdmad_outcome of the calling thread's last blocking transfer. */
RDMAD_API int rdmad_last_outcome(void);

/* ---- rings: asynchronous transfers --------------------------------------------------------- */

/* A ring for up to entries ops in flight (rounded up to a power of two). */
RDMAD_API int rdmad_ring_create(rdmad_session *session, uint32_t entries, rdmad_ring **out);
/* Ops in flight are ended by the daemon first; their completions are lost. NULL is allowed. */
RDMAD_API void rdmad_ring_destroy(rdmad_ring *ring);

/* A free entry to prepare, or NULL when entries ops are in flight or prepared: reap some first. */
RDMAD_API struct rdmad_sqe *rdmad_ring_reserve(rdmad_ring *ring);
/* Fill in a reserved entry; user_data comes back in the completion. A bad range shows there too,
 * the daemon checks it; prep_* return RDMAD_E_RANGE only when buffer is in no pool of the session,
 * and RDMAD_E_INVAL when lease was granted, not attached, or belongs to another session. Such an
 * entry can be prepared again; as it is the daemon refuses it (RDMAD_E_OPCODE). */
RDMAD_API int rdmad_prep_write(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease,
                               uint64_t offset, const void *buffer, size_t length,
                               uint64_t user_data);
RDMAD_API int rdmad_prep_read(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease,
                              uint64_t offset, void *buffer, size_t length, uint64_t user_data);
RDMAD_API void rdmad_prep_nop(struct rdmad_sqe *sqe, uint64_t user_data);
/* The op's own deadline; without it the daemon's default holds. */
RDMAD_API void rdmad_sqe_set_timeout(struct rdmad_sqe *sqe, uint64_t timeout_ns);
/* Publishes all entries reserved so far (each must have been prepared) and wakes the daemon if it
 * sleeps. Returns how many, or RDMAD_E_DAEMON_LOST; then they complete with it, too. */
RDMAD_API int rdmad_ring_submit(rdmad_ring *ring);

/*
 * The next completion without waiting: 0 and *cqe, or RDMAD_E_AGAIN. *cqe is valid until
 * rdmad_ring_seen. When the daemon is lost, ops in flight complete with RDMAD_E_DAEMON_LOST.
 */
RDMAD_API int rdmad_ring_peek(rdmad_ring *ring, const struct rdmad_cqe **cqe);
/* The same, waiting up to timeout_ms (-1: for ever): spins first, then sleeps. RDMAD_E_TIMEOUT, or
 * RDMAD_E_INVAL when nothing is in flight that could complete. An armed ring must be armed again
 * after it. */
RDMAD_API int rdmad_ring_wait(rdmad_ring *ring, int timeout_ms, const struct rdmad_cqe **cqe);
RDMAD_API void rdmad_ring_seen(rdmad_ring *ring, const struct rdmad_cqe *cqe);
/* What cqe says in full words, with the lease's number in it. Writes at most size bytes. */
RDMAD_API void rdmad_ring_explain(const rdmad_ring *ring, const struct rdmad_cqe *cqe, char *buf,
                                  size_t size);

/* Event loops: asks for the session's descriptor (or rdmad_ring_fd) to become readable at the next
 * completion, once. Returns 0 when armed, RDMAD_E_AGAIN when a completion is there already: peek,
 * or RDMAD_E_DAEMON_LOST when the daemon is lost and every completion was taken. */
RDMAD_API int rdmad_ring_arm(rdmad_ring *ring);
RDMAD_API int rdmad_ring_fd(rdmad_ring *ring);

#ifdef __cplusplus
}
#endif
#endif
