/* SPDX-License-Identifier: MIT */
/*
 * test_op_room.c - what a link has room for is shared by the messages of its channels and the READs
 * of large ones, whoever always has something to post.
 */
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <limits.h>

#define LARGE (16u * SIM_MAX_MESSAGE) /* it is read in 16 parts */
#define POOL (2u << 20)
#define ROOM 2u /* on each link */

static struct rig rig;
static struct chan c;

/* A sends so many small messages, for which there are receives, while B's large ones, for which
 * there are, too, have been announced: both go by A's link. */
static void both_have_much(unsigned small, unsigned large) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.max_session_ops = 1024;
    rig_up(&rig, &settings, 5);
    chan_remote_up(&rig, &c, POOL);
    for (unsigned i = 0; i < small; i++)
        chan_put(&c, B, RDMAD_OP_RECV, 0, 100, i);
    for (unsigned i = 0; i < large; i++)
        chan_put(&c, A, RDMAD_OP_RECV, (uint64_t)i * LARGE, LARGE, i);
    while (rig_step(&rig, sim_now() + NSEC_PER_MSEC))
        ;
    sim_script()->max_inflight = ROOM;
    for (unsigned i = 0; i < large; i++)
        chan_put(&c, B, RDMAD_OP_SEND, 0, LARGE, i);
    for (unsigned i = 0; i < small; i++)
        chan_put(&c, A, RDMAD_OP_SEND, 0, 100, i);
}

static struct counted { unsigned sent, received; } has;

/* Until A has sent or received so many. */
static void until(unsigned sent, unsigned received) {
    struct rdmad_cqe cqe;
    uint64_t limit = sim_now() + NSEC_PER_SEC;
    while (has.sent < sent && has.received < received) {
        cr_assert(rig_step(&rig, limit), "%u sent, %u received", has.sent, has.received);
        while (chan_take(&c, A, &cqe)) {
            cr_assert_eq(cqe.status, RDMAD_OK, "%d", cqe.status);
            has.sent += cqe.opcode == RDMAD_OP_SEND;
            has.received += cqe.opcode == RDMAD_OP_RECV;
        }
    }
}

static void all_comes(unsigned small, unsigned large) {
    until(small, UINT_MAX);
    until(UINT_MAX, large);
    chan_well(&c);
    chan_down(&c);
    rig_down(&rig);
}

Test(room, a_large_message_is_read_by_a_link_that_small_ones_keep_full) {
    both_have_much(200, 1);
    until(UINT_MAX, 1);
    cr_assert_lt(has.sent, 50, "%u went before it", has.sent);
    all_comes(200, 1);
}

Test(room, and_small_ones_go_by_a_link_that_reads_keep_full) {
    both_have_much(50, 25);
    until(50, UINT_MAX);
    cr_assert_lt(has.received, 6, "%u were read before them", has.received);
    all_comes(50, 25);
}
