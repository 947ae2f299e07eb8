/* SPDX-License-Identifier: MIT */
/*
 * target.h - the serving end of a connection that a peer dialled.
 */
#ifndef RDMAD_FABRIC_TCP_TARGET_H
#define RDMAD_FABRIC_TCP_TARGET_H

#include "daemon/fabric/tcp/conn.h"
#include "daemon/fabric/tcp/window.h"

#define TCP_FRAME_COST 64u /* what a request counts of a budget besides its bytes */
#define TCP_SEND_COST 256u /* a small SEND, at least */

struct tcp_target {
    struct tcp_conn conn;
    struct list mates; /* in its share's targets */
    uint64_t peer, number;
    uint32_t next_op;              /* number of the next request */
    uint32_t acked, ack_from;      /* done and not yet told: how many, and the first one's number */
    struct {                       /* the large WRITE or LONG whose payload is coming in */
        struct tcp_window *window; /* NULL: refused or cut */
        uint32_t op;
        int status;
        bool touched;
        uint8_t type;                   /* FRAME_* */
        bool ending;                    /* all of a LONG has come, its END has not */
        struct fabric_landing *landing; /* of a LONG; NULL: it has none any more */
    } rx;
};

/* Makes the accepted fd a connection of peer, in clear if secure is NULL; takes the fd only on
 * success, and secure in any case. */
int target_create(struct tcp *t, int fd, uint64_t peer, uint64_t number,
                  const struct sockaddr_storage *address, struct secure *secure);
void target_shut(struct tcp_target *t);
void targets_shut(struct tcp *t, uint64_t peer); /* the peer's, all of them */
/* The peer's connection of that number; NULL: it has none. */
struct tcp_target *target_find(const struct tcp *t, uint64_t peer, uint64_t number);
/* No target touches w's range any more. Requests that this cuts short fail with reason. */
void targets_let_go(struct tcp *t, struct tcp_window *w, int reason);
void tcp_abandon(struct fabric_landing *landing);

#endif
