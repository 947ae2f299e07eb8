/* SPDX-License-Identifier: MIT */
/*
 * pool.c - finding pools: a session has few.
 */
#include "libclient/memory/pool.h"

struct rdmad_pool *rdmad_pool_of(struct rdmad_session *s, const void *memory) {
    for (struct rdmad_pool *p = s->pools; p; p = p->next) {
        if ((uintptr_t)memory - (uintptr_t)p->base < p->bytes)
            return p;
    }
    return NULL;
}

struct rdmad_pool *rdmad_pool_by_handle(struct rdmad_session *s, uint64_t handle) {
    struct rdmad_pool *p = s->pools;

    while (p && p->handle != handle)
        p = p->next;
    return p;
}
