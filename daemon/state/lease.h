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
 * How an attachment is stopped is its maker's business (struct attachment_ops), so this file knows
 * neither sockets nor peers.
 *
 * Callbacks (done, attachment_ops) may run inside the call that causes them.
 */
#ifndef RDMAD_STATE_LEASE_H
#define RDMAD_STATE_LEASE_H

#include "common/uri.h"
#include "daemon/state/pool.h"
#include <rdmad/abi.h>

struct lease;
struct attachment;

struct lease_terms {
    uint64_t offset, length, ttl_ns;
    uint32_t rights, scope, scope_uid, max_attaches;
    char scope_peer[RDMAD_NAME_MAX + 1];
    char name[RDMAD_NAME_MAX + 1];
};

enum lease_stage { LEASE_LIVE, LEASE_ENDING, LEASE_ENDED };

struct lease {
    struct state *state;
    struct session *owner; /* held until ENDED */
    struct pool *pool;     /* referenced until ENDED */
    struct list owner_node;
    struct list by_id, by_name; /* in the table; by_name only while LIVE and named */
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
    struct timer expiry, grace;
    struct list waiters;
    struct quota_charge charge;
};

/* Who attaches: a session of this daemon, or a peer at an address. */
struct lessee {
    struct session *session; /* NULL: a peer */
    uint64_t peer;           /* 0: a session */
    const char *address;     /* the peer's IP address as its socket tells it */
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
 * lease too. */
void attachment_release(struct attachment *a);
/* The lessee never had it, or is lost: cut, then gone; the lease lives on. */
void attachment_drop(struct attachment *a);

/* The lease ends ttl_ns from now instead. */
int lease_renew(struct lease *l, uint64_t ttl_ns, struct error *err);
/* done (may be NULL) when nobody can reach the memory. Ending twice just waits for the first. The
 * owner's client gets RDMAD_EV_LEASE_ENDED before any done runs, whatever the reason. */
void lease_end(struct lease *l, int reason, plane_done *done, void *arg);
/* Ends all leases of a session; done when the last has ended. */
void leases_end_session(struct session *s, int reason, plane_done *done, void *arg);

/* All use of it so far. */
void lease_audit(const struct lease *l, struct fabric_audit *out);
/* "lease 7 expired 1.2 s ago; ask its owner for a new one" */
int lease_ended_error(uint64_t id, int reason, uint64_t ago_ns, struct error *err);

/* For show: live ones, and what is remembered of the ended. */
struct lease_view {
    uint64_t id, owner_session, offset, length, pool, ttl_ns, ended_ago_ns;
    uint32_t rights, scope, attached, attached_total;
    uid_t owner_uid;
    int reason; /* 0: alive */
    char name[RDMAD_NAME_MAX + 1];
    struct fabric_audit audit;
};
void leases_view(struct leases *ls, bool with_ended,
                 void (*each)(void *arg, const struct lease_view *view), void *arg);
/* What is remembered of one that ended; false when nothing is. */
bool lease_ended_view(struct leases *ls, uint64_t id, struct lease_view *out);
unsigned leases_count(const struct leases *ls);

#endif
