/* SPDX-License-Identifier: MIT */
/*
 * prep.h - entries for calls that have to do with objects that may go meanwhile.
 */
#ifndef RDMAD_LIBCLIENT_PREP_H
#define RDMAD_LIBCLIENT_PREP_H

#include "libclient/ring/ring.h"

/* As rdmad_prep_recv, or rdmad_prep_send, on the channel of that number in the ring's session,
 * which another thread may have closed. */
int rdmad_prep_message(struct rdmad_ring *ring, struct rdmad_sqe *sqe, enum rdmad_opcode opcode,
                       uint64_t channel, const void *buffer, size_t length, uint64_t user_data);

#endif
