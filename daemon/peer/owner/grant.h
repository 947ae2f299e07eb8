/* SPDX-License-Identifier: MIT */
/*
 * grant.h - a peer's attach to a lease of ours, or its request for one.
 *
 *   REQUESTED --> UNTOLD -------> TOLD --> HANDING
 *       |            |             |          |
 *       v            v             +----------+--> OVER --> free
 *   ORPHANED     OVER_UNTOLD --> free
 *       |
 *       v
 *     free
 *
 * REQUESTED: its lease is being made. ORPHANED: the same, but the peer is lost, so the lease ends
 * as soon as it is made. UNTOLD: attached, or about to be; the lessee has no answer yet. TOLD: the
 * lessee has its answer, with or without a key. HANDING: the lessee has handed the memory over, and
 * waits to hear that we have it. OVER, OVER_UNTOLD: the memory is out of the lessee's reach; the
 * grant waits for what the data plane still has to answer, and is freed at once if that is nothing.
 */
#ifndef RDMAD_PEER_OWNER_GRANT_H
#define RDMAD_PEER_OWNER_GRANT_H

#include "daemon/peer/control/record.h"
#include "daemon/state/lease.h"

enum grant_stage {
    GRANT_UNTOLD,
    GRANT_REQUESTED,
    GRANT_ORPHANED,
    GRANT_TOLD,
    GRANT_HANDING,
    GRANT_OVER,
    GRANT_OVER_UNTOLD
};

struct grant {
    struct peer *peer;
    uint64_t slot; /* in the peer's table */
    uint64_t ref;  /* by which the lessee names it: unique among all attaches of all peers */
    uint64_t lessee_ref;
    enum grant_stage stage;
    uint32_t rights; /* the lease's, as far as the peer's fabric has them */
    uint64_t lease_id;
    uid_t uid;      /* who it is for at the peer, as that says, */
    bool uid_known; /* if it has said so */
    struct attachment attachment;
    bool opening;           /* the data plane owes the key */
    uint64_t via;           /* for which link */
    uint64_t next_via;      /* the link for which a key is wanted after that; 0: none */
    uint64_t opened;        /* bytes that count for the peer as opened, until this is freed */
    uint64_t notifications; /* likewise, of those that may wait */
    bool renewed;           /* RENEWED was sent, and the lessee has not asked yet for how long */
};

extern const struct attachment_ops grant_ops;

/* Makes one that is UNTOLD. NULL: err says why. */
struct grant *grant_new(struct peer *p, uint64_t lessee_ref, struct error *err);
void grant_free(struct grant *g);
/* Counts so many bytes for the peer in place of those before, if its policy lets it have them. */
int grant_open(struct grant *g, uint64_t bytes, struct error *err);
/* It may notify: counts what that lets wait, if the peer's policy lets it. Once. */
int grant_notify(struct grant *g, struct error *err);
/* REQUESTED, until its lease is there, or will not be. */
void grant_await_lease(struct grant *g);
/* UNTOLD again. false: it was ORPHANED, the peer is lost. */
bool grant_end_await(struct grant *g);
/* The lessee has its answer. */
void grant_set_told(struct grant *g);
bool grant_is_told(const struct grant *g);
bool grant_is_over(const struct grant *g);
/* One that the lessee has been told of, and that is not over; NULL: none. */
struct grant *grant_by_ref(struct peer *p, uint64_t ref);
void grant_refuse(struct peer *p, uint64_t lessee_ref, const struct error *why);
/* Whose the peer's attach of that number is: the peer's, or a session's here if the peer is this
 * daemon itself. */
struct lessee grant_lessee(struct peer *p, uint64_t lessee_ref);

void grant_take_release(struct peer *p, const struct peer_msg *msg);
void grant_take_used(struct peer *p, const struct peer_msg *msg);
void grant_take_stopped(struct peer *p, const struct peer_msg *msg);
void grant_take_ttl_req(struct peer *p, const struct peer_msg *msg);
void grants_lose(struct peer *p); /* its connection is gone */

#endif
