/* SPDX-License-Identifier: MIT */
/*
 * pages.c - runs of pages.
 *
 * Free runs hang in bins by length. A request takes the shortest run that fits, the rest of it goes
 * back into its bin. A run that comes back merges with free neighbours at once, found by the
 * records at their near ends, so two free runs are never neighbours.
 */
#include "libclient/arena/pages.h"
#include <assert.h>
#include <stdlib.h>

#define EXACT_BINS 64u
#define LOOK_FURTHER 32u /* candidates to compare once one fits */

static unsigned pages_bin_of(uint32_t run) {
    if (run <= EXACT_BINS)
        return run - 1;
    return EXACT_BINS + (31u - (unsigned)__builtin_clz(run)) - 6u;
}

static void pages_unlink(struct rdmad_pages *p, uint32_t first) {
    struct rdmad_page *page = &p->page[first];
    unsigned bin = pages_bin_of(page->run);
    if (page->next != RDMAD_NO_PAGE)
        p->page[page->next].prev = page->prev;
    if (page->prev != RDMAD_NO_PAGE)
        p->page[page->prev].next = page->next;
    else
        p->bin[bin] = page->next;
    if (p->bin[bin] == RDMAD_NO_PAGE)
        p->used_bins[bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

static void pages_mark(struct rdmad_pages *p, uint32_t first, uint32_t count,
                       enum rdmad_page_kind kind) {
    p->page[first].run = p->page[first + count - 1].run = count;
    p->page[first].kind = p->page[first + count - 1].kind = (uint8_t)kind;
}

static void pages_link(struct rdmad_pages *p, uint32_t first, uint32_t count) {
    unsigned bin = pages_bin_of(count);
    pages_mark(p, first, count, RDMAD_PAGE_FREE);
    p->page[first].prev = RDMAD_NO_PAGE;
    p->page[first].next = p->bin[bin];
    if (p->bin[bin] != RDMAD_NO_PAGE)
        p->page[p->bin[bin]].prev = first;
    p->bin[bin] = first;
    p->used_bins[bin / 64] |= UINT64_C(1) << bin % 64;
}

/* The shortest run of bin that has count pages, but not for ever: see LOOK_FURTHER. */
static uint32_t best_in_bin(const struct rdmad_pages *p, unsigned bin, uint32_t count) {
    uint32_t best = RDMAD_NO_PAGE;
    unsigned compared = 0;
    for (uint32_t i = p->bin[bin]; i != RDMAD_NO_PAGE && compared < LOOK_FURTHER;
         i = p->page[i].next) {
        if (p->page[i].run < count)
            continue;
        if (best == RDMAD_NO_PAGE || p->page[i].run < p->page[best].run)
            best = i;
        if (p->page[i].run == count)
            break;
        compared++;
    }
    return best;
}

/* The first bin from bin on that is not empty, RDMAD_PAGE_BINS when there is none. */
static unsigned next_used_bin(const struct rdmad_pages *p, unsigned bin) {
    for (unsigned word = bin / 64; word < 2; word++) {
        uint64_t bits = p->used_bins[word];
        if (word == bin / 64)
            bits &= ~UINT64_C(0) << bin % 64;
        if (bits)
            return word * 64 + (unsigned)__builtin_ctzll(bits);
    }
    return RDMAD_PAGE_BINS;
}

uint32_t rdmad_pages_take(struct rdmad_pages *p, uint32_t count, enum rdmad_page_kind kind) {
    uint32_t first = RDMAD_NO_PAGE, run;
    if (count == 0 || count > p->count)
        return RDMAD_NO_PAGE;
    for (unsigned bin = pages_bin_of(count); first == RDMAD_NO_PAGE; bin++) {
        bin = next_used_bin(p, bin);
        if (bin == RDMAD_PAGE_BINS)
            return RDMAD_NO_PAGE;
        first = best_in_bin(p, bin, count);
    }
    run = p->page[first].run;
    pages_unlink(p, first);
    if (run > count)
        pages_link(p, first + count, run - count);
    pages_mark(p, first, count, kind);
    return first;
}

void rdmad_pages_give(struct rdmad_pages *p, uint32_t first, uint32_t count) {
    uint32_t end = first + count;
    assert(count && end <= p->count && p->page[first].kind != RDMAD_PAGE_FREE);
    if (end < p->count && p->page[end].kind == RDMAD_PAGE_FREE) {
        uint32_t run = p->page[end].run;
        pages_unlink(p, end);
        count += run;
    }
    if (first > 0 && p->page[first - 1].kind == RDMAD_PAGE_FREE) {
        uint32_t run = p->page[first - 1].run;
        first -= run;
        count += run;
        pages_unlink(p, first);
    }
    pages_link(p, first, count);
}

bool rdmad_pages_init(struct rdmad_pages *p, uint32_t count) {
    *p = (struct rdmad_pages){.count = count};
    for (unsigned i = 0; i < RDMAD_PAGE_BINS; i++)
        p->bin[i] = RDMAD_NO_PAGE;
    p->page = calloc(count ? count : 1, sizeof(*p->page));
    if (!p->page)
        return false;
    if (count)
        pages_link(p, 0, count);
    return true;
}

void rdmad_pages_fini(struct rdmad_pages *p) {
    free(p->page);
}
