/* SPDX-License-Identifier: MIT */
/*
 * entry.c - where the rest of the data plane comes in.
 *
 * A SEND or RECV that is admitted or cancelled, what the fabric gives back or has received, and
 * what happens to lanes: each is about certain channels, and is passed from here to the file for
 * it.
 */
#include "daemon/op/channel/entry.h"
#include "daemon/op/channel/carry.h"
#include "daemon/op/channel/core.h"
#include "daemon/op/channel/deliver.h"
#include "daemon/op/channel/life.h"
#include "daemon/op/channel/receives.h"
#include "daemon/op/channel/recv.h"
#include "daemon/op/channel/sends.h"
#include "daemon/op/channel/sync.h"
#include "daemon/op/channel/weak.h"
#include <assert.h>

int channel_admit(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                  struct op_request *rq) {
    struct op_channel *ch = slots_get(&r->session->channels, sqe->lease);
    (void)w;
    if (!ch)
        return RDMAD_E_HANDLE;
    if (channel_ending(ch) || channel_over(ch))
        return channel_end_code(ch);
    return sqe->opcode == RDMAD_OP_SEND ? send_take(ch, r, sqe, rq) : recv_take(ch, r, sqe, rq);
}

/* One that waits behind a fence has no channel yet. */
struct op_lane *channel_op_lane(const struct op *op) {
    return op->channel ? op->channel->lane : NULL;
}

struct op_lane *channel_sqe_lane(const struct op_session *s, const struct rdmad_sqe *sqe) {
    const struct op_channel *ch = slots_get(&s->channels, sqe->lease);
    return ch ? ch->lane : NULL;
}

void channel_op_cancel(struct worker *w, struct op *op, int status) {
    (void)w;
    assert(op->channel && (op->opcode == RDMAD_OP_SEND || op->opcode == RDMAD_OP_RECV));
    if (op->opcode == RDMAD_OP_SEND && channel_weak(op->channel))
        weak_cancel(op, status);
    else if (op->opcode == RDMAD_OP_SEND)
        send_cancel(op->channel, op, status);
    else
        recv_cancel(op->channel, op, status);
}

void channel_part_ended(struct worker *w, struct op_part *part) {
    (void)w;
    struct channel_post *post = container_of(part, struct channel_post, part);
    struct op_channel *ch = post->channel;
    const struct fabric_op *fop = &part->fop;
    assert(post->posted && ch->posted_sends > 0);
    post->posted = false;
    ch->posted_sends--;
    if (!ch->session) {
        channel_posts_gone(ch);
        return;
    }
    /* When the link is lost there will be another, or none. */
    if (fop->status && !channel_weak(ch) && channel_lane_up(ch) && fop->status != RDMAD_E_PEER_LOST)
        sync_again(ch);
    if (post->send && channel_weak(ch))
        weak_posted(post->send, fop);
    else if (post->send)
        send_posted(post->send, fop);
    channel_touch(ch);
}

void channels_lane_up(struct worker *w, struct op_lane *lane) {
    (void)w;
    list_for_each (pos, &lane->channels) {
        struct op_channel *ch = list_entry(pos, struct op_channel, lane_node);
        sync_again(ch);
        channel_touch(ch);
    }
}

void channels_lane_down(struct worker *w, struct op_lane *lane) {
    (void)w;
    list_for_each (pos, &lane->channels) {
        struct op_channel *ch = list_entry(pos, struct op_channel, lane_node);
        sync_again(ch);
        channel_touch(ch);
    }
}

void channels_lane_dropped(struct op_lane *lane) {
    for (struct list *pos; (pos = list_first(&lane->channels));) {
        struct op_channel *ch = list_entry(pos, struct op_channel, lane_node);
        channel_off_lane(ch);
        channel_lost(ch, RDMAD_E_PEER_LOST, NULL);
    }
    list_remove(&lane->full_node);
}

static void message_received(struct worker *w, uint64_t peer, uint64_t number,
                             const struct channel_message *m, const char *wrong) {
    struct op_channel *ch = channel_find(w, m->channel);
    if (ch && ch->remote && ch->peer_in == peer && !channel_over(ch))
        channel_deliver_link(ch, number, m, wrong);
}

void channel_received(struct worker *w, uint64_t peer, uint64_t number, const uint8_t *bytes,
                      size_t size) {
    struct channel_message m;
    const char *wrong = channel_decode(&m, bytes, size, 0);
    message_received(w, peer, number, &m, wrong);
}

struct fabric_landing *channel_landing(struct worker *w, uint64_t peer, uint64_t number,
                                       const uint8_t *head, size_t size, uint64_t length) {
    struct channel_message m;
    struct fabric_landing *landing = NULL;
    const char *wrong = channel_decode(&m, head, size, length);
    m.landing = &landing;
    message_received(w, peer, number, &m, wrong);
    return landing;
}
