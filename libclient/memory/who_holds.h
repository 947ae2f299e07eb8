/* SPDX-License-Identifier: MIT */
/*
 * who_holds.h - the holders of a range, in sentences.
 *
 * Only a refusal asks who: the holds of all the session's rings are looked through, under the
 * session's lock, while their threads go on, and then the program's locks. A hold's record is
 * written after its range was taken and cleared before it is dropped, so whoever is named did hold
 * the range.
 */
#ifndef RDMAD_LIBCLIENT_WHO_HOLDS_H
#define RDMAD_LIBCLIENT_WHO_HOLDS_H

#include "libclient/memory/hold_record.h"
#include "libclient/memory/pool.h"
#include <sys/types.h>

/* What the ops of one ring hold: a record for each of its slots. */
struct rdmad_holds {
    struct rdmad_holds *next; /* of the session's */
    struct rdmad_hold *hold;
    uint32_t count;
    uint64_t ring; /* for sentences */
};

/* A lock that the program has (buf_lock.c). */
struct rdmad_buf_lock {
    struct rdmad_buf_lock *next;
    uint64_t offset, length;
    bool writes;
    pid_t thread;
};
void rdmad_locks_dispose(struct rdmad_holders *h); /* those that a program has left */

/* Writes sentences on up to max holders of bytes of the range (only writers, unless writes) and
 * returns how many there are. Without the session's and the holders' lock. */
unsigned rdmad_holders_name(struct rdmad_pool *pool, uint64_t offset, uint64_t length, bool writes,
                            unsigned max, char *who, size_t size);

#endif
