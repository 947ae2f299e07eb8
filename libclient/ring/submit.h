/* SPDX-License-Identifier: MIT */
/*
 * submit.h - entries on their way to the daemon.
 */
#ifndef RDMAD_LIBCLIENT_SUBMIT_H
#define RDMAD_LIBCLIENT_SUBMIT_H

#include "libclient/ring/ring.h"

/* Returns RDMAD_E_INVAL, with the sentence that sqe is no entry that ring has reserved and not
 * submitted. */
int rdmad_fail_entry(const struct rdmad_ring *ring, const struct rdmad_sqe *sqe);
/* Takes back the count entries reserved last. */
void rdmad_ring_take_back(struct rdmad_ring *ring, uint32_t count);
/* Submits a cancel of the op in slot target, in the slot kept for that, when the sq has room.
 * False: the daemon is lost. */
bool rdmad_ring_publish_cancel(struct rdmad_ring *ring, uint32_t target);
/* Waits until the daemon has taken all that was submitted before on any ring of the session. So a
 * request that is sent afterwards comes after all of that. False: the default time is over, and a
 * SEND on channel is among what it has not taken. */
bool rdmad_rings_taken(struct rdmad_session *s, uint64_t channel);

#endif
