/* SPDX-License-Identifier: MIT */
/*
 * channel_rig.h - a channel between two clients on op_rig's planes: on one daemon, or with a lane
 * each way between two.
 */
#ifndef RDMAD_TESTS_CHANNEL_RIG_H
#define RDMAD_TESTS_CHANNEL_RIG_H

#include "daemon/op/channel/arrival.h"
#include "daemon/op/channel/carry.h"
#include "daemon/op/channel/core.h"
#include "tests/unit/op_rig.h"

#define CHAN_HANDLE RIG_HANDLE(9)

enum { A, B };

struct chan_end {
    struct rig_client client;
    int where;
    uint64_t number;
    uint32_t kind;
    struct plane_lane *lane; /* NULL: one daemon */
    uint64_t peer_in;
    struct plane_channel_stats stats;
    unsigned closed; /* events */
    struct error why;
};

struct chan {
    struct rig *rig;
    struct chan_end end[2];
};

/* Two clients with pools of so many bytes, and a channel between them that is open. */
void chan_local_up(struct rig *rig, struct chan *c, size_t pool_bytes);
void chan_remote_up(struct rig *rig, struct chan *c, size_t pool_bytes);
void chan_weak_up(struct rig *rig, struct chan *c, size_t pool_bytes, uint32_t kind);
/* Ends what is still there of it. */
void chan_down(struct chan *c);
void chan_well(const struct chan *c); /* asserts that neither end has closed */

/* Connects the end's lane anew. */
void chan_connect(struct chan *c, int end);
/* Its link is lost at once; the other direction lives. */
void chan_break(struct chan *c, int end);

/* What the control thread does to an end when its peer is lost and found: it rests and its lane is
 * dropped; it gets another number and another lane; both are opened and connected. */
void chan_rest(struct chan *c, int end);
void chan_way(struct chan *c, int end);
void chan_open(struct chan *c);
void chan_return(struct chan *c); /* a way for both, open until they have heard of each other */
/* One end, which is not opened. */
void chan_add(struct chan *c, int end);

struct rdmad_sqe chan_sqe(uint8_t opcode, uint64_t at, uint64_t length, uint64_t user_data);
void chan_put(struct chan *c, int end, uint8_t opcode, uint64_t at, uint64_t length,
              uint64_t user_data);
void chan_cancel(struct chan *c, int end, uint64_t user_data);
struct rdmad_cqe chan_wait(struct chan *c, int end);
bool chan_take(struct chan *c, int end, struct rdmad_cqe *out);
/* Ends an end of the channel, and waits. */
void chan_end(struct chan *c, int end, int reason, bool linger);
struct op_channel *chan_of(struct chan *c, int end);

#define ASSERT_CQE(cqe, data, what, how, size)            \
    do {                                                  \
        struct rdmad_cqe is = (cqe);                      \
        cr_assert_eq(is.user_data, (data));               \
        cr_assert_eq(is.status, (what), "%d", is.status); \
        cr_assert_eq(is.outcome, (how));                  \
        cr_assert_eq(is.bytes, (size));                   \
    } while (0)

#endif
