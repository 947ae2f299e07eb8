/* SPDX-License-Identifier: MIT */
/*
 * arrival.h - a message that has its receive, from the moment that it comes until it completes.
 */
#ifndef RDMAD_OP_CHANNEL_ARRIVAL_H
#define RDMAD_OP_CHANNEL_ARRIVAL_H

#include "daemon/op/channel/channel.h"
#include <assert.h>

/*
 *                                                          +--> WHOLE --+
 *     +--> LANDING (landing.c) --+                         |            +--> over, in its order
 *     |                          +--> ENDED -- (settled) --+--> GONE ---+
 *    NEW --> READING (reading.c) +                         |
 *     |                                                    +--> VOID: rolled back, comes again
 *     +--> WHOLE (it was copied, or is too long), GONE
 *
 * GONE: the sender took it back, or its memory vanished. Its receive waits for another message.
 */
struct op_arrival {
    struct list node;
    struct list attention_node;
    struct op_channel *channel;
    struct op *op; /* the RECV; GONE: NULL */
    enum {
        ARRIVAL_NEW,
        ARRIVAL_LANDING,
        ARRIVAL_READING,
        ARRIVAL_ENDED,
        ARRIVAL_WHOLE,
        ARRIVAL_GONE,
        ARRIVAL_VOID
    } state;
    int status; /* ENDED: of the READ or the landing */
    int cancel; /* of the RECV */
    uint64_t seq, length;
    uint32_t imm;
    uint16_t flags;
    bool small;                       /* the receive is */
    bool withdrawn;                   /* by the sender */
    struct fabric_landing landing_at; /* LANDING: where to */
    struct op *reading;               /* READING: the READ */
    struct op_lease lease;            /* READING, ENDED: through this, if it has a share */
};

/* Something may still be written into its receive, or was and has not been looked at yet. */
static inline bool arrival_under_way(const struct op_arrival *a) {
    return a->state == ARRIVAL_LANDING || a->state == ARRIVAL_READING || a->state == ARRIVAL_ENDED;
}
static inline bool arrival_done(const struct op_arrival *a) {
    return a->state == ARRIVAL_WHOLE || a->state == ARRIVAL_GONE;
}
/* The channel's turn is to look at it. */
static inline void arrival_note(struct op_arrival *a) {
    if (list_empty(&a->attention_node))
        list_append(&a->channel->in.attention, &a->attention_node);
}
/* Nothing is written into its receive any more; status says how that ended. */
static inline void arrival_end(struct op_arrival *a, int status) {
    assert(a->state == ARRIVAL_LANDING || a->state == ARRIVAL_READING);
    a->channel->in.landings -= a->state == ARRIVAL_LANDING;
    a->state = ARRIVAL_ENDED;
    a->status = status;
    arrival_note(a);
}

#endif
