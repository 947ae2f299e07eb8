/* SPDX-License-Identifier: MIT */
/*
 * slab.c - a free list that is fed by chunks.
 *
 * The first object of each chunk is not handed out: it links the chunks, so that they can be freed.
 */
#include "daemon/op/slab.h"
#include <stdlib.h>

#define PER_CHUNK 64u

void slab_init(struct slab *s, size_t size) {
    size_t align = _Alignof(max_align_t);
    *s = (struct slab){.size = (size + align - 1) / align * align};
}

void slab_fini(struct slab *s) {
    while (s->chunks) {
        struct slab_item *next = s->chunks->next;
        free(s->chunks);
        s->chunks = next;
    }
    s->free = NULL;
}

bool slab_grow(struct slab *s) {
    char *chunk = malloc((PER_CHUNK + 1) * s->size);
    if (!chunk)
        return false;
    struct slab_item *link = (struct slab_item *)chunk;
    link->next = s->chunks;
    s->chunks = link;
    for (size_t i = PER_CHUNK; i > 0; i--) /* backwards: low addresses go out first */
        slab_put(s, chunk + i * s->size);
    return true;
}
