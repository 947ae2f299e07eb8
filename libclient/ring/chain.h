/* SPDX-License-Identifier: MIT */
/*
 * chain.h - a chain (RDMAD_SQE_LINK) that breaks with its daemon stays broken at the next.
 *
 * Within one daemon it is that which cancels what is linked to an op that was not done. The next
 * knows nothing of what was before. So the first transfer that it gets is made one that it must
 * refuse, if that is linked to one that was not done; what follows in the chain it then cancels
 * itself. The program sees CANCELED, untouched.
 */
#ifndef RDMAD_LIBCLIENT_CHAIN_H
#define RDMAD_LIBCLIENT_CHAIN_H

#include "libclient/ring/ring.h"

/* An entry is submitted; its slot has all but its state and what batch_commit notes. ahead: not to
 * the daemon that is there. */
void rdmad_chain_commit(struct rdmad_ring *r, struct rdmad_sqe *sqe, struct rdmad_slot *slot,
                        bool ahead);
/* The op in that slot has ended. */
void rdmad_chain_ended(struct rdmad_ring *r, const struct rdmad_slot *slot, int status);
/* The next daemon gets the entries from first up to the tail, before any others. */
void rdmad_chain_revive(struct rdmad_ring *r, uint32_t first);
/* What is told of one that was to be refused, whatever became of it. */
void rdmad_chain_explain(const struct rdmad_slot *slot, struct rdmad_cqe *cqe);

#endif
