/* SPDX-License-Identifier: MIT */
/*
 * share.h - how much of a poll is whose.
 *
 * Bytes are counted each way, and frames as some more (conn->cost). All connections that a peer
 * made have one budget together, so that nobody gets more of a worker for having more of them; a
 * link of ours has its own, for what comes by it was asked for. A poll as a whole has one, too. A
 * read is not cut short by a budget: what it was too much comes off the next poll's.
 *
 * Who is left out goes first in the next poll (tcp.c), which is at once.
 */
#ifndef RDMAD_FABRIC_TCP_SHARE_H
#define RDMAD_FABRIC_TCP_SHARE_H

#include "daemon/base/list.h"
#include <stddef.h>
#include <stdint.h>

#define TCP_SHARE_BUDGET (1u << 20) /* bytes, each way, that a peer may move in a poll */
#define TCP_POLL_BUDGET (4u << 20)  /* and all of them */

/* What moved of the present poll's budgets. */
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
/* How much may still be moved in this poll; 0: who asks is left out. */
size_t share_room_in(struct tcp_shares *all, struct tcp_share *s);
size_t share_room_out(struct tcp_shares *all, struct tcp_share *s);
void share_moved_in(struct tcp_shares *all, struct tcp_share *s, size_t bytes);
void share_moved_out(struct tcp_shares *all, struct tcp_share *s, size_t bytes);

#endif
