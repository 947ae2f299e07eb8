/* SPDX-License-Identifier: MIT */
/*
 * segments.h - several ranges as a batch.
 */
#ifndef RDMAD_LIBCLIENT_SEGMENTS_H
#define RDMAD_LIBCLIENT_SEGMENTS_H

#include "libclient/ring/ring.h"

/* As rdmad_ring_writev and rdmad_ring_readv, but sets no error when there is no room. */
int rdmad_ring_batch(struct rdmad_ring *ring, enum rdmad_opcode opcode, struct rdmad_lease *lease,
                     const struct rdmad_segment *segments, unsigned count, uint64_t user_data);

#endif
