/* SPDX-License-Identifier: MIT */
/*
 * keep.h - receives, waits for notices, and sends that were not sent, that go on at the next
 * daemon.
 *
 * A receive has no effect but the message that completes it, and a message that has not done so is
 * sent again by its sender's daemon, or ends there. So a receive that a daemon had begun can be
 * begun anew by the next one, if its channel goes on there. Its buffer may be partly written, and
 * counts as that until a message has come. A wait for a notice has none but the notice.
 *
 * A send that a daemon had taken may have been received. Only one that stops in good order can say
 * that those without a completion have not been sent (sq_left).
 *
 * What the daemons that are gone had taken of the ring is not in it any more: the entry of each of
 * them is copied when it is submitted. The new ring begins with those, in the order of their
 * submission, and then come the entries that were postponed. As many slots as entries means that
 * there is room.
 *
 * A CANCEL that was taken and names one of them is kept with it. One that was done already said
 * that its op ends, which is not kept then.
 */
#ifndef RDMAD_LIBCLIENT_KEEP_H
#define RDMAD_LIBCLIENT_KEEP_H

#include "libclient/ring/ring.h"

/* Whether the entry of such an op has to be remembered. */
static inline bool rdmad_opcode_may_be_kept(uint8_t opcode) {
    return opcode == RDMAD_OP_RECV || opcode == RDMAD_OP_SEND || opcode == RDMAD_OP_NOTIFIED;
}
/* The daemon is gone: marks the slots whose ops the next one has to begin. */
void rdmad_ring_keep(struct rdmad_ring *ring);
/* A CANCEL of the op with that token is done. */
void rdmad_ring_canceled(struct rdmad_ring *ring, uint64_t token);
/* Writes the entries of the kept slots into the ring, up to the one at end. The slots stay as they
 * are. False: out of memory. */
bool rdmad_ring_write_kept(struct rdmad_ring *ring, uint32_t end);

#endif
