/* SPDX-License-Identifier: MIT */
/*
 * hold.h - who uses which bytes of a pool right now.
 *
 * The happy path: rdmad_prep_* calls rdmad_hold_op for an entry that names memory; the op then
 * holds that range, as one of many readers or as its only writer, until its completion is taken off
 * the completion queue (for a member of a batch: the batch's), which calls rdmad_hold_end. Locks of
 * rdmad_buf_lock_* (lock.c) are holders of the same kind.
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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rdmad_pool;
struct rdmad_ring;
struct rdmad_session;

/* Lies in its op's slot; zeroed with it. Its ring's thread writes it, threads that look for a
 * holder read it: all fields are atomic, and mean something only while version is even and did not
 * change meanwhile. */
struct rdmad_hold {
    uint32_t version;
    bool writes;
    uint8_t opcode;
    struct rdmad_pool *pool; /* NULL: holds nothing */
    uint64_t offset, length;
    uint64_t user_data;
    uint64_t object; /* the lease's or channel's number, for sentences */
};

/* The op prepared in that slot of ring, which holds nothing yet or is prepared anew: opcode, object
 * (number of its lease or channel) and user_data are for sentences about it. A slot holds one range
 * at most. Returns 0, or RDMAD_E_BUSY and the slot holds nothing. */
int rdmad_hold_op(struct rdmad_ring *ring, uint32_t slot, struct rdmad_pool *pool,
                  const void *memory, size_t length, bool writes, uint8_t opcode, uint64_t object,
                  uint64_t user_data);
/* The op is over, or its entry is prepared anew. Nothing happens if the slot holds nothing. */
void rdmad_hold_end(struct rdmad_ring *ring, uint32_t slot);

/* "READ", and "lease" or "channel". */
const char *rdmad_hold_opcode_name(uint8_t opcode);
const char *rdmad_hold_object_name(uint8_t opcode);

#endif
