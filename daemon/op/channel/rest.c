/* SPDX-License-Identifier: MIT */
/*
 * rest.c - an end whose way to the other is gone, and one that gets another way.
 */
#include "daemon/op/channel/rest.h"
#include "daemon/op/channel/core.h"
#include "daemon/op/channel/receives.h"
#include "daemon/op/channel/sends.h"
#include "daemon/op/channel/sync.h"
#include <assert.h>

/* That the other end has taken back what this one has refused is known by its answer to a SYNC that
 * was said after the refusal. */
void op_channel_part(struct op_channel *ch) {
    if (channel_weak(ch) || channel_over(ch) || ch->sync.state == SYNC_CLOSED)
        return;
    ch->sync.parting = true;
    receives_refuse(ch);
    if (ch->remote)
        sync_again(ch);
}

bool op_channel_parted(const struct op_channel *ch) {
    if (!ch->sync.parting || channel_over(ch) || channel_stopped(ch))
        return !ch->sync.resting || channel_stopped(ch);
    bool said = !ch->remote || !channel_lane_up(ch) || ch->sync.state == SYNC_DONE;
    return said && list_empty(&ch->out.sent) && list_empty(&ch->out.leaving) && receives_rested(ch);
}

/* Those with a payload are their SENDs'. */
static void posts_let_go(struct op_channel *ch) {
    for (unsigned i = 0; i < CHANNEL_POSTS; i++) {
        if (!ch->posts[i].posted)
            continue;
        op_fabric_wake(ch->fabric, ch->worker->now_ns);
        ch->fabric->ops->cancel(&ch->posts[i].part.fop, RDMAD_E_PEER_LOST);
    }
}

void op_channel_rest(struct op_channel *ch) {
    assert(!channel_weak(ch));
    if (channel_over(ch) || !ch->lane)
        return; /* it has no way */
    channel_off_lane(ch);
    ch->peer_in = ch->via = 0; /* no message finds it */
    ch->sync.state = SYNC_CLOSED;
    ch->sync.resting = true;
    posts_let_go(ch);
    sends_rest(ch);
    receives_rest(ch);
    channel_touch(ch);
}

void channel_rest_run(struct op_channel *ch) {
    assert(ch->sync.resting);
    sends_give_up_all(ch);
}

static void begin_anew(struct op_channel *ch) {
    sends_begin_anew(ch);
    receives_begin_anew(ch);
    ch->due = (struct channel_due){.state = false};
    ch->sync = (struct channel_sync){.state = SYNC_CLOSED};
}

bool op_channel_rested(struct op_channel *ch) {
    if (!ch->sync.resting || channel_over(ch) || channel_stopped(ch))
        return true;
    if (ch->posted_sends || !sends_rested(ch) || !receives_rested(ch))
        return false;
    begin_anew(ch);
    return true;
}

/* SENDs that were taken before there was a way have no window yet. */
static void way_first(struct op_channel *ch, struct op_lane *lane) {
    ch->remote = true;
    ch->fabric = lane->route.fabric;
    list_for_each (pos, &ch->out.waiting)
        send_begin_window(list_entry(pos, struct op_send, node));
}

bool op_channel_wants_way(const struct op_channel *ch) {
    return ch->sync.state == SYNC_CLOSED && !ch->sync.resting && !ch->lane && !channel_over(ch);
}

void op_channel_way(struct op_channel *ch, uint64_t number, struct op_lane *lane,
                    uint64_t peer_in) {
    assert(op_channel_wants_way(ch));
    channels_remove(ch);
    ch->number = number;
    channels_add(ch);
    if (!lane)
        return;
    if (!ch->remote)
        way_first(ch, lane);
    ch->lane = lane;
    ch->peer_in = peer_in;
    list_append(&lane->channels, &ch->lane_node);
}
