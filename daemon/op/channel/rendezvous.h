/* SPDX-License-Identifier: MIT */
/*
 * rendezvous.h - the window of a large message, at its sender.
 */
#ifndef RDMAD_OP_CHANNEL_RENDEZVOUS_H
#define RDMAD_OP_CHANNEL_RENDEZVOUS_H

#include "daemon/op/channel/send.h"

/* Towards what s->wants_window says. False: none can be had, s waited for it, and is no more. */
bool window_drive(struct op_send *s);
bool window_ready(const struct op_send *s);
static inline bool window_none(const struct op_send *s) {
    return s->window.state == WINDOW_NONE;
}
/* The window of a message is there, or is not. */
void send_window_opened(struct op_send *s, const struct fabric_blob *key, const struct error *err);
void send_window_closed(struct op_send *s);

#endif
