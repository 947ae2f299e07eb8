/* SPDX-License-Identifier: MIT */
/*
 * sync.h - an end and its other end agree on numbers: the steps of channel_sync, in channel.h.
 *
 * After a new link the receiver of messages says which number it takes next. So each end says SYNC
 * with an epoch of its own; a state that echoes that epoch was said after the other end had read
 * it.
 */
#ifndef RDMAD_OP_CHANNEL_SYNC_H
#define RDMAD_OP_CHANNEL_SYNC_H

#include "daemon/op/channel/channel.h"
#include <assert.h>

static inline void sync_open(struct op_channel *ch) {
    assert(ch->sync.state == SYNC_CLOSED);
    ch->sync.state = !ch->remote ? SYNC_DONE : channel_weak(ch) ? SYNC_NONE : SYNC_DUE;
}

/* There is another link, or the link lost something. */
static inline void sync_again(struct op_channel *ch) {
    assert(ch->remote);
    if (ch->sync.state == SYNC_SAID || ch->sync.state == SYNC_DONE)
        ch->sync.state = SYNC_DUE;
}

static inline void sync_said(struct op_channel *ch) {
    assert(ch->sync.state == SYNC_DUE);
    ch->sync.state = SYNC_SAID;
}

static inline bool sync_echoed(const struct op_channel *ch, const struct channel_state *st) {
    return ch->sync.state == SYNC_SAID && st->echo == ch->sync.epoch;
}

static inline void sync_done(struct op_channel *ch) {
    assert(ch->sync.state == SYNC_SAID);
    ch->sync.state = SYNC_DONE;
}

#endif
