/* SPDX-License-Identifier: MIT */
/*
 * rates.h - how much is heard of a peer, by its name: messages a second, and questions a second.
 *
 * All connections of a name have the same rates together, so it gains nothing by more of them. What
 * is beyond a rate is heard later (turn.c): what its connection carries stays in its order, and the
 * peer's own pings wait with the rest. A question is what makes us look something up or make
 * something: an attach, a request or a part of a lease, a key, a link, a channel, a listing or a
 * watch.
 */
#ifndef RDMAD_PEER_CONTROL_RATES_H
#define RDMAD_PEER_CONTROL_RATES_H

#include "daemon/peer/control/record.h"

/* p shares the rates of those that have that name. Harmless when it does already. Without memory it
 * has none: false. */
bool rates_join(struct peer *p, const char *name);
void rates_leave(struct peer *p); /* harmless when it never joined */
/* Of its name, a second; 0: any number. */
void rates_set(struct peer *p, uint64_t messages, uint64_t questions);
/* It was heard. */
void rates_use(struct peer *p, const struct peer_msg *m);
/* It is held: says by which of the two, once in PLANE_TOLD_NS of each, whoever of its name it is.
 */
void rates_tell_held(struct peer *p);
/* The same of its share at a worker, whose rates are each connection's own. */
void rates_tell_throttled(struct peer *p, enum plane_rate by);
/* When more of it may be heard; 0: now. */
uint64_t rates_wait_ns(const struct peer *p, uint64_t now_ns);

#endif
