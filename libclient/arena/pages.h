/* SPDX-License-Identifier: MIT */
/*
 * pages.h - which pages of a pool are free or in use: runs of pages, best fit, neighbours merged.
 *
 * All records lie outside the pool: whatever is written into the pool's memory, by a peer that
 * holds a lease for example, cannot lead the allocator astray. No locking; the depot (magazine.h)
 * has the lock.
 */
#ifndef RDMAD_LIBCLIENT_PAGES_H
#define RDMAD_LIBCLIENT_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#define RDMAD_ARENA_PAGE 4096u
#define RDMAD_NO_PAGE UINT32_MAX

enum rdmad_page_kind { RDMAD_PAGE_INSIDE, RDMAD_PAGE_FREE, RDMAD_PAGE_LARGE, RDMAD_PAGE_SMALL };

struct rdmad_span;

/*
 * For a run of pages only the records of its first and its last page are kept up to date and looked
 * at; for a span of small pieces all of them are, since every page of it must lead to the span.
 */
struct rdmad_page {
    uint32_t run; /* length of the run that starts or ends here */
    uint8_t kind;
    union {
        struct {
            uint32_t next, prev; /* in its bin, while free */
        };
        struct rdmad_span *span; /* while small */
    };
};

#define RDMAD_PAGE_BINS 91u /* exact for runs of 1 to 64 pages, then one for each doubling */

struct rdmad_pages {
    struct rdmad_page *page;
    uint32_t count;
    uint32_t bin[RDMAD_PAGE_BINS];
    uint64_t used_bins[2];
};

bool rdmad_pages_init(struct rdmad_pages *p, uint32_t count); /* false: out of memory */
void rdmad_pages_fini(struct rdmad_pages *p);

/* Takes a run of count pages, marked as kind, and returns its first page; RDMAD_NO_PAGE: none is
 * long enough. */
uint32_t rdmad_pages_take(struct rdmad_pages *p, uint32_t count, enum rdmad_page_kind kind);
void rdmad_pages_give(struct rdmad_pages *p, uint32_t first, uint32_t count);

#endif
