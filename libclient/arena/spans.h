/* SPDX-License-Identifier: MIT */
/*
 * spans.h - small pieces: size classes cut from spans of pages.
 *
 * Classes are multiples of 64 bytes, four to each doubling, up to a page. A span is a run of pages
 * cut into pieces of one class; since it starts on a page, a piece whose class is a power of two
 * is aligned to it. No locking; the depot (magazine.h) has the lock.
 */
#ifndef RDMAD_LIBCLIENT_SPANS_H
#define RDMAD_LIBCLIENT_SPANS_H

#include "libclient/arena/pages.h"
#include <stddef.h>

#define RDMAD_GRANULE 64u /* alignment of every piece */
#define RDMAD_SMALL_MAX RDMAD_ARENA_PAGE
#define RDMAD_CLASSES 20u

struct rdmad_spans {
    struct rdmad_pages *pages;
    struct rdmad_span *partial[RDMAD_CLASSES]; /* with free pieces */
};

static inline unsigned rdmad_class_of(size_t bytes) {
    unsigned n = bytes ? (unsigned)((bytes + RDMAD_GRANULE - 1) / RDMAD_GRANULE) : 1;
    if (n <= 4)
        return n - 1;
    unsigned shift = 29u - (unsigned)__builtin_clz(n - 1);
    return 4 * shift + ((n - 1) >> shift);
}

static inline size_t rdmad_class_bytes(unsigned cls) {
    if (cls < 4)
        return (size_t)RDMAD_GRANULE * (cls + 1);
    return (size_t)RDMAD_GRANULE * (cls % 4 + 5) << (cls / 4 - 1);
}

/* Takes up to max pieces, puts their offsets into out and returns how many; 0: no room. */
unsigned rdmad_spans_take(struct rdmad_spans *s, unsigned cls, uint64_t *out, unsigned max);
/* Gives one piece back. offset must be one that take gave out. */
void rdmad_spans_give(struct rdmad_spans *s, uint64_t offset);
/* The class of the piece at offset. It must be handed out: therefore this needs no lock. */
unsigned rdmad_spans_class(const struct rdmad_spans *s, uint64_t offset);
/* Frees the records of spans that still have pieces handed out. */
void rdmad_spans_fini(struct rdmad_spans *s);

#endif
