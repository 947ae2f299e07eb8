/* SPDX-License-Identifier: MIT */
/*
 * lease.h - a lease, as its owner or as a lessee has it, and the session's table of them.
 *
 * A lease enters the table in the moment its reply arrives, before any later message is looked at,
 * so that no event of it is missed. Its object is made beforehand for that.
 *
 *     new --- reply --> in the table, alive --- event, or revoke answered --> in the table, ended
 *      |                       |                                                    |
 *      +-- refused --> freed   +------------ free, hand over, close ----------------+--> gone
 *
 * It tells the end of its life exactly once, and only its latest renewal.
 */
#ifndef RDMAD_LIBCLIENT_LEASE_H
#define RDMAD_LIBCLIENT_LEASE_H

#include "libclient/control/control.h"
#include "libclient/control/event_queue.h"
#include "libclient/memory/lent.h"

enum rdmad_lease_side {
    RDMAD_LEASE_GRANTED,   /* by this session, its owner */
    RDMAD_LEASE_ATTACHED,  /* to, as a lessee */
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

/* Not known to anybody yet; NULL: has failed. */
struct rdmad_lease *rdmad_lease_new(struct rdmad_session *s, enum rdmad_lease_side side);
/* Makes the call whose accept is for lease; keeps it in *out or frees it. */
int rdmad_lease_make(struct rdmad_lease *lease, struct rdmad_call *call, rdmad_lease **out);
/* For accept: it has its numbers, and lives for that long from when it was made. */
void rdmad_lease_accept(struct rdmad_lease *lease, uint64_t ttl_ns);

/* RDMAD_E_PERM with a sentence when what ("renew") is the owner's to do; and when what ("kept by a
 * lessee") cannot be done with what was granted. */
int rdmad_lease_owner_only(const struct rdmad_lease *lease, const char *what);
int rdmad_lease_lessee_only(const struct rdmad_lease *lease, const char *what);

/* With the lock: its life is over, which is an event. */
void rdmad_lease_ended(struct rdmad_lease *lease, int reason, const char *text);
/* The daemon has forgotten it, and it has ended as an object. */
void rdmad_lease_forget(struct rdmad_lease *lease);
/* Frees all leases; tells nobody. */
void rdmad_leases_dispose(struct rdmad_session *s);

/* What events bring, with the lock. */
void rdmad_lease_on_ended(struct rdmad_session *s, const void *body);
void rdmad_lease_on_renewed(struct rdmad_session *s, const void *body);

#endif
