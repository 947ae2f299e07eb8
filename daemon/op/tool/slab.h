/* SPDX-License-Identifier: MIT */
/*
 * slab.h - objects of one size, taken and given back in a few instructions.
 *
 * Objects come from chunks of SLAB_CHUNK bytes at multiples of SLAB_CHUNK, so that an object's
 * chunk is found from its address. Chunks of which nothing is in use are given back to the system,
 * all but SLAB_KEPT. So a client that has now a thousand ops in flight and now none never waits for
 * memory, and what a crowd of ops took is free for others when they have ended. Not thread-safe.
 *
 * Another thread may unmap what was given back, so it may not be read any more, though mostly it
 * could. AddressSanitizer is told so.
 */
#ifndef RDMAD_OP_SLAB_H
#define RDMAD_OP_SLAB_H

#include "common/sanitizer.h"
#include "daemon/base/list.h"
#include "daemon/base/mailbox.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLAB_CHUNK ((size_t)64 << 10)
#define SLAB_KEPT 16u

struct slab_item {
    struct slab_item *next;
};

struct slab_chunk { /* at the start of its bytes */
    struct list node;
    struct slab_item *free;
    uint32_t used; /* objects that are out */
    struct mail mail;
};

struct slab {
    size_t size;
    struct list partial; /* chunks with something free */
    struct list full;    /* and those without */
    uint32_t chunks;     /* in both */
    uint32_t unused;     /* of which nothing is out */
    struct mailbox *reaper;
};

/* Chunks are unmapped by the thread that reads reaper's mails: unmapping waits for a lock of the
 * whole process, which a worker must not do. NULL: they are unmapped at once. */
void slab_init(struct slab *s, size_t size, struct mailbox *reaper);
void slab_fini(struct slab *s); /* also what was not given back */

bool slab_grow(struct slab *s); /* false: out of memory */
void slab_shrink(struct slab *s, struct slab_chunk *unused);

/* Whether slab_get will succeed. */
static inline bool slab_ready(struct slab *s) {
    return !list_empty(&s->partial) || slab_grow(s);
}

/* An object with unspecified contents; NULL when out of memory. */
static inline void *slab_get(struct slab *s) {
    if (!slab_ready(s))
        return NULL;
    struct slab_chunk *chunk = list_entry(s->partial.next, struct slab_chunk, node);
    struct slab_item *item = chunk->free;
    memory_show(item, s->size);
    chunk->free = item->next;
    if (chunk->used++ == 0)
        s->unused--;
    if (!chunk->free) {
        list_remove(&chunk->node);
        list_append(&s->full, &chunk->node);
    }
    return item;
}

static inline void slab_put(struct slab *s, void *object) {
    struct slab_chunk *chunk = (struct slab_chunk *)((uintptr_t)object & ~(SLAB_CHUNK - 1));
    struct slab_item *item = object;
    if (!chunk->free) { /* to the front: it is in the caches */
        list_remove(&chunk->node);
        list_append(s->partial.next, &chunk->node);
    }
    item->next = chunk->free;
    chunk->free = item;
    memory_hide(item, s->size);
    if (--chunk->used == 0 && s->unused++ >= SLAB_KEPT)
        slab_shrink(s, chunk);
}

#endif
