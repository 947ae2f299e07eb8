/* SPDX-License-Identifier: MIT */
/*
 * magazine.h - each thread's own stock of small pieces, so that most requests meet no other thread.
 *
 * Locks, in the order in which they are taken: the registry of magazines (one a process), a
 * thread's magazine, the depot.
 */
#ifndef RDMAD_LIBCLIENT_MAGAZINE_H
#define RDMAD_LIBCLIENT_MAGAZINE_H

#include "libclient/arena/spans.h"
#include <pthread.h>

#define RDMAD_ARENA_NONE UINT64_MAX

struct rdmad_magazines;

/* What the magazines of one pool are filled from. */
struct rdmad_depot {
    uint64_t id; /* never used twice in a process */
    struct rdmad_magazines *threads;
    pthread_mutex_t lock; /* of pages and spans */
    struct rdmad_pages pages;
    struct rdmad_spans spans;
};

/* One piece of the class from the calling thread's magazine, refilled if need be. */
uint64_t rdmad_magazine_take(struct rdmad_depot *d, unsigned cls);
/* Puts one piece into the calling thread's magazine, half of which goes back if it is full. */
void rdmad_magazine_give(struct rdmad_depot *d, unsigned cls, uint64_t offset);
/* Returns what all threads' magazines hold of this depot to its spans. */
void rdmad_magazines_reclaim(struct rdmad_depot *d);
/* The depot ends: no thread will find the magazine that it has for it again. */
void rdmad_magazines_drop(struct rdmad_depot *d);
/* In the child of a fork: no thread has a magazine, whoever held which lock in the parent. */
void rdmad_magazines_in_child(void);

#endif
