/* SPDX-License-Identifier: MIT */
/*
 * spans.c - size classes.
 *
 * A span remembers its free pieces in a bitmap. Spans with free pieces hang in the list of their
 * class; a span whose pieces have all come back returns its pages, so that a burst of one size does
 * not keep memory from the others. When the pool is too fragmented for a span of the usual length,
 * one page is enough for a span.
 */
#include "libclient/arena/spans.h"
#include <stdlib.h>

#define SPAN_SLOTS_MAX 256u
#define SPAN_WORDS (SPAN_SLOTS_MAX / 64u)

struct rdmad_span {
    struct rdmad_span *next, *prev; /* in its class, while pieces are free */
    uint32_t first, pages;
    uint32_t slots, nfree;
    unsigned cls;
    uint64_t free[SPAN_WORDS];
};

/* 16 KiB for classes up to 1 KiB, then 16 pieces or so: few page requests, little waste. */
static uint32_t span_pages(unsigned cls) {
    size_t bytes = rdmad_class_bytes(cls);
    return bytes <= 1024 ? 4 : bytes <= 2048 ? 8 : 16;
}

static void link_span(struct rdmad_spans *s, struct rdmad_span *span) {
    span->prev = NULL;
    span->next = s->partial[span->cls];
    if (span->next)
        span->next->prev = span;
    s->partial[span->cls] = span;
}

static void unlink_span(struct rdmad_spans *s, struct rdmad_span *span) {
    if (span->next)
        span->next->prev = span->prev;
    if (span->prev)
        span->prev->next = span->next;
    else
        s->partial[span->cls] = span->next;
}

static struct rdmad_span *new_span(struct rdmad_spans *s, unsigned cls) {
    struct rdmad_span *span = calloc(1, sizeof(*span));
    uint32_t pages = span_pages(cls);
    if (!span)
        return NULL;
    span->first = rdmad_pages_take(s->pages, pages, RDMAD_PAGE_SMALL);
    if (span->first == RDMAD_NO_PAGE) {
        pages = 1;
        span->first = rdmad_pages_take(s->pages, pages, RDMAD_PAGE_SMALL);
    }
    if (span->first == RDMAD_NO_PAGE) {
        free(span);
        return NULL;
    }
    span->pages = pages;
    span->cls = cls;
    span->slots = span->nfree =
        (uint32_t)((size_t)pages * RDMAD_ARENA_PAGE / rdmad_class_bytes(cls));
    for (uint32_t i = 0; i < span->slots; i++)
        span->free[i / 64] |= UINT64_C(1) << i % 64;
    for (uint32_t i = 0; i < pages; i++) {
        s->pages->page[span->first + i].kind = RDMAD_PAGE_SMALL;
        s->pages->page[span->first + i].span = span;
    }
    link_span(s, span);
    return span;
}

unsigned rdmad_spans_take(struct rdmad_spans *s, unsigned cls, uint64_t *out, unsigned max) {
    size_t bytes = rdmad_class_bytes(cls);
    unsigned got = 0;
    while (got < max) {
        struct rdmad_span *span = s->partial[cls];
        if (!span && (got > 0 || !(span = new_span(s, cls))))
            break; /* what one span has is enough for now */
        for (unsigned word = 0; word < SPAN_WORDS && got < max; word++) {
            while (span->free[word] && got < max) {
                unsigned bit = (unsigned)__builtin_ctzll(span->free[word]);
                span->free[word] &= span->free[word] - 1;
                span->nfree--;
                out[got++] =
                    (uint64_t)span->first * RDMAD_ARENA_PAGE + (uint64_t)(word * 64 + bit) * bytes;
            }
        }
        if (span->nfree == 0)
            unlink_span(s, span);
    }
    return got;
}

void rdmad_spans_give(struct rdmad_spans *s, uint64_t offset) {
    struct rdmad_span *span = s->pages->page[offset / RDMAD_ARENA_PAGE].span;
    uint64_t slot =
        (offset - (uint64_t)span->first * RDMAD_ARENA_PAGE) / rdmad_class_bytes(span->cls);
    if (span->nfree++ == 0)
        link_span(s, span);
    span->free[slot / 64] |= UINT64_C(1) << slot % 64;
    if (span->nfree == span->slots) {
        unlink_span(s, span);
        rdmad_pages_give(s->pages, span->first, span->pages);
        free(span);
    }
}

unsigned rdmad_spans_class(const struct rdmad_spans *s, uint64_t offset) {
    return s->pages->page[offset / RDMAD_ARENA_PAGE].span->cls;
}

void rdmad_spans_fini(struct rdmad_spans *s) {
    struct rdmad_pages *p = s->pages;
    for (uint32_t i = 0; i < p->count;) {
        struct rdmad_page *page = &p->page[i];
        uint32_t run = page->run;
        if (page->kind == RDMAD_PAGE_SMALL) {
            run = page->span->pages;
            free(page->span);
        }
        i += run;
    }
}
