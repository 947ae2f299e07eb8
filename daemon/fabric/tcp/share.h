/* SPDX-License-Identifier: MIT */
/*
 * share.h - how much of a poll each peer may use, and which connections and offers are its.
 *
 * Bytes are counted each way, and each frame (conn->cost) and each read in vain as some more. All
 * connections that a peer made share one budget, so nobody gets more of a worker by making more of
 * them. A link of ours has a budget of its own, because what comes by it was asked for. A poll as a
 * whole has one, too. A read is not cut short by a budget: what it took too much comes off the next
 * poll's. A peer's budget is by its weight (fabric_share). A peer that is beyond a rate is held:
 * nothing more is read of its connections, and of what was read no request is served, until a
 * moment. A READ counts when it is asked for.
 *
 * Whoever is left out goes first in the next poll (tcp.c), which follows at once.
 *
 * What is asked about one peer walks that peer's connections and offers only. There are few of them
 * (TCP_CONNS_PER_PEER), of all peers together there may be thousands, and a peer may have thousands
 * of leases that end in one turn.
 */
#ifndef RDMAD_FABRIC_TCP_SHARE_H
#define RDMAD_FABRIC_TCP_SHARE_H

#include "daemon/base/clock.h"
#include "daemon/base/list.h"
#include "daemon/base/rate.h"
#include "daemon/fabric/fabric.h"
#include <stddef.h>
#include <stdint.h>

#define TCP_SHARE_BUDGET (1u << 20) /* bytes, each way, that a peer may move in a poll */
#define TCP_POLL_BUDGET (4u << 20)  /* and all of them */
#define TCP_WEIGHT 100u             /* whose budget is TCP_SHARE_BUDGET */
#define TCP_BUDGET_MIN (16u << 10)  /* of whom has the least weight */

#define SHARE_TOLD_NS (60 * NSEC_PER_SEC)
#define SHARE_CHAINS 256u /* a power of two */

/* How much was used of the present poll's budgets. */
struct tcp_share {
    struct list node; /* in one of shares.peers */
    uint64_t peer;
    struct list targets; /* of struct tcp_target, by mates: the peer's that are not closed */
    struct list offers;  /* of struct tcp_offer, by mates: the peer's */
    uint32_t joined;     /* by both; by a target until its memory goes */
    uint64_t poll;       /* the last that it moved something in */
    uint64_t in, out;
    size_t budget; /* of a poll; 0: TCP_SHARE_BUDGET */
    struct rate bytes, ops;
    uint64_t bytes_due_ns, ops_due_ns;
    uint64_t bytes_told_ns, ops_told_ns; /* when it was told that each holds it */
    bool kept; /* it has a share that is not everybody's: it stays without either, too */
};

struct tcp_shares {
    struct list peers[SHARE_CHAINS]; /* of struct tcp_share */
    struct tcp_share all;            /* of every connection */
    uint64_t poll;                   /* the present one's number */
    uint64_t now_ns;                 /* and time */
};

void shares_init(struct tcp_shares *all);
/* NULL: the peer has no connection and no offer here, and no share that is not everybody's. */
struct tcp_share *share_find(const struct tcp_shares *all, uint64_t peer);
/* It stays until who joined leaves it. */
struct tcp_share *share_join(struct tcp_shares *all, uint64_t peer); /* NULL: out of memory */
uint32_t share_connections(const struct tcp_share *s);               /* and offers; of NULL none */
void share_leave(struct tcp_share *s);
/* The peer's share from now on; RDMAD_E_NOMEM. Until share_forget. Of what it owes its former rates
 * a second is left. */
int share_set(struct tcp_shares *all, uint64_t peer, const struct fabric_share *share);
void share_forget(struct tcp_shares *all, uint64_t peer);
void shares_fini(struct tcp_shares *all); /* there are no connections and offers */
/* Until when the peer is held; 0: it is not. */
uint64_t share_held_ns(const struct tcp_shares *all, const struct tcp_share *s);
/* The peer is held: whether that is to be told of, as it is once in SHARE_TOLD_NS of each rate, and
 * of which. Nothing is noted before share_told. */
bool share_is_news(const struct tcp_shares *all, const struct tcp_share *s, bool *by_bytes);
void share_told(const struct tcp_shares *all, struct tcp_share *s, bool by_bytes);
/* So many requests, which read so much, are about to be answered. */
void share_asked(struct tcp_shares *all, struct tcp_share *s, uint32_t requests, uint64_t bytes);
/* How many bytes may still be moved in this poll; 0: the caller is left out. */
size_t share_room_in(struct tcp_shares *all, struct tcp_share *s);
size_t share_room_out(struct tcp_shares *all, struct tcp_share *s);
void share_moved_in(struct tcp_shares *all, struct tcp_share *s, size_t bytes);
/* Work that counts as so many bytes of a budget, and that no rate is about. */
void share_worked_in(struct tcp_shares *all, struct tcp_share *s, size_t bytes);
void share_moved_out(struct tcp_shares *all, struct tcp_share *s, size_t bytes);

#endif
