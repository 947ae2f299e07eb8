/* SPDX-License-Identifier: MIT */
/*
 * pool.h - a pool, and in which pool memory lies.
 *
 * Its memory is shared with the daemon. It has an allocator (arena), records of who uses it
 * (holders), and in guard mode records of its pages.
 */
#ifndef RDMAD_LIBCLIENT_POOL_H
#define RDMAD_LIBCLIENT_POOL_H

#include "libclient/arena/arena.h"
#include "libclient/base/session.h"
#include "libclient/memory/holders.h"

struct rdmad_pool {
    struct rdmad_object object;
    struct rdmad_session *session;
    struct rdmad_pool *next;
    uint64_t handle;
    uint32_t resumes; /* of the session, when a daemon last said that it has it */
    char *base;
    size_t bytes;
    int fd; /* of the memory, for the next daemon; -1: none */
    bool huge;
    struct rdmad_arena *arena;
    struct rdmad_holders holders;
    struct rdmad_guard *guard; /* NULL: not in guard mode */
};

/* The pool that memory lies in, or NULL; a session has few. With the session's lock. */
static inline struct rdmad_pool *rdmad_pool_of(struct rdmad_session *s, const void *memory) {
    struct rdmad_pool *p = s->pools;
    while (p && (uintptr_t)memory - (uintptr_t)p->base >= p->bytes)
        p = p->next;
    return p;
}

/* Hands all pools to the daemon that takes the session over: they are what they were. */
int rdmad_pools_resume(struct rdmad_session *s);

/* Unmaps and frees; tells nobody. For the program it is gone since that call. */
void rdmad_pool_dispose(struct rdmad_pool *pool, const char *call);

#endif
