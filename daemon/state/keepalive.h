/* SPDX-License-Identifier: MIT */
/*
 * keepalive.h - whether the program at a channel's other end shows signs of life, though its daemon
 * lives.
 *
 * Who wants it asks for it, of its end. Then this daemon asks the other end's every quarter of the
 * time, and at least every second: in this daemon state/alive.h, elsewhere the peer
 * (peer/channel/chan_alive.h). What comes back is for how long the program there was silent. If
 * that is too long its other end's program is told; or the channel ends, as it chose. While the
 * channel's way is gone nobody is asked: that has bounds of its own (channel_away.h), and so has a
 * daemon that does not answer (peer/control/liveness.h).
 */
#ifndef RDMAD_STATE_KEEPALIVE_H
#define RDMAD_STATE_KEEPALIVE_H

#include "daemon/state/channel.h"

/* What all channels of a user may ask in a second, together. */
#define KEEPALIVE_QUESTIONS_MAX 2000u

struct keepalive_terms {
    uint64_t silent_ns; /* 0: no keep-alive */
    bool ends;          /* the channel ends; else its program is told */
};

/* From now on, instead of what there was; RDMAD_E_LIMIT. */
int keepalive_set(struct channel *ch, const struct keepalive_terms *terms, struct error *err);
/* The other end's program was silent for so long. May begin the end of ch. */
void keepalive_told(struct channel *ch, uint64_t silent_ns);

#endif
