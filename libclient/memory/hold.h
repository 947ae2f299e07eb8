/* SPDX-License-Identifier: MIT */
/*
 * hold.h - who uses which bytes of a pool right now.
 *
 * The happy path: rdmad_prep_* calls rdmad_hold_op for an entry that names memory; the op then
 * holds that range, as one of many readers or as its only writer, until its completion is taken off
 * the completion queue (for a member of a batch: the batch's), which calls rdmad_hold_end. Locks of
 * rdmad_buf_lock_* (buf_lock.c) are holders of the same kind.
 *
 * A range that conflicts with another holder's is refused with RDMAD_E_BUSY and a sentence that
 * names the holder. A range that reaches beyond its pool is held as far as the pool goes: the
 * daemon refuses the op. A range of no bytes is not held.
 *
 * Any thread may call these for rings of its own; what they share is the pool. An op takes no lock
 * unless it is refused: see hold_map.h.
 */
#ifndef RDMAD_LIBCLIENT_HOLD_H
#define RDMAD_LIBCLIENT_HOLD_H

#include "libclient/memory/who_holds.h"

/* With the session's lock: from now on a search for holders finds these of a ring, or does not any
 * more. */
void rdmad_holds_add(struct rdmad_session *s, struct rdmad_holds *holds);
void rdmad_holds_remove(struct rdmad_session *s, struct rdmad_holds *holds);

/* The op that is prepared in that slot of the ring takes a range; what the slot held before is
 * given up. opcode, object (the number of its lease or channel) and user_data are for sentences
 * about it. A slot holds one range at most. Returns 0, or RDMAD_E_BUSY, and then the slot holds
 * nothing. */
int rdmad_hold_op(struct rdmad_holds *holds, uint32_t slot, struct rdmad_pool *pool,
                  const void *memory, size_t length, bool writes, uint8_t opcode, uint64_t object,
                  uint64_t user_data);
/* The op is over, or its entry is prepared anew. Nothing happens if the slot holds nothing. */
void rdmad_hold_end(struct rdmad_holds *holds, uint32_t slot);

/* Takes a range, or returns RDMAD_E_BUSY and writes into who (size bytes) who holds it, with
 * offsets from the range's start. */
int rdmad_holders_take(struct rdmad_pool *pool, uint64_t offset, uint64_t length, bool writes,
                       char *who, size_t size);
/* Gives it up, and wakes threads that wait. */
void rdmad_holders_drop(struct rdmad_pool *pool, uint64_t offset, uint64_t length, bool writes);

#endif
