/* SPDX-License-Identifier: MIT */
/*
 * share.h - how much of a poll each peer may use.
 *
 * Bytes are counted each way, and each frame as some bytes more (conn->cost). All connections that
 * a peer made share one budget, so nobody gets more of a worker by making more of them. A link of
 * ours has a budget of its own, because what comes by it was asked for. A poll as a whole has one,
 * too. A read is not cut short by a budget: what it took too much comes off the next poll's.
 *
 * Whoever is left out goes first in the next poll (tcp.c), which follows at once.
 */
#ifndef RDMAD_FABRIC_TCP_SHARE_H
#define RDMAD_FABRIC_TCP_SHARE_H

#include "daemon/base/list.h"
#include <stddef.h>
#include <stdint.h>

#define TCP_SHARE_BUDGET (1u << 20) /* bytes, each way, that a peer may move in a poll */
#define TCP_POLL_BUDGET (4u << 20)  /* and all of them */

/* How much was used of the present poll's budgets. */
struct tcp_share {
    struct list node; /* in shares.peers: of a peer's targets */
    uint64_t peer;
    uint32_t conns;
    uint64_t poll; /* the last that it moved something in */
    uint64_t in, out;
};

struct tcp_shares {
    struct list peers;    /* of struct tcp_share */
    struct tcp_share all; /* of every connection */
    uint64_t poll;        /* the present one's number */
};

struct tcp_share *share_join(struct tcp_shares *all, uint64_t peer); /* NULL: out of memory */
void share_leave(struct tcp_share *s);
/* How many bytes may still be moved in this poll; 0: the caller is left out. */
size_t share_room_in(struct tcp_shares *all, struct tcp_share *s);
size_t share_room_out(struct tcp_shares *all, struct tcp_share *s);
void share_moved_in(struct tcp_shares *all, struct tcp_share *s, size_t bytes);
void share_moved_out(struct tcp_shares *all, struct tcp_share *s, size_t bytes);

#endif
