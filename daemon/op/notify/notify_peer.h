/* SPDX-License-Identifier: MIT */
/*
 * notify_peer.h - notices that peers send.
 */
#ifndef RDMAD_OP_NOTIFY_NOTIFY_PEER_H
#define RDMAD_OP_NOTIFY_NOTIFY_PEER_H

#include "daemon/op/notify/notifier.h"

/* The lessee behind the window may notify by n, if the reference is free; n is the window's now. */
void notifier_attach(struct worker *w, struct op_window *ow, struct op_notifier *n);
void notifier_window_closed(struct worker *w, struct op_window *ow);
/* Of fabric_env's received; bytes are a peer's: hostile. Returns what the sender is answered. */
uint64_t notify_received(struct worker *w, uint64_t peer, const uint8_t *bytes, size_t size);

#endif
