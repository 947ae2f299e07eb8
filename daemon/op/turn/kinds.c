/* SPDX-License-Identifier: MIT */
/*
 * kinds.c - the kinds of ops that the engine hears of from above it.
 */
#include "daemon/op/turn/kinds.h"
#include "daemon/op/channel/channel.h"
#include "daemon/op/channel/entry.h"
#include "daemon/op/engine/kind.h"
#include "daemon/op/notify/grant.h"
#include "daemon/op/notify/notify.h"

static const struct op_kind notify = {
    .start = notify_start,
    .post_last = notify_post,
    .last_must_wait = notify_must_wait,
    .last_failed = notify_failed,
    .release = notify_release,
};

static const struct op_kind notified = {
    .admit = notified_take,
    .lease_number = notified_lease_number,
};

static const struct op_kind send = {
    .admit = channel_admit,
    .admitted_late = true,
    .cancel = channel_op_cancel,
    .lane = channel_op_lane,
    .lane_named = channel_sqe_lane,
};

static const struct op_kind recv = {
    .admit = channel_admit,
    .cancel = channel_op_cancel,
    .lane = channel_op_lane,
    .lane_named = channel_sqe_lane,
};

const struct op_kind *const op_kinds[RDMAD_OP_COUNT] = {
    [RDMAD_OP_NOTIFY] = &notify,
    [RDMAD_OP_NOTIFIED] = &notified,
    [RDMAD_OP_SEND] = &send,
    [RDMAD_OP_RECV] = &recv,
};
