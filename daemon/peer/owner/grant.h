/* SPDX-License-Identifier: MIT */
/*
 * grant.h - a peer's attach to a lease of ours, or its request for one. Of grant.c, and of lend.c
 * what makes leases of leases and of budgets.
 */
#ifndef RDMAD_PEER_GRANT_H
#define RDMAD_PEER_GRANT_H

#include "daemon/peer/internal.h"

struct grant {
    struct peer *peer;
    uint64_t slot; /* in peer->grants */
    uint64_t ref;  /* what the lessee names it by: no other attach has it, of any peer */
    uint64_t lessee_ref;
    uint32_t rights; /* the lease's, as far as the peer's fabric has them */
    uint64_t lease_id;
    struct attachment attachment;
    bool opening;      /* the data plane owes the key */
    uint64_t via;      /* for which link */
    uint64_t next_via; /* for which one is wanted then; 0: none */
    bool told;         /* the lessee has it, with or without a key */
    bool renewed;      /* RENEWED is out, the lessee has not asked for how long yet */
    bool gone;         /* out of its reach; only waits for the above */
    bool requesting;   /* there is no lease yet: its memory is being zeroed */
    bool lost;         /* the peer, meanwhile */
    bool handed;       /* the lessee waits to hear that we have the memory */
};

extern const struct attachment_ops grant_ops;

struct grant *peer_grant_new(struct peer *p, uint64_t lessee_ref, struct error *err);
void peer_grant_free(struct grant *g);
/* One that the lessee can know of. */
struct grant *peer_grant_find(struct peer *p, uint64_t ref);
/* It is attached to l: opens a window for that link, or says that it is attached. */
void grant_attached(struct grant *g, const struct lease *l, uint64_t via);
void grant_refuse(struct peer *p, uint64_t lessee_ref, const struct error *why);
/* Who the peer's attach of that number is of: the peer, or a session here if the peer is us. */
struct lessee grant_lessee(struct peer *p, uint64_t lessee_ref);

#endif
