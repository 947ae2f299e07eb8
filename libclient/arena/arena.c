/* SPDX-License-Identifier: MIT */
/*
 * arena.c - one pool's allocator: which size goes where, and the record of what is handed out.
 *
 * The happy path of a small piece: its class's magazine of this thread has one; its bit is set. Of
 * a large piece: a run of pages under the depot's lock. When there is no room, what other threads
 * keep in their magazines is called back once before the answer is no.
 */
#include "libclient/arena/arena.h"
#include <stdlib.h>

/* Returns whether the bit was set before. Relaxed: a thread that passes a piece to another must
 * order that, as with any memory. */
static bool arena_set_live(struct rdmad_arena *a, uint64_t offset, bool live) {
    uint64_t granule = offset / RDMAD_GRANULE, bit = UINT64_C(1) << granule % 64;
    uint64_t *word = &a->live[granule / 64];
    uint64_t before = live ? __atomic_fetch_or(word, bit, __ATOMIC_RELAXED)
                           : __atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED);
    return before & bit;
}

static uint64_t arena_take_large(struct rdmad_arena *a, size_t bytes) {
    uint64_t pages = bytes / RDMAD_ARENA_PAGE + (bytes % RDMAD_ARENA_PAGE != 0);
    uint32_t first = RDMAD_NO_PAGE;
    if (pages > a->depot.pages.count)
        return RDMAD_ARENA_NONE;
    pthread_mutex_lock(&a->depot.lock);
    first = rdmad_pages_take(&a->depot.pages, (uint32_t)pages, RDMAD_PAGE_LARGE);
    pthread_mutex_unlock(&a->depot.lock);
    return first == RDMAD_NO_PAGE ? RDMAD_ARENA_NONE : (uint64_t)first * RDMAD_ARENA_PAGE;
}

static uint64_t arena_take(struct rdmad_arena *a, size_t bytes) {
    return bytes <= RDMAD_SMALL_MAX ? rdmad_magazine_take(&a->depot, rdmad_class_of(bytes))
                                    : arena_take_large(a, bytes);
}

uint64_t rdmad_arena_take(struct rdmad_arena *a, size_t bytes) {
    uint64_t offset = arena_take(a, bytes);
    if (offset == RDMAD_ARENA_NONE && bytes <= a->bytes) {
        rdmad_magazines_reclaim(&a->depot);
        offset = arena_take(a, bytes);
    }
    if (offset != RDMAD_ARENA_NONE && arena_set_live(a, offset, true))
        abort(); /* handed out twice: our own records are wrong */
    return offset;
}

bool rdmad_arena_retire(struct rdmad_arena *a, uint64_t offset) {
    return offset % RDMAD_GRANULE == 0 &&
           offset < (uint64_t)a->depot.pages.count * RDMAD_ARENA_PAGE &&
           arena_set_live(a, offset, false);
}

/* Of a piece that was not returned, its page's record stands still: no lock is needed to read it.
 */
uint64_t rdmad_arena_piece_bytes(const struct rdmad_arena *a, uint64_t offset) {
    const struct rdmad_page *page = &a->depot.pages.page[offset / RDMAD_ARENA_PAGE];
    return page->kind == RDMAD_PAGE_SMALL
               ? rdmad_class_bytes(rdmad_spans_class(&a->depot.spans, offset))
               : (uint64_t)page->run * RDMAD_ARENA_PAGE;
}

void rdmad_arena_return(struct rdmad_arena *a, uint64_t offset) {
    struct rdmad_page *page = &a->depot.pages.page[offset / RDMAD_ARENA_PAGE];
    if (page->kind == RDMAD_PAGE_SMALL) {
        rdmad_magazine_give(&a->depot, rdmad_spans_class(&a->depot.spans, offset), offset);
    } else {
        pthread_mutex_lock(&a->depot.lock);
        rdmad_pages_give(&a->depot.pages, (uint32_t)(offset / RDMAD_ARENA_PAGE), page->run);
        pthread_mutex_unlock(&a->depot.lock);
    }
}

struct rdmad_arena *rdmad_arena_new(uint64_t bytes) {
    static uint64_t last_id;
    struct rdmad_arena *a = calloc(1, sizeof(*a));
    uint64_t count = bytes / RDMAD_ARENA_PAGE;

    if (!a || count >= RDMAD_NO_PAGE) {
        free(a);
        return NULL;
    }
    a->depot.id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
    a->bytes = count * RDMAD_ARENA_PAGE;
    a->live = calloc(count ? count : 1, RDMAD_ARENA_PAGE / RDMAD_GRANULE / 8);
    if (!a->live || !rdmad_pages_init(&a->depot.pages, (uint32_t)count)) {
        free(a->live);
        free(a);
        return NULL;
    }
    a->depot.spans.pages = &a->depot.pages;
    pthread_mutex_init(&a->depot.lock, NULL);
    return a;
}

void rdmad_arena_free(struct rdmad_arena *a) {
    if (!a)
        return;
    rdmad_magazines_drop(&a->depot);
    rdmad_spans_fini(&a->depot.spans);
    rdmad_pages_fini(&a->depot.pages);
    pthread_mutex_destroy(&a->depot.lock);
    free(a->live);
    free(a);
}
