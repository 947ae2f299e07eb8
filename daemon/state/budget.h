/* SPDX-License-Identifier: MIT */
/*
 * budget.h - memory that a service gives out on request.
 *
 * The happy path: budget_new over a range of a pool of the service's session; budget_request finds
 * room, zeroes it (on the registration thread, a slice at a time, when it is much: nobody is to
 * read what somebody else left there) and grants a lease of it to one lessee, owned by the
 * service's session. When that lease ends the bytes are free again, unless the requester handed
 * them over: then they are the owner's until budget_free. The owner is told of them
 * (RDMAD_EV_HANDED_OVER) as soon as the requester cannot reach them any more, or when its client
 * reads again. budget_close ends the leases; what was handed over stays the owner's, like all
 * memory of its pool.
 *
 * How much one may have: a request is for at most max_request bytes, or for all of the budget if
 * that is 0. An owner who sets max_request wants the budget shared: then one requester (a uid of
 * this node, or all daemons at one address, of IPv6 in one /64 network, with all their users) has
 * no more at a time than half of what is free and its own, or max_request if that is more. One
 * requester has at most BUDGET_LEASES_MAX leases in any case, since they count as the owner's.
 */
#ifndef RDMAD_STATE_BUDGET_H
#define RDMAD_STATE_BUDGET_H

#include "daemon/state/lease.h"

#define BUDGET_LEASES_MAX 256u
/* Pieces of memory that were handed over to all services of a user and not given back: each is some
 * 80 bytes of the daemon's. */
#define BUDGET_PIECES_MAX 65536u

struct budget;

struct budget_terms {
    uint64_t pool; /* handle, of the session's */
    uint64_t offset, length;
    uint64_t max_request; /* 0: all */
    uint64_t max_ttl_ns;  /* 0: 60 s */
    uint32_t max_rights;  /* of READ, WRITE and ATOMIC; 0: all three */
    struct scope scope;   /* of the leases, as the service's; the budget keeps a copy */
    uint64_t service;     /* for the owner's event */
    const char *name;     /* the service's, for messages; the budget keeps a copy */
    bool shut;            /* gives nothing before budget_open */
};

struct budget_ask {
    uint64_t bytes;
    uint64_t ttl_ns; /* 0: as long as the service gives */
    uint32_t rights; /* READ, WRITE, ATOMIC */
    struct lessee who;
    uint32_t uid;     /* of the requester, as its daemon says */
    const char *node; /* of the requester; "" on this daemon. Only read during the call */
};
/* l is alive and nobody has attached yet: the caller does so before it returns, or ends it. When
 * its one lessee leaves, it ends. */
typedef void budget_granted(void *arg, struct lease *l, const struct error *result);

int budget_new(struct session *s, const struct budget_terms *terms, struct budget **out,
               struct error *err);
/* Ends its leases, and frees it when the last has ended. done (may be NULL): nobody but the owner
 * reaches the memory any more. The session may be closing. */
void budget_close(struct budget *b, plane_done *done, void *arg);
/* done is called once, perhaps before this returns. */
void budget_request(struct budget *b, const struct budget_ask *ask, budget_granted *done,
                    void *arg);
/* The owner gives back what was handed over to it. offset: where that begins, in the pool. */
int budget_free(struct budget *b, uint64_t offset, struct error *err);

/* For a budget that is shut still: what begins at that offset in the pool was handed over to its
 * owner at an earlier life of the daemon, and is the owner's until budget_free. What is none of its
 * own, or is taken twice, is refused with RDMAD_E_RANGE, one too many with RDMAD_E_LIMIT. */
int budget_keep(struct budget *b, uint64_t offset, uint64_t length, struct error *err);
void budget_open(struct budget *b);

struct budget_view {
    uint64_t bytes, free, longest; /* longest: free at a piece */
    uint64_t leased, handed_over;  /* bytes */
    unsigned leases;
};
void budget_view(const struct budget *b, struct budget_view *out);

#endif
