/* SPDX-License-Identifier: MIT */
/*
 * channel_away.h - a channel whose way to the other end is gone, and comes back.
 *
 *   THERE -- channel_lose_way --> RESTING -- the data plane has let go --> AWAY
 *     ^                              ^                                     ^  |
 *     |                              +------- channel_lose_way -----+      |  | channel_come
 *     |                                                             |      |  v
 *     +------------------------ channel_ready ------------------- COMING --+
 *                                                                channel_stay_away
 *
 * The happy path: the peer of an OPEN channel is lost (peer/channel/chan_return.h), or its session
 * has brought it from an earlier life of the daemon (channel_resume). What is submitted to it waits
 * in the data plane. Of the two ends the one that was connected seeks the other, again and again;
 * the one that was accepted waits to be found. Both know the channel's key, and nobody else does.
 * When they have met they get another way, like a channel that is opened, and begin anew with
 * message 0.
 *
 * It ends as a lost channel does without all this: after peer.return_ms, or by an answer that no
 * time changes.
 *
 * Whoever closes an end that is AWAY cannot tell the other. So the end stays, PARTED, for as long
 * as the other one may wait, and ends that when it comes to this daemon, or seeks here. An end that
 * was connected, and whose other one waits at a peer, is missed there in time: nobody seeks for it.
 *
 * Only reliable channels of sessions that outlive their daemon return: only those sessions have
 * said that they rather wait.
 */
#ifndef RDMAD_STATE_CHANNEL_AWAY_H
#define RDMAD_STATE_CHANNEL_AWAY_H

#include "daemon/state/channel.h"

/* Whether it does not end with its way. */
bool channel_may_return(const struct channel *ch);
/* Its way is gone, or has not come to be. ops->rested is called when the data plane has let go. */
void channel_lose_way(struct channel *ch, const char *why);
/* COMING, and the data plane was given nothing: it is AWAY again, and has no ops. */
void channel_stay_away(struct channel *ch, const char *why);
/* That was made by channel_new_again, and knows its key: gives it to the data plane. */
void channel_resume(struct channel *ch);
/* AWAY, and seeks: not found, so it looks again later. */
void channel_seek_later(struct channel *ch);
/* AWAY, and met: whoever calls makes its way (ops) from now on. */
void channel_come(struct channel *ch);

/* The end that is AWAY of that key; NULL: there is none. */
struct channel *channel_away_find(struct state *st, const uint8_t *key, bool accepted);
/* The same of one that is PARTED: reason and text say how. */
const struct channel *channel_parted_find(struct state *st, const uint8_t *key, bool accepted);

#endif
