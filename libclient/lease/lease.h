/* SPDX-License-Identifier: MIT */
/*
 * lease.h - a lease as its owner or a lessee has it, and the session's table of leases.
 *
 * A lease enters the table in the moment its reply arrives, before any later message is looked at,
 * so that no event of it is missed. For that its object is made before the request is sent.
 *
 *     new --- reply --> in the table, alive --- event, or revoke answered --> in the table, ended
 *      |                       |                                                    |
 *      +-- refused --> freed   +------------ free, hand over, close ----------------+--> gone
 *
 * Its end is told exactly once, and of renewals only the latest.
 */
#ifndef RDMAD_LIBCLIENT_LEASE_H
#define RDMAD_LIBCLIENT_LEASE_H

#include "libclient/control/control.h"
#include "libclient/control/event_queue.h"
#include "libclient/memory/lent.h"

enum rdmad_lease_side {
    RDMAD_LEASE_GRANTED,   /* by this session, its owner */
    RDMAD_LEASE_ATTACHED,  /* this session is a lessee */
    RDMAD_LEASE_REQUESTED, /* the same, of a service */
};

struct rdmad_lease {
    struct rdmad_object object;
    struct rdmad_session *session;
    struct rdmad_lease *next; /* in its bucket */
    enum rdmad_lease_side side;
    uint64_t id;     /* the owner's number */
    uint64_t handle; /* lessee: what sqes name */
    struct rdmad_lent lent;
    uint64_t length;
    uint32_t rights;
    uint64_t deadline_ns; /* CLOCK_BOOTTIME */
    int ended;            /* 0: alive; else why not */
    uint64_t ended_ns;
    struct rdmad_event_source source;
    bool tell_ended, tell_renewed; /* events not taken yet */
    bool let_go;                   /* lessee: by the program; no daemon is asked for it again */
    bool away;                     /* lessee: its owner's daemon has gone, and may come back */
    bool awaited;                  /* and its daemon says that it waits for that */
    bool asked;                    /* lessee: the daemon at hand has been asked for it */
    bool kept;                     /* lessee: by rdmad_lease_keep */
    bool to_ask;                   /* of a daemon that takes the session over: not yet */
    struct rdmad_lease_grant_req grant; /* owner: on which terms, for the next daemon */
    char ended_text[RDMAD_TEXT_MAX + 1];
    char uri[RDMAD_URI_MAX + 1];
    char fabric[16];
    void *user;
};

static inline bool rdmad_lease_is_own(const struct rdmad_lease *lease) {
    return lease->side == RDMAD_LEASE_GRANTED;
}

/* With the session's lock: by the owner's number, or by the lessee's handle. */
struct rdmad_lease *rdmad_lease_find(struct rdmad_session *s, bool owner, uint64_t number);

/* Makes one that is in no table yet. NULL: out of memory, with the error set. */
struct rdmad_lease *rdmad_lease_new(struct rdmad_session *s, enum rdmad_lease_side side);
/* Makes the call, whose accept fills in lease. On success *out is lease, else lease is freed. */
int rdmad_lease_make(struct rdmad_lease *lease, struct rdmad_call *call, rdmad_lease **out);
/* For accept: the lease has its numbers, and lives for ttl_ns from when its daemon was asked. */
void rdmad_lease_accept(struct rdmad_lease *lease, uint64_t ttl_ns);

/* Return RDMAD_E_PERM with a sentence: that only an owner can do what ("renew"); that a lease that
 * was granted cannot be what ("kept by a lessee"). */
int rdmad_lease_owner_only(const struct rdmad_lease *lease, const char *what);
int rdmad_lease_lessee_only(const struct rdmad_lease *lease, const char *what);

/* With the lock: its life is over, which is an event. */
void rdmad_lease_ended(struct rdmad_lease *lease, int reason, const char *text);
/* Frees a lease that the daemon has forgotten and that has ended as an object. */
void rdmad_lease_forget(struct rdmad_lease *lease);
/* Frees all leases; tells nobody. */
void rdmad_leases_dispose(struct rdmad_session *s);

/* Its number by now; any thread. A published one's changes while one daemon follows another. */
static inline uint64_t rdmad_lease_number(const struct rdmad_lease *lease) {
    return __atomic_load_n(&lease->id, __ATOMIC_RELAXED);
}
/* With the lock, a call's fill: a request about an own lease begins with the number that it has by
 * now. */
void rdmad_lease_fill_number(struct rdmad_session *s, const struct rdmad_call *call, void *request);
/* With the lock: an own lease has that number now. */
void rdmad_lease_renumber(struct rdmad_lease *lease, uint64_t id);
/* Hands the leases that were granted to the daemon that takes the session over. What that does not
 * take ends. */
void rdmad_grants_resume(struct rdmad_session *s);
/* How far those that are away have been asked for. */
struct rdmad_attach_round {
    bool going;
    bool reserves; /* no owner is asked */
    unsigned bucket;
};
/* With the lock: all attaches are away, for the daemon that made them is gone. */
void rdmad_attaches_leave(struct rdmad_session *s, struct rdmad_attach_round *round);
/* With the lock: how many are away. */
unsigned rdmad_attaches_away(const struct rdmad_session *s);
/* Makes the attaches again that are away, many at a time, each once a round; from until_ns on the
 * next call goes on with it. How many are still away. */
unsigned rdmad_attaches_resume(struct rdmad_session *s, struct rdmad_attach_round *round,
                               uint64_t until_ns);
/* Those that the round has not come to yet: from here on their handles are nobody else's at this
 * daemon. It waits for no owner. */
void rdmad_attaches_reserve(struct rdmad_session *s, const struct rdmad_attach_round *round);
/* Gives up attaches that were asked for, and have been away for long enough (base/rest.h); how many
 * are still away. */
unsigned rdmad_attaches_give_up(struct rdmad_session *s, uint64_t since_ns);

/* What events bring, with the lock. */
void rdmad_lease_on_ended(struct rdmad_session *s, const void *body);
void rdmad_lease_on_renewed(struct rdmad_session *s, const void *body);

#endif
