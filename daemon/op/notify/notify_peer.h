/* SPDX-License-Identifier: MIT */
/*
 * notify_peer.h - notices that peers send.
 */
#ifndef RDMAD_OP_NOTIFY_NOTIFY_PEER_H
#define RDMAD_OP_NOTIFY_NOTIFY_PEER_H

#include "daemon/op/notify/notifier.h"

/* From now on the lessee behind the window may notify through n, which belongs to the window.
 * Returns 0, or why not: then n is gone. */
int notifier_attach(struct worker *w, struct op_window *ow, struct op_notifier *n);
void notifier_window_closed(struct worker *w, struct op_window *ow);
/* fabric_env's received, for a notice; bytes are a peer's: hostile. Returns the answer to the
 * sender. */
uint64_t notify_received(struct worker *w, uint64_t peer, const uint8_t *bytes, size_t size);

#endif
