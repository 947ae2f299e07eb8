/* SPDX-License-Identifier: MIT */
/*
 * hold_map.h - which bytes of a pool are held for reading and which for writing, without a list of
 * holders: memory of its own, looked up by address.
 *
 * Exact to the byte: take succeeds if and only if no byte of the range is held by others in a way
 * that conflicts. Two threads that take and drop ranges at the same moment meet only where they
 * touch the same 4 KiB page, and there for some nanoseconds. When take finds the end of its range
 * held it undoes what it took, which may have refused a third thread meanwhile. A caller that is
 * refused and then finds no holder tries again.
 *
 * The memory is 1/512 of the pool's for holds of whole pages, and about 1/24 more for pages that
 * are held in parts; it is committed when it is first used.
 */
#ifndef RDMAD_LIBCLIENT_HOLD_MAP_H
#define RDMAD_LIBCLIENT_HOLD_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct rdmad_hold_map;

struct rdmad_hold_map *rdmad_hold_map_new(uint64_t bytes); /* NULL: out of memory */
void rdmad_hold_map_free(struct rdmad_hold_map *m);        /* NULL is allowed */

/* [offset, offset + length) lies in the pool. Returns 0, or RDMAD_E_BUSY, RDMAD_E_LIMIT (more
 * readers of one place than can be counted) or RDMAD_E_NOMEM; then nothing is held. */
int rdmad_hold_map_take(struct rdmad_hold_map *m, uint64_t offset, uint64_t length, bool writes);
/* Gives up exactly what one take has taken. */
void rdmad_hold_map_drop(struct rdmad_hold_map *m, uint64_t offset, uint64_t length, bool writes);
/* Whether nobody holds any byte of the range. */
bool rdmad_hold_map_unheld(struct rdmad_hold_map *m, uint64_t offset, uint64_t length);

#endif
