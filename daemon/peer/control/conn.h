/* SPDX-License-Identifier: MIT */
/*
 * conn.h - one control connection: frames out, frames in, and its end.
 */
#ifndef RDMAD_PEER_CONTROL_CONN_H
#define RDMAD_PEER_CONTROL_CONN_H

#include "daemon/peer/control/record.h"

/* Nothing is sent on a connection that is ending, or not made yet; nor anything but HELLO and BYE
 * before it is UP. */
void peer_send(struct peer *p, const struct peer_msg *m);

/* Both make the connection end, later and only once: the loop calls peer_ops.lose. peer_refuse also
 * tells the peer why. */
void peer_end(struct peer *p, const struct error *why);
void peer_refuse(struct peer *p, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether a whole message has come, or a record that may hold one, or bytes that can never become
 * one. */
bool peer_has_frame(const struct peer *p);
/* Takes the message. False: none has come whole, and at most one record was opened for it; or the
 * bytes are no message and the connection is ending. */
bool peer_take_frame(struct peer *p, struct peer_msg *out);

#endif
