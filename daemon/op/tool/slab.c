/* SPDX-License-Identifier: MIT */
/*
 * slab.c - chunks come, and go.
 *
 * They are mapped, not malloc'ed, because a heap can only be given back from its end. A session
 * whose ops come and go by the thousand costs two system calls for each hundred or so, which is
 * what fits a chunk.
 */
#include "daemon/op/tool/slab.h"
#include <sys/mman.h>

#define ALIGN _Alignof(max_align_t)
#define HEAD ((sizeof(struct slab_chunk) + ALIGN - 1) / ALIGN * ALIGN)

void slab_init(struct slab *s, size_t size, struct mailbox *reaper) {
    *s = (struct slab){.size = (size + ALIGN - 1) / ALIGN * ALIGN, .reaper = reaper};
    list_init(&s->partial);
    list_init(&s->full);
}

static void unmap_chunk(struct slab_chunk *chunk) {
    memory_show(chunk, SLAB_CHUNK); /* whoever maps something there next has it */
    munmap(chunk, SLAB_CHUNK);
}

static void unmap_all(struct list *chunks) {
    for (struct list *pos; (pos = list_pop(chunks));)
        unmap_chunk(list_entry(pos, struct slab_chunk, node));
}

void slab_fini(struct slab *s) {
    if (!s->size)
        return;
    unmap_all(&s->partial);
    unmap_all(&s->full);
    s->chunks = s->unused = 0;
}

/* Maps twice as much as needed, and cuts off the ends so that the chunk is aligned. */
static char *map_chunk(void) {
    char *at =
        mmap(NULL, 2 * SLAB_CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)at & (SLAB_CHUNK - 1);
    char *chunk = at + before;
    if (before)
        munmap(at, before);
    munmap(chunk + SLAB_CHUNK, SLAB_CHUNK - before);
    return chunk;
}

bool slab_grow(struct slab *s) {
    char *bytes = map_chunk();
    if (!bytes)
        return false;
    struct slab_chunk *chunk = (struct slab_chunk *)bytes;
    *chunk = (struct slab_chunk){0};
    size_t count = (SLAB_CHUNK - HEAD) / s->size;
    for (size_t i = count; i-- > 0;) { /* backwards: low addresses go out first */
        struct slab_item *item = (struct slab_item *)(bytes + HEAD + i * s->size);
        item->next = chunk->free;
        chunk->free = item;
        memory_hide(item, s->size);
    }
    list_init(&chunk->node);
    list_append(&s->partial, &chunk->node);
    s->chunks++;
    s->unused++;
    return true;
}

static void unmap(struct mail *mail) {
    unmap_chunk(container_of(mail, struct slab_chunk, mail));
}

void slab_shrink(struct slab *s, struct slab_chunk *unused) {
    list_remove(&unused->node);
    s->chunks--;
    s->unused--;
    if (s->reaper)
        mailbox_post(s->reaper, &unused->mail, unmap);
    else
        unmap(&unused->mail);
}
