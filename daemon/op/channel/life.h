/* SPDX-License-Identifier: MIT */
/*
 * life.h - a channel's end is made, opened, ended and forgotten.
 */
#ifndef RDMAD_OP_CHANNEL_LIFE_H
#define RDMAD_OP_CHANNEL_LIFE_H

#include "daemon/op/channel/channel.h"

/* Control thread. It is in no table yet. closed_event is posted to the control thread, at most
 * once, when the other end is gone. NULL: out of memory. */
struct op_channel *op_channel_new(struct worker *w, uint64_t handle,
                                  const struct plane_channel_spec *spec, struct op_lane *lane,
                                  void (*closed_event)(struct mail *mail));
void op_channel_free(struct op_channel *ch); /* it was never in a table */
/* On its worker. False: there is no room in the session's table. */
bool op_channel_join(struct op_channel *ch, struct op_session *s, struct op_lane *lane);
/* peer: the other end's worker if that is of this daemon, else NULL. */
void op_channel_open(struct op_channel *ch, uint64_t peer_number, struct worker *peer);
void op_channel_end(struct op_channel *ch, int reason, bool linger);
bool op_channel_ended(const struct op_channel *ch); /* no op is left, and FIN was told */
/* Its stats are the control thread's to free from now on; it goes on counting in its own. */
void op_channel_unwatch(struct op_channel *ch);
void op_channel_forget(struct op_channel *ch); /* it has ended */
void channel_posts_gone(
    struct op_channel *ch); /* of a forgotten one: the fabric gave something back */
/* The session ends, and so do its channels, without lingering. When all have (settled), and the
 * session has no ops any more, they are freed (gone). */
void channels_session_end(struct op_session *s);
bool channels_session_settled(struct op_session *s);
void channels_session_gone(struct worker *w, struct op_session *s);

#endif
