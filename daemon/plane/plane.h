/* SPDX-License-Identifier: MIT */
/*
 * plane.h - all that the control thread may ask of the data plane.
 *
 * This is the seam between threads. Above it (state/, serve/, peer/, ctl/) runs the control thread;
 * below it (op/, fabric/) run the workers, each alone with its own tables. Every call here is made
 * on the control thread and posts a message; nothing is shared but memory that both sides only
 * read, counters (fabric_audit) and rings. Calls take effect in the order made, per worker. A done
 * callback runs on the control thread, once, in a later turn of its loop.
 *
 * A session lives on one worker with all its rings, pools and leases. A peer's incoming connections
 * and the windows it may use live on one worker too (plane_worker_of_peer). The opaque objects
 * (plane_session, plane_lane, plane_window) belong to the caller until the call that ends them;
 * after it they must not be used again, though their end is reported later by done.
 *
 * Links are of one or two fabrics, which are numbered as plane_settings.fabrics lists them. Calls
 * about a peer say which of them the two daemons have agreed on ("fabric"): that is the same for
 * everything that goes with one control connection.
 */
#ifndef RDMAD_PLANE_PLANE_H
#define RDMAD_PLANE_PLANE_H

#include "daemon/base/error.h"
#include "daemon/base/histogram.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/user_id.h"
#include "daemon/fabric/fabric.h"
#include <stdbool.h>

struct plane;
struct plane_session;
struct plane_lane;
struct plane_window;
struct plane_trace;
struct ring; /* ipc/ring.h */

typedef void plane_done(void *arg, const struct error *result);

enum plane_rate { PLANE_RATE_BYTES, PLANE_RATE_OPS, PLANE_RATES };

/* What the data plane tells by itself, on the control thread. cookies are those of the adds. */
struct plane_events {
    void *user;
    /* A client broke the ring protocol or its memory vanished: the session takes no more sqes and
     * the receiver must drop it. Reported once a session. */
    void (*session_violated)(void *user, void *session_cookie, const struct error *why);
    /* The lane's link broke, not while it is being opened (open's done tells that). */
    void (*lane_lost)(void *user, void *lane_cookie, const struct error *why);
    /* The other end closed the channel in order (RDMAD_E_CLOSED) or abruptly (RDMAD_E_CANCELED), or
     * it broke the protocol of channels (then its daemon lies). Called once a channel; its ops have
     * ended with this reason or are ending with it. It may still come after a call of
     * plane_channel_end which the worker had not heard of yet, but not after that call's done. */
    void (*channel_closed)(void *user, void *channel_cookie, const struct error *why);
    /* Client memory vanished that is in no pool of the worker that touched it (but behind a window,
     * or in a lease of another worker's session): the session that owns the address must be
     * dropped. May be NULL. */
    void (*memory_fault)(void *user, const void *address);
    /* A user was put aside for that rate: told once in PLANE_TOLD_NS of each. May be NULL. */
    void (*user_throttled)(void *user, struct user_id who, enum plane_rate by);
    /* A peer is held by that rate at a worker: told by each once in a minute. May be NULL. */
    void (*peer_throttled)(void *user, uint64_t peer, enum plane_rate by);
    /* An op of the session failed that plane_session_failures knows. Called once until
     * plane_session_hear_failures, and perhaps once after it, of what that has seen already. It may
     * still come while the session is dropped. May be NULL. */
    void (*session_failed)(void *user, void *session_cookie);
};
#define PLANE_TOLD_NS (60 * NSEC_PER_SEC)

#define PLANE_FABRICS_MAX 2u

struct plane_settings {
    unsigned workers;
    uint64_t spin_min_ns, spin_max_ns; /* bounds of the adaptive spin before a worker sleeps */
    uint64_t default_timeout_ns;       /* of ops */
    uint64_t max_timeout_ns;           /* larger ones are cut to this */
    uint64_t expiry_margin_ns;         /* how long before its deadline a leased link is not used */
    uint32_t max_session_ops;          /* in flight per session */
    uint64_t max_uid_ops, max_ops;     /* the same for a user, and for all */
    /* RECVs and NOTIFIEDs that wait; they do not count as ops in flight. */
    uint64_t max_session_waits, max_uid_waits, max_waits;
    bool keeps_last; /* the last part of what all may have is for other users */
    /* The fabrics that links can be of, the best first, then NULL. At most one of them has
     * memory_add: memory in ops and windows is that fabric's, and the others do not read it. */
    const struct fabric_ops *fabrics[PLANE_FABRICS_MAX];
    struct fabric_settings fabric_settings;
};

/* How many fabrics links can be of. */
static inline unsigned plane_settings_fabrics(const struct plane_settings *s) {
    unsigned n = 0;
    while (n < PLANE_FABRICS_MAX && s->fabrics[n])
        n++;
    return n;
}

int plane_start(const struct plane_settings *settings, const struct plane_events *events,
                struct mailbox *control, struct plane **out, struct error *err);
void plane_stop(struct plane *p); /* every object must have been dropped and reported */

/* The fabric of that number, 0 being the best; NULL: there are no more. */
const struct fabric_ops *plane_fabric(const struct plane *p, unsigned fabric);
/* NULL where the fabric has none. */
struct fabric_host *plane_fabric_host(const struct plane *p, unsigned fabric);
/* How long an op may hold on to memory after its cancellation. */
uint64_t plane_quiesce_ns(const struct plane *p, unsigned fabric);
void plane_set_spin(struct plane *p, uint64_t min_ns, uint64_t max_ns); /* reload */
/* Whether the worker has read the mail that this posted the last time; if so, posts the next. */
bool plane_worker_turns(struct plane *p, unsigned worker);

struct plane_counters { /* sums over workers; relaxed snapshots */
    uint64_t ops, bytes_read, bytes_written, ops_failed, ops_inflight;
    uint64_t wakeups_sent, sleeps;
    uint64_t lanes_in;           /* accepted connections of peers, now, */
    uint64_t lanes_in_encrypted; /* and those of them that are encrypted */
};
void plane_count(const struct plane *p, struct plane_counters *out);

enum plane_route { PLANE_LOCAL, PLANE_LINK, PLANE_ROUTES };
#define PLANE_CODES 64u /* more than there are statuses, which count as -status */

/* How ops ended: how long those took that were done, from the turn in which a worker took them to
 * the one in which it published their completion, and how often they failed, by status. Of RECVs
 * and NOTIFIEDs, which wait for somebody else, there are only failures. */
struct plane_tally {
    struct histogram latency;
    uint64_t failed[PLANE_CODES];
};
/* Of all sessions there ever were, by kind and route. A SEND's route is its channel's. */
void plane_latency(const struct plane *p, uint8_t opcode, enum plane_route route,
                   struct histogram *out);
void plane_failures(const struct plane *p, uint64_t out[PLANE_CODES]);

/* ---- shares ------------------------------------------------------------------------------ */

#define PLANE_WEIGHT_DEFAULT 100u
#define PLANE_WEIGHT_MAX 10000u

/* What somebody gets of a worker's time, of every link and of the local route while others want
 * them, too: weight parts of what all who want something have together. A priority multiplies the
 * weight by 16 (high) or divides it by 16 (low), so nobody starves. Rates are all workers'
 * together. */
struct plane_share {
    uint32_t weight;           /* 1 to PLANE_WEIGHT_MAX */
    uint64_t bytes_per_second; /* that are moved; 0: as many as there is time for */
    uint64_t ops_per_second;   /* sqes of all kinds, and what costs as much; 0: likewise */
    int priority;              /* -1 low, 0, 1 high */
};
#define PLANE_SHARE_DEFAULT ((struct plane_share){.weight = PLANE_WEIGHT_DEFAULT})

/* From now on, for the sessions that the user has, and those that it will have before the last of
 * them has gone; of a user without a session nothing is remembered but what it owes its rates.
 * Takes effect while ops are under way; of what is owed by the former rates a second is left.
 * Returns 0, or RDMAD_E_INVAL: out of bounds, and nothing has changed. */
int plane_user_share(struct plane *p, struct user_id user, const struct plane_share *share);
/* The same for what a peer's daemon asks of us, by the connections that it has and will have. It is
 * forgotten with plane_expel. Its rates are a worker's: a peer's leases are served by one. Only
 * fabrics whose bytes this CPU moves can hold a peer to it, and they know no priorities but as
 * weights. It may come before the first offer to the peer. A worker that has no memory for it says
 * so in the log. Returns 0 or RDMAD_E_INVAL. */
int plane_peer_share(struct plane *p, uint64_t peer, const struct plane_share *share);

/* How many ops and waits the user's sessions may have, instead of the settings'; 0: as those say.
 * It lasts until the user's last session has ended; harmless when it has none. */
struct plane_limits {
    uint64_t uid_ops, uid_waits, session_waits;
};
void plane_user_limits(struct plane *p, struct user_id user, const struct plane_limits *limits);

struct plane_user_stats {
    struct plane_share share;
    uint64_t throttled_ns; /* in all, since the user's first session: put aside for a rate */
    uint64_t throttled;    /* how often that was */
};
/* What holds for the user, who need not have a session. */
void plane_user_stats(const struct plane *p, struct user_id user, struct plane_user_stats *out);

/* ---- traces ------------------------------------------------------------------------------ */

/* Which ops are of a trace; all zero: all of them. */
struct plane_trace_filter {
    uint64_t session; /* 0: of any */
    uint64_t peer; /* that goes to the peer of that number (plane_lane_peer); 0: to any, or none */
    uint64_t slower_ns; /* that took longer; 0: or not */
    uint32_t opcodes;   /* a bit each; 0: all */
    struct user_id user;
    bool of_uid;                   /* of that uid's sessions, by whatever socket, */
    bool of_user;                  /* or of that user's alone */
    bool failed;                   /* that was not done */
    bool begun;                    /* as they begin, too; never with slower_ns or failed */
    char node[RDMAD_NAME_MAX + 1]; /* that goes to a peer of that name; "": to any, or none */
};

/* An op of a client that has ended, or begun. */
struct plane_traced {
    uint64_t at_ns;                    /* when its completion was published; or it was taken */
    uint64_t span_ns;                  /* since it was taken */
    uint64_t session, peer, user_data; /* peer 0: none */
    uint64_t bytes;                    /* that it was to move; of a RECV those that came */
    uint64_t lease;                    /* the owner's number of it; 0: none */
    struct user_id user;
    int status;
    uint8_t opcode; /* may be none that there is */
    uint8_t outcome;
    uint8_t route; /* PLANE_ROUTES: none, or it is not known */
    bool begun;
    char node[RDMAD_NAME_MAX + 1]; /* the peer's */
};

/* Begins with what each worker takes from now on. What nobody reads in time is dropped, some
 * thousand records on, and counted; no worker waits for a reader. NULL: out of memory. */
struct plane_trace *plane_trace_begin(struct plane *p, const struct plane_trace_filter *filter);
/* The oldest, at most so many; returns how many. */
unsigned plane_trace_read(struct plane_trace *t, struct plane_traced *out, unsigned room);
bool plane_trace_more(const struct plane_trace *t);        /* there is something to read */
uint64_t plane_trace_dropped(const struct plane_trace *t); /* so far */
void plane_trace_end(struct plane_trace *t);               /* and frees it */

/* ---- sessions ---------------------------------------------------------------------------- */

struct plane_session_stats { /* written by the worker, relaxed */
    uint64_t ops, bytes_read, bytes_written, ops_failed, ops_inflight;
};

/* Puts the session on the least loaded worker. NULL when out of memory. */
struct plane_session *plane_session_add(struct plane *p, uint64_t id, struct user_id user,
                                        void *cookie);
const struct plane_session_stats *plane_session_stats(const struct plane_session *s);
/* A copy, as of now, for other threads than the worker. */
static inline struct plane_session_stats plane_session_stats_now(const struct plane_session *s) {
    const struct plane_session_stats *live = plane_session_stats(s);
    return (struct plane_session_stats){
        .ops = __atomic_load_n(&live->ops, __ATOMIC_RELAXED),
        .bytes_read = __atomic_load_n(&live->bytes_read, __ATOMIC_RELAXED),
        .bytes_written = __atomic_load_n(&live->bytes_written, __ATOMIC_RELAXED),
        .ops_failed = __atomic_load_n(&live->ops_failed, __ATOMIC_RELAXED),
        .ops_inflight = __atomic_load_n(&live->ops_inflight, __ATOMIC_RELAXED)};
}
/* Its tally; the same copy. */
void plane_session_tally(const struct plane_session *s, struct plane_tally *out);
/* The second half of it. */
void plane_session_by_status(const struct plane_session *s, uint64_t failed[PLANE_CODES]);
/* Adds that of the tally's times alone. */
void plane_session_latency(const struct plane_session *s, struct histogram *to);
/* Its last ops that failed and were not canceled, the oldest first. Returns how many. */
#define PLANE_FAILURES 8u
struct plane_failure {
    uint64_t at_ns, user_data, length, bytes; /* bytes: that were placed all the same */
    uint64_t lease;                           /* the owner's number of it; 0: there is none */
    uint64_t offset;                          /* in that */
    uint64_t nth;  /* of all those of the session that ended with this status, from 1 on */
    uint64_t peer; /* to whom it went, or would have gone (plane_lane_peer); 0: to none */
    int status;
    uint8_t opcode, outcome, route;
    char node[RDMAD_NAME_MAX + 1]; /* the peer's */
};
unsigned plane_session_failures(const struct plane_session *s,
                                struct plane_failure out[PLANE_FAILURES]);
/* How many there ever were of those, by status: the tally without what was canceled, and without
 * CANCELs in vain. */
void plane_session_failed(const struct plane_session *s, uint64_t out[PLANE_CODES]);
/* events.session_failed is called for the next one. Made before the calls above: for each that they
 * do not tell yet. */
void plane_session_hear_failures(struct plane_session *s);
/* Nothing is taken from the session's rings any more, or, with pause false, it is again. done: so
 * it is. Ops that were taken before go on to their ends, leases and channels live on, and the end
 * of the session, or of anything of it, waits for no resume. */
void plane_session_pause(struct plane_session *s, bool pause, plane_done *done, void *arg);
/* Whether the session's program has shown a sign of life since the last call: has submitted to one
 * of its rings, taken completions from one, or looked for some. done: RDMAD_OK, or RDMAD_E_AGAIN if
 * it has not. Wakes a thread that waits at a ring, so that it can show the next one. */
void plane_session_ask_alive(struct plane_session *s, plane_done *done, void *arg);
/* The daemon stops, and the session, which is paused, goes on with the next. part: its channels
 * neither send nor take any more, and a way that comes later leads nowhere. done: nothing of them
 * is on the way at either end; it may never be, if a peer does not answer. leave: what is still on
 * the way ends, as unknown where nobody knows. From then on SENDs that have not left, RECVs and
 * NOTIFIEDs end without a word: they are the next daemon's. done: so it is, if
 * plane_session_has_left says so. */
void plane_session_part(struct plane_session *s, plane_done *done, void *arg);
void plane_session_leave(struct plane_session *s, plane_done *done, void *arg);
bool plane_session_has_left(const struct plane_session *s); /* after leave's done */
/* Takes no more sqes, ends every op, forgets rings, pools and leases. done: nothing of the worker
 * touches their memory any more; the caller may unmap and close it. Until done has returned what
 * the session came to can be read as before, and in it that is the last. */
void plane_session_drop(struct plane_session *s, plane_done *done, void *arg);

/* The ring belongs to the worker until drop's done, then to the caller again. */
void plane_ring_add(struct plane_session *s, uint64_t handle, struct ring *ring, plane_done *done,
                    void *arg);
void plane_ring_drop(struct plane_session *s, uint64_t handle, plane_done *done, void *arg);

/* Makes a pool known to the devices, and unknown again. Both may take long: call them on any thread
 * but the control thread and the workers. *out is NULL where the fabric needs none. Remove it when
 * the pool was dropped and no window is over it. */
int plane_memory_add(struct plane *p, void *base, uint64_t bytes, struct fabric_memory **out,
                     struct error *err);
void plane_memory_remove(struct plane *p, struct fabric_memory *memory);

void plane_pool_add(struct plane_session *s, uint64_t handle, void *base, uint64_t bytes,
                    struct fabric_memory *memory, plane_done *done, void *arg);
/* Ends the ops that use the pool (CANCELED). done: the caller may unmap it. */
void plane_pool_drop(struct plane_session *s, uint64_t handle, plane_done *done, void *arg);

/* ---- leases, the lessee's side ----------------------------------------------------------- */

struct plane_lease_spec {
    uint64_t lease_id; /* the owner's number, for messages */
    uint64_t length;
    uint32_t rights;
    uint64_t deadline_ns;
    /* Route link: the lane and the peer's key (size 0: not known yet, ops wait for
     * plane_lease_key). Route local: lane NULL, and base. audit is counted by whoever moves the
     * bytes: the local fabric, or on a link (then audit may be NULL) the worker, for its own ops.
     */
    struct plane_lane *lane;
    struct fabric_blob key;
    void *base;
    struct fabric_audit *audit;
    /* Where a NOTIFY goes. Route link: notify_ref, the owner's reference of the attach. Route
     * local: to session owner, about lease notify_lease, which it was told of by plane_grant_add:
     * this lease, or the one that this is a part of. 0 or NULL: nobody takes notifications, and
     * each NOTIFY is refused. */
    uint64_t notify_ref;
    struct plane_session *owner;
    uint64_t notify_lease;
};
void plane_lease_add(struct plane_session *s, uint64_t handle, const struct plane_lease_spec *spec,
                     plane_done *done, void *arg);
void plane_lease_extend(struct plane_session *s, uint64_t handle, uint64_t deadline_ns);
/* The lease's owner is back after its daemon was lost: it lasts until deadline_ns, and the owner's
 * daemon knows the attach by notify_ref. The key follows. */
void plane_lease_return(struct plane_session *s, uint64_t handle, uint64_t deadline_ns,
                        uint64_t notify_ref);
/* The key by which the lease's lane, which is up, reaches it: ops that wait go on. */
void plane_lease_key(struct plane_session *s, uint64_t handle, const struct fabric_blob *key);
/* From now on ops on the handle fail with reason; those under way end with it. done: none is left
 * and the range is not touched any more. The handle then still answers sqes with reason until
 * plane_lease_forget. */
void plane_lease_end(struct plane_session *s, uint64_t handle, int reason, plane_done *done,
                     void *arg);
void plane_lease_forget(struct plane_session *s, uint64_t handle);

/* ---- leases, the owner's side: notifications ---------------------------------------------- */

/* The session granted the lease: until the drop a NOTIFIED may name it, and lessees may notify.
 * Notifications that nobody took are dropped with it; a NOTIFIED that waits ends with reason. */
void plane_grant_add(struct plane_session *s, uint64_t lease_id, plane_done *done, void *arg);
void plane_grant_drop(struct plane_session *s, uint64_t lease_id, int reason, plane_done *done,
                      void *arg);

/* ---- channels ---------------------------------------------------------------------------- */

/* One end of a channel, on its session's worker. The other end is on the same daemon (lane NULL) or
 * on a peer's; each end has a number, unique in its daemon, that the other end's messages name.
 *
 * What crosses the wire between the two ends is op/channel/wire.h's own. Messages to the peer go by
 * lane, those from it come by the connections of peer_in, whose control connection must therefore
 * have asked for its link on this worker (LINK_REQ's worker).
 *
 *     plane_channel_add, plane_channel_open once the other end is added too, then
 *     events.channel_closed or not, plane_channel_end, plane_channel_forget. */
struct plane_channel_stats { /* written by the worker, relaxed */
    uint64_t messages_sent, bytes_sent, messages_received, bytes_received;
    uint64_t sends, sends_waiting;    /* SENDs that have not ended; those that were not sent yet */
    uint64_t receives_posted, stalls; /* stalls: sends that found no receive */
    uint64_t lost;                    /* of unreliable kinds: dropped here */
    uint64_t resent;                  /* after a link was made anew */
};
struct plane_channel_spec {
    uint64_t number; /* ours */
    uint32_t kind;   /* enum rdmad_channel_kind, one that the fabric has */
    struct plane_lane *lane;
    uint64_t peer_in;                  /* of the lane's fabric, too */
    struct plane_channel_stats *stats; /* outlives the channel */
    void *cookie;
};
void plane_channel_add(struct plane_session *s, uint64_t handle,
                       const struct plane_channel_spec *spec, plane_done *done, void *arg);
/* The other end is there, and has this number. peer: its session, when it is on this daemon (it
 * must outlive the channel's end), else NULL. */
void plane_channel_open(struct plane_session *s, uint64_t handle, uint64_t peer_number,
                        struct plane_session *peer);
/* A reliable channel to a peer has lost its way there: what it has on the way ends, as unknown
 * where nobody knows, and its SENDs that have not left and its RECVs wait for another. done:
 * nothing of it uses the lane or reaches its buffers any more; or RDMAD_E_PEER_LOST: its other end
 * has ended, and it ends with that. */
void plane_channel_rest(struct plane_session *s, uint64_t handle, plane_done *done, void *arg);
/* It has rested, or was added without a lane: it is to be opened next, over that lane or (NULL) to
 * an end on this daemon; messages to it name another number. RDMAD_E_PEER_LOST: the lane is of
 * another fabric than the one before, or there is none any more; or its other end has ended. */
void plane_channel_way(struct plane_session *s, uint64_t handle, uint64_t number,
                       struct plane_lane *lane, uint64_t peer_in, plane_done *done, void *arg);
/* linger: sends submitted before are delivered first, and the other end is told that there are no
 * more; without it they end with reason, as everything else that is posted does. done: no op of the
 * channel is under way and nothing reaches its buffers. The handle then still answers sqes with
 * reason until the forget. */
void plane_channel_end(struct plane_session *s, uint64_t handle, int reason, bool linger,
                       plane_done *done, void *arg);
void plane_channel_forget(struct plane_session *s, uint64_t handle);

/* ---- lanes: where a worker initiates ops to a peer --------------------------------------- */

/* A lane serves the sessions of one worker and is one link at a time. While it is down (before the
 * first open, and from its loss until the next), ops on its leases wait, at most until their
 * deadline; what was in flight when it broke ends as what it came to, except READs and what is
 * known untouched, which wait too. A lane that comes up again has its leases without keys:
 * plane_lease_key gives each its new one.
 *
 *     plane_lane_new, then as often as needed: plane_lane_hello, (the peer answers with an offer),
 *     plane_lane_open, events.lane_lost; at last plane_lane_drop. */
typedef void plane_blob_done(void *arg, const struct error *result, const struct fabric_blob *blob);

unsigned plane_worker_of_session(const struct plane_session *s);
/* secured: nobody but the peer can read what its control connection carries. NULL when out of
 * memory. */
struct plane_lane *plane_lane_new(struct plane *p, unsigned fabric, unsigned worker, bool secured,
                                  void *cookie);
/* Whose it is, for traces; before anything else is asked of it. */
void plane_lane_peer(struct plane_lane *lane, uint64_t number, const char *node);
const struct fabric_ops *plane_lane_fabric(const struct plane_lane *lane);
/* Makes a new link, instead of any that it had; done's blob is the hello for the peer. */
void plane_lane_hello(struct plane_lane *lane, plane_blob_done *done, void *arg);
/* done: connected, or why not; then another hello may follow. */
void plane_lane_open(struct plane_lane *lane, const char *host, const struct fabric_blob *offer,
                     plane_done *done, void *arg);
/* The peer's number for the link, for its windows, from open's done to the next hello. When open
 * failed: 0 if the peer knows of no link, else what to tell it to forget. */
uint64_t plane_lane_number(const struct plane_lane *lane);
/* Bytes of the longest datagram that a channel can send by that link; 0: none. As the number. */
uint64_t plane_lane_datagram(const struct plane_lane *lane);
/* What keeps others from reading what its link carries. As the number. */
enum fabric_encryption plane_lane_encryption(const struct plane_lane *lane);
/* What sessions did by the lane's links, but for messages; from any thread. */
struct plane_lane_stats { /* written by the worker, relaxed */
    uint64_t ops, bytes_read, bytes_written, ops_failed, ops_inflight;
    uint64_t failed[PLANE_CODES]; /* ops_failed, by status */
    /* As of the last plane_lane_look: */
    uint64_t looked_ns; /* when that was; 0: never, or the fabric does not know */
    uint64_t rtt_ns, bytes_per_second;
    uint64_t retransmits; /* of all its links */
    struct histogram latency;
};
void plane_lane_stats(const struct plane_lane *lane, struct plane_lane_stats *out);
/* Has the worker look how the link's network does, in its next turn. */
void plane_lane_look(struct plane_lane *lane);
/* Nothing more is posted on its link until the next one is up; what is posted already goes on.
 * done: 0 when none of that is left, else RDMAD_E_BUSY; ask again. */
void plane_lane_rest(struct plane_lane *lane, plane_done *done, void *arg);
/* Ends its link, if it has one, as if it had broken; ops wait for the next. done: so it is. */
void plane_lane_unlink(struct plane_lane *lane, plane_done *done, void *arg);
/* Ends the ops on it (PEER_LOST): leases on it should have ended first. */
void plane_lane_drop(struct plane_lane *lane, plane_done *done, void *arg);

/* ---- windows and offers: the owner's side ------------------------------------------------ */

unsigned plane_worker_of_peer(const struct plane *p, uint64_t peer);
unsigned plane_workers(const struct plane *p);

/* Makes an offer on that worker: for leases plane_worker_of_peer, for channels that of their
 * session. secured: as for lanes. */
void plane_offer_on(struct plane *p, unsigned fabric, unsigned worker, uint64_t peer, bool secured,
                    const struct fabric_blob *hello, plane_blob_done *done, void *arg);
void plane_offer(struct plane *p, unsigned fabric, uint64_t peer, bool secured,
                 const struct fabric_blob *hello, plane_blob_done *done, void *arg);
/* The peer says that it has closed its link of that number, which not every fabric notices. */
void plane_forget(struct plane *p, unsigned fabric, uint64_t peer, uint64_t number,
                  plane_done *done, void *arg);
/* Drops the peer's connections and its unused offers; its windows stay until closed. */
void plane_expel(struct plane *p, unsigned fabric, uint64_t peer, plane_done *done, void *arg);

/* Where the notifications of the lessee behind a window go. */
struct plane_window_notify {
    uint64_t ref;                /* by which it names the attach */
    struct plane_session *owner; /* who is told, */
    uint64_t lease_id;           /* about this lease */
};
/* Opens a window on the worker of spec->peer. done's blob is the key for the lessee. notify: it may
 * notify, over the peer's connections only, as long as there is the window; NULL: it may not. Close
 * it even if opening it fails. NULL: out of memory; then done is not called. */
struct plane_window *plane_window_open(struct plane *p, unsigned fabric,
                                       const struct fabric_window_spec *spec,
                                       const struct plane_window_notify *notify,
                                       plane_blob_done *done, void *arg);
/* Closes the window, if it ever opened, and opens it anew for the peer's link of that number;
 * done's blob is the new key. Not before the open's or the last reopen's done. PEER_LOST: the peer
 * has no link of that number (any more). */
void plane_window_reopen(struct plane_window *w, uint64_t via, plane_blob_done *done, void *arg);
void plane_window_extend(struct plane_window *w, uint64_t deadline_ns);
/* At any time. done: not one byte more is written to or read from the range through this window; an
 * open or reopen under way is answered (CANCELED) before. */
void plane_window_close(struct plane_window *w, int reason, plane_done *done, void *arg);

#endif
