/* SPDX-License-Identifier: MIT */
/*
 * magazine.h - each thread's own stock of small pieces, so that most requests meet no other thread.
 */
#ifndef RDMAD_LIBCLIENT_MAGAZINE_H
#define RDMAD_LIBCLIENT_MAGAZINE_H

#include "libclient/arena.h"

/* One piece of the class from the calling thread's magazine, refilled if need be. */
uint64_t rdmad_magazine_take(struct rdmad_arena *a, unsigned cls);
/* Puts one piece into the calling thread's magazine, half of which goes back if it is full. */
void rdmad_magazine_give(struct rdmad_arena *a, unsigned cls, uint64_t offset);
/* Returns what all threads' magazines hold of this arena to its spans. */
void rdmad_magazines_reclaim(struct rdmad_arena *a);
/* The arena ends: no thread will find its magazine of it again. */
void rdmad_magazines_drop(struct rdmad_arena *a);

#endif
