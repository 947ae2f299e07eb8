/* SPDX-License-Identifier: MIT */
/*
 * slab.h - objects of one size, taken and given back in a few instructions.
 *
 * Grows by chunks and keeps them until the end: an op never waits for malloc once as many as it
 * were in flight before. Not thread-safe.
 */
#ifndef RDMAD_OP_SLAB_H
#define RDMAD_OP_SLAB_H

#include <stdbool.h>
#include <stddef.h>

struct slab_item {
    struct slab_item *next;
};

struct slab {
    size_t size;
    struct slab_item *free;
    struct slab_item *chunks;
};

void slab_init(struct slab *s, size_t size);
void slab_fini(struct slab *s); /* also what was not given back */

bool slab_grow(struct slab *s); /* false: out of memory */

/* Whether slab_get will succeed. */
static inline bool slab_ready(struct slab *s) {
    return s->free || slab_grow(s);
}

/* An object with unspecified contents; NULL when out of memory. */
static inline void *slab_get(struct slab *s) {
    if (!slab_ready(s))
        return NULL;
    struct slab_item *item = s->free;
    s->free = item->next;
    return item;
}

static inline void slab_put(struct slab *s, void *object) {
    struct slab_item *item = object;
    item->next = s->free;
    s->free = item;
}

#endif
