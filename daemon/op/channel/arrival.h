/* SPDX-License-Identifier: MIT */
/*
 * arrival.h - a message that has its receive, from the moment that it comes until it completes.
 */
#ifndef RDMAD_OP_CHANNEL_ARRIVAL_H
#define RDMAD_OP_CHANNEL_ARRIVAL_H

#include "daemon/op/channel/channel.h"

/* A message that has its receive and is not over. */
struct op_arrival {
    struct list node;
    struct op_channel *channel;
    struct op *op; /* the RECV; NULL: gone, the receive waits for another */
    uint64_t seq, length;
    uint32_t imm;
    uint16_t flags;
    bool done;      /* its bytes are there, or it is too small, or gone */
    bool small;     /* the receive is */
    bool withdrawn; /* by the sender */
    int cancel;     /* of the RECV */
    bool landing;   /* landing.c: its payload is on its way to landing_at */
    struct fabric_landing landing_at;
    /* reading.c */
    bool leased, ended; /* the lease is set up; the READ is over */
    struct op *reading;
    int read_status;
    struct op_lease lease;
};

#endif
