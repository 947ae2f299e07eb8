/* SPDX-License-Identifier: MIT */
/*
 * lease.h - leases at their owner: who granted what to whom until when, and how it ends.
 *
 * The happy path: lease_grant puts a lease into the table; each lessee's attach becomes an
 * attachment (of a session here, or of a peer); lease_end takes the lease through ENDING (every
 * attachment is asked to stop, and cut off when it does not answer within the grace) to ENDED (no
 * attachment can reach the memory any more), and then tells the owner and everybody who waits.
 * Expiry is an end that a timer starts at the deadline, without grace. A renewal moves the deadline
 * at owner, windows and lessees. An ended lease leaves a tombstone, the last lease_tombstones of
 * them: who knows the secret is told why it ended, who does not, that there is no such lease.
 *
 * The data plane knows a lease from before its owner does (lease_when_taken) until nobody reaches
 * its memory, so that its owner can take notifications. One that its owner never hears of has none
 * of its own: those of a child are its root's, and of a requested lease there are none.
 *
 * A lease with RDMAD_RIGHT_DELEGATE may have children (delegate.c): leases of the same owner that
 * grant no more than it does, and that end before it has.
 *
 * How an attachment is stopped is its maker's business (struct attachment_ops), so this file knows
 * neither sockets nor peers.
 *
 * Callbacks (done, attachment_ops) may run inside the call that causes them.
 */
#ifndef RDMAD_STATE_LEASE_H
#define RDMAD_STATE_LEASE_H

#include "common/uri.h"
#include "daemon/state/names.h"
#include "daemon/state/pool.h"
#include <rdmad/abi.h>

struct lease;
struct attachment;

struct lease_terms {
    uint64_t offset, length, ttl_ns;
    uint32_t rights, scope, scope_uid, max_attaches;
    uint32_t flags;      /* RDMAD_LEASE_* */
    uint32_t ends_after; /* releases; 0: none end it */
    char scope_peer[RDMAD_NAME_MAX + 1];
    char name[RDMAD_NAME_MAX + 1];
};

/* Who is kept alive, or may be, has some time to live: renewals cost. */
#define LEASE_KEEP_TTL_MIN_NS NSEC_PER_SEC
/* Leases that are made of one that was granted, however deep. */
#define LEASE_CHILDREN_MAX 256u
#define LEASE_DEPTH_MAX 16u
/* Who waits for the end of one. */
#define LEASE_WAITERS_MAX 64u

/* What a lessee's daemon says of the use of one attach: all so far. It may be a lie, so it is kept
 * apart from what was counted here; a sum is never more than INT64_MAX. */
struct lease_said {
    uint64_t bytes_read, bytes_written, ops;
};

enum lease_stage { LEASE_LIVE, LEASE_ENDING, LEASE_ENDED };

struct lease {
    struct state *state;
    struct session *owner; /* held until ENDED */
    struct pool *pool;     /* referenced until ENDED */
    struct list owner_node;
    struct list by_id; /* in the table */
    struct name name;  /* published only while LIVE and named */
    uint64_t id;
    uint8_t key[RDMAD_KEY_BYTES];
    struct lease_terms terms;
    uint64_t granted_ns, deadline_ns;
    enum lease_stage stage;
    int reason;    /* RDMAD_E_LEASE_* once not LIVE */
    unsigned busy; /* calls under way that must not see it freed */
    struct list attachments;
    uint32_t attached, attached_total;
    struct fabric_audit audit; /* of attachments that are gone; lease_audit adds the others */
    struct lease_said said;    /* likewise */
    struct timer expiry, grace, keep;
    struct list waiters;
    unsigned nwaiters;
    struct quota_charge charge;
    uint32_t releases;
    struct lease *parent; /* of which it was made; NULL: it was granted */
    struct list sibling, children;
    unsigned depth, descendants; /* descendants: of one that was granted */
    bool taken, dropped; /* the data plane knows it; was told to forget it, or never of it */
    unsigned pending;    /* answers of the data plane under way */
    struct session_waiter when_taken;
    bool requested;   /* of a budget, for one lessee: it ends when that one leaves */
    bool handed_over; /* and leaves the memory to the owner */
    void (*ended)(void *arg, const struct lease *l); /* nobody reaches its memory; may be NULL */
    void *ended_arg;
};

struct attachment_ops {
    /* Ask it to stop using the lease; it answers with attachment_stopped, at once or later. */
    void (*stop)(struct attachment *a, int reason);
    /* The lease's deadline_ns has moved; the windows know already. */
    void (*renewed)(struct attachment *a);
    /* The range is out of its reach and a is forgotten here; it may free what it embeds a in. */
    void (*gone)(struct attachment *a, int reason);
};

struct attachment { /* embedded in a struct handle (local) or in a peer's record */
    struct lease *lease;
    struct list node;
    const struct attachment_ops *ops;
    struct plane_window *window; /* peers only: the second wall */
    struct fabric_audit audit;   /* counted by the one worker that serves this lessee */
    struct lease_said said;      /* peers only */
    bool stopping;               /* asked to stop, or stopping by itself */
    bool cut;                    /* its window is being closed */
    struct quota_charge charge;  /* peers only: the range, on the owner's account */
    int reason;                  /* why, once stopping */
    uint64_t peer;
    uint64_t since_ns;
};

int leases_new(struct state *st, struct leases **out);
void leases_free(struct leases *ls); /* every lease has ended */

int lease_grant(struct pool *pool, const struct lease_terms *terms, struct lease **out,
                struct error *err);
/* done once the data plane knows of it, before which its owner must not; or why it is over. */
void lease_when_taken(struct lease *l, plane_done *done, void *arg);
/* Prints what the owner hands out: by name when published, else by number and secret. */
void lease_uri(const struct lease *l, char uri[RDMAD_URI_MAX + 1]);
/* By number and secret, or by name. Tells tombstones from leases that never were. */
int lease_find(struct leases *ls, const struct rdmad_uri *uri, struct lease **out,
               struct error *err);
struct lease *lease_by_id(struct leases *ls, uint64_t id); /* alive or ending */
/* Checks stage, scope, max_attaches; on success a is attached. */
int lease_attach(struct lease *l, const struct lessee *who, struct attachment *a,
                 const struct attachment_ops *ops, struct error *err);
/* The answer to stop: it does not use the lease any more. */
void attachment_stopped(struct attachment *a);
/* The lessee gives it back by itself: cut, then gone. Of a max_attaches == 1 lease this ends the
 * lease too, as does the ends_after'th release. */
void attachment_release(struct attachment *a);
/* The same, of a requested lease: its memory becomes the owner's. false: it has ended before. */
bool attachment_hand_over(struct attachment *a);
/* The lessee never had it, or is lost: cut, then gone; the lease lives on. */
void attachment_drop(struct attachment *a);

/* The lease ends ttl_ns from now instead; its children not later. */
int lease_renew(struct lease *l, uint64_t ttl_ns, struct error *err);
/* A lessee asks for renewal by its ttl: RDMAD_E_PERM unless RDMAD_LEASE_RENEWABLE. While more than
 * half of the ttl is left there is nothing to do. */
int lease_keep(struct lease *l, struct error *err);
/* done (may be NULL) when nobody can reach the memory. Ending twice just waits for the first; but
 * done gets RDMAD_E_BUSY at once when LEASE_WAITERS_MAX wait already. The owner's client gets
 * RDMAD_EV_LEASE_ENDED before any done runs, whatever the reason; one that does not read, when it
 * reads again. */
void lease_end(struct lease *l, int reason, plane_done *done, void *arg);
/* Ends all leases of a session; done when the last has ended. */
void leases_end_session(struct session *s, int reason, plane_done *done, void *arg);
/* lease_told.c: the client reads again, and hears of the ends that it missed. */
void leases_tell(struct session *s);

/* ---- delegate.c ---- */

/* Makes a narrower lease of parent: offset into it; rights 0: all of its but DELEGATE; ttl_ns is
 * cut to what is left of parent. Of the same owner, scope and account. */
struct lease_part {
    uint64_t offset, length, ttl_ns;
    uint32_t rights, max_attaches;
};
int lease_delegate(struct lease *parent, const struct lease_part *part, struct lease **out,
                   struct error *err);

/* The lease as which its owner takes the notifications of l's lessees; NULL: there is none. */
const struct lease *lease_notified(const struct lease *l);

/* All use of it so far. */
void lease_audit(const struct lease *l, struct fabric_audit *out);
/* The lessee's daemon says it; less than it said before is nothing. */
void attachment_said(struct attachment *a, const struct lease_said *said);
void lease_said(const struct lease *l, struct lease_said *out);
void lease_audit_keep(struct lease *l, const struct attachment *a); /* which goes */
/* "lease 7 expired 1.2 s ago; ask its owner for a new one" */
int lease_ended_error(uint64_t id, int reason, uint64_t ago_ns, struct error *err);

/* For show: live ones, and what is remembered of the ended. */
struct lease_view {
    uint64_t id, owner_session, offset, length, pool, ttl_ns, ended_ago_ns;
    uint64_t parent; /* 0: none */
    uint32_t rights, flags, scope, attached, attached_total;
    bool requested;
    uid_t owner_uid;
    int reason; /* 0: alive */
    char name[RDMAD_NAME_MAX + 1];
    struct fabric_audit audit;
    struct lease_said said;
};
void leases_view(struct leases *ls, bool with_ended,
                 void (*each)(void *arg, const struct lease_view *view), void *arg);
/* What is remembered of one that ended; false when nothing is. */
bool lease_ended_view(struct leases *ls, uint64_t id, struct lease_view *out);
unsigned leases_count(const struct leases *ls);

#endif
