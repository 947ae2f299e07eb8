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
 * REQUESTED: its lease is being made. ORPHANED: the same, and the peer is lost: the lease ends at
 * once. UNTOLD: attached, or about to be; the lessee has no answer. TOLD: it has, with or without a
 * key. HANDING: it has handed the memory over, and waits to hear that we have it. OVER,
 * OVER_UNTOLD: out of its reach; only until the data plane has answered, and freed at once when it
 * owes nothing.
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
    uint64_t ref;  /* what the lessee names it by: no other attach has it, of any peer */
    uint64_t lessee_ref;
    enum grant_stage stage;
    uint32_t rights; /* the lease's, as far as the peer's fabric has them */
    uint64_t lease_id;
    struct attachment attachment;
    bool opening;      /* the data plane owes the key */
    uint64_t via;      /* for which link */
    uint64_t next_via; /* for which one is wanted then; 0: none */
    bool renewed;      /* RENEWED is out, the lessee has not asked for how long yet */
};

extern const struct attachment_ops grant_ops;

/* One that is UNTOLD. NULL: err tells. */
struct grant *grant_new(struct peer *p, uint64_t lessee_ref, struct error *err);
void grant_free(struct grant *g);
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
/* Who the peer's attach of that number is of: the peer, or a session here if the peer is us. */
struct lessee grant_lessee(struct peer *p, uint64_t lessee_ref);

void grant_take_release(struct peer *p, const struct peer_msg *msg);
void grant_take_used(struct peer *p, const struct peer_msg *msg);
void grant_take_stopped(struct peer *p, const struct peer_msg *msg);
void grant_take_ttl_req(struct peer *p, const struct peer_msg *msg);
void grants_lose(struct peer *p); /* its connection is gone */

#endif
