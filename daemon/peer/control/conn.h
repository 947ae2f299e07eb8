/* SPDX-License-Identifier: MIT */
/*
 * conn.h - one control connection: frames out, frames in, and its end.
 */
#ifndef RDMAD_PEER_CONTROL_CONN_H
#define RDMAD_PEER_CONTROL_CONN_H

#include "daemon/peer/control/record.h"

/* Nothing is sent on a connection that is ending, or not made yet. */
void peer_send(struct peer *p, const struct peer_msg *m);

/* The connection ends, soon and only once: from the loop, by peer_ops.lose. The first silently, the
 * second tells the peer why. */
void peer_end(struct peer *p, const struct error *why);
void peer_refuse(struct peer *p, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether a whole message has come, or what can never be one. */
bool peer_has_frame(const struct peer *p);
/* Takes it; false: there was none, or it was none and the connection is ending. */
bool peer_take_frame(struct peer *p, struct peer_msg *out);

#endif
