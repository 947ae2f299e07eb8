/* SPDX-License-Identifier: MIT */
/*
 * hold_map.c - holds by address, in three sizes.
 *
 * A range is cut into blocks of 256 KiB that it covers, pages that it covers beside them, and parts
 * of the pages at its ends. Each is taken in its own word: a short range in two atomic steps, a
 * long one in two and 64 loads for each block, and in some hundreds at its ends.
 *
 *   block   one word: a writer, or how many readers hold all of it
 *   page    one word: the same for the whole page, and how many parts of it are held either way
 *   part    under a bit of the page's word that is a spinlock: a bit for each 64-byte granule that
 *           is held to be written, a count for each that is held to be read; and for granules of
 *           which a range covers some bytes only, a list of these bytes
 *
 * A thread that takes a page or a part marks it and then looks at the block's word; a thread that
 * takes a block marks that and then looks at its pages' words. All of these accesses are seq_cst,
 * so at least one of two that conflict sees the other; if both do, both are refused, and both did
 * overlap.
 *
 * When some piece of a range cannot be taken, those before it are dropped: they are cut in the same
 * way when the range ends there.
 */
#include "libclient/memory/hold_map.h"
#include "common/ringword.h"
#include <assert.h>
#include <rdmad/abi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE UINT64_C(4096)
#define GRANULE 64u
#define GRANULES 64u /* of a page: one word has a bit for each */
#define BLOCK_PAGES UINT64_C(64)
#define BLOCK (BLOCK_PAGES * PAGE)

/* The word of a page. */
#define LOCKED UINT64_C(1)
#define WHOLE_WRITER UINT64_C(2)
#define WHOLE_READER (UINT64_C(1) << 2)
#define WHOLE_READERS (UINT64_C(0xfffff) << 2)
#define PART_WRITER (UINT64_C(1) << 22)
#define PART_WRITERS (UINT64_C(0x1fffff) << 22)
#define PART_READER (UINT64_C(1) << 43)
#define PART_READERS (UINT64_C(0x1fffff) << 43)

/* The word of a block. */
#define BLOCK_WRITER UINT64_C(1)
#define BLOCK_READER UINT64_C(2)

/* Bytes first to last of a granule, held by count holders. */
struct edge {
    uint8_t granule, first, last;
    bool writes;
    uint32_t count;
};

/* What is held in parts of a page; under the lock in its word. */
struct detail {
    uint64_t writer, reader; /* granules that are held as a whole */
    uint64_t edged;          /* granules that edges are of */
    struct edge *edge;
    uint32_t edges, room;
    uint32_t next; /* page + 1 of the next that has an array of edges; 0: none */
    uint16_t readers[GRANULES];
};

struct rdmad_hold_map {
    uint64_t bytes, mapped;
    uint64_t *block, *page;
    struct detail *detail;
    uint32_t first_edged; /* page + 1; atomic */
};

/* What a range covers of a page. */
struct shape {
    uint64_t full, touched; /* granules as a whole; at all */
    struct edge edge[2];
    unsigned edges;
    bool writes;
};

struct rdmad_hold_map *rdmad_hold_map_new(uint64_t bytes) {
    struct rdmad_hold_map *m = calloc(1, sizeof(*m));
    uint64_t pages = (bytes + PAGE - 1) / PAGE, blocks = bytes / BLOCK + 1;
    char *memory;

    if (!m || pages >= UINT32_MAX) {
        free(m);
        return NULL;
    }
    m->bytes = bytes;
    m->mapped = (blocks + pages) * sizeof(uint64_t) + pages * sizeof(struct detail);
    memory = mmap(NULL, m->mapped, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        free(m);
        return NULL;
    }
    madvise(memory, m->mapped, MADV_NOHUGEPAGE); /* or one op would commit the records of 48 MiB */
    m->block = (uint64_t *)(void *)memory;
    m->page = m->block + blocks;
    m->detail = (struct detail *)(m->page + pages);
    return m;
}

void rdmad_hold_map_free(struct rdmad_hold_map *m) {
    if (!m)
        return;
    for (uint32_t at = m->first_edged; at; at = m->detail[at - 1].next)
        free(m->detail[at - 1].edge);
    munmap(m->block, m->mapped);
    free(m);
}

/* ---- words --------------------------------------------------------------------------------- */

/* The lock is held for some nanoseconds, but its holder may have lost its CPU; and where others
 * want it, a yield may cost milliseconds (common/crowd.h), so there are few. */
static void word_wait(unsigned turn) {
    if (turn < 64) {
        ringword_pause();
    } else if (turn < 72) {
        sched_yield();
    } else {
        struct timespec ts = {.tv_nsec = 50000};
        nanosleep(&ts, NULL);
    }
}

static uint64_t word_load_unlocked(const uint64_t *word) {
    uint64_t w;
    for (unsigned turn = 0; (w = __atomic_load_n(word, __ATOMIC_SEQ_CST)) & LOCKED; turn++)
        word_wait(turn);
    return w;
}

/* From w, which is not locked, to next; false: w is now what it really is. */
static bool word_replace(uint64_t *word, uint64_t *w, uint64_t next) {
    if (__atomic_compare_exchange_n(word, w, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return true;
    if (*w & LOCKED)
        *w = word_load_unlocked(word);
    return false;
}

static uint64_t page_lock(uint64_t *word) {
    uint64_t w = word_load_unlocked(word);
    while (!word_replace(word, &w, w | LOCKED))
        ;
    return w;
}

static void page_unlock(uint64_t *word, uint64_t w) {
    __atomic_store_n(word, w, __ATOMIC_RELEASE);
}

static bool block_conflicts(const struct rdmad_hold_map *m, uint64_t page, bool writes) {
    uint64_t w = __atomic_load_n(&m->block[page / BLOCK_PAGES], __ATOMIC_SEQ_CST);
    return writes ? w != 0 : (w & BLOCK_WRITER) != 0;
}

/* ---- blocks and pages ---------------------------------------------------------------------- */

static void block_drop(struct rdmad_hold_map *m, uint64_t block, bool writes) {
    __atomic_fetch_sub(&m->block[block], writes ? BLOCK_WRITER : BLOCK_READER, __ATOMIC_SEQ_CST);
}

/* The words of its pages together. In one go, because a long op asks of thousands. */
static uint64_t block_pages(const struct rdmad_hold_map *m, uint64_t block) {
    const uint64_t *page = &m->page[block * BLOCK_PAGES];
    uint64_t held = 0;
    for (unsigned i = 0; i < BLOCK_PAGES; i++)
        held |= __atomic_load_n(&page[i], __ATOMIC_SEQ_CST);
    return held;
}

static int block_take(struct rdmad_hold_map *m, uint64_t block, bool writes) {
    uint64_t *word = &m->block[block], w = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    uint64_t conflicts = writes ? ~LOCKED : WHOLE_WRITER | PART_WRITERS;
    do {
        if (writes ? w != 0 : (w & BLOCK_WRITER) != 0)
            return RDMAD_E_BUSY;
    } while (!__atomic_compare_exchange_n(word, &w, w + (writes ? BLOCK_WRITER : BLOCK_READER),
                                          false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    if (!(block_pages(m, block) & (conflicts | LOCKED)))
        return 0;
    for (uint64_t p = block * BLOCK_PAGES; p < (block + 1) * BLOCK_PAGES; p++) {
        if (word_load_unlocked(&m->page[p]) & conflicts) {
            block_drop(m, block, writes);
            return RDMAD_E_BUSY;
        }
    }
    return 0;
}

static void page_drop(struct rdmad_hold_map *m, uint64_t page, bool writes) {
    uint64_t *word = &m->page[page], w = word_load_unlocked(word);
    while (!word_replace(word, &w, w - (writes ? WHOLE_WRITER : WHOLE_READER)))
        ;
}

static int page_take(struct rdmad_hold_map *m, uint64_t page, bool writes) {
    uint64_t *word = &m->page[page], w = word_load_unlocked(word);
    uint64_t conflicts = writes ? ~LOCKED : WHOLE_WRITER | PART_WRITERS;
    do {
        if (w & conflicts)
            return RDMAD_E_BUSY;
        if ((w & WHOLE_READERS) == WHOLE_READERS)
            return RDMAD_E_LIMIT;
    } while (!word_replace(word, &w, w + (writes ? WHOLE_WRITER : WHOLE_READER)));
    if (!block_conflicts(m, page, writes))
        return 0;
    page_drop(m, page, writes);
    return RDMAD_E_BUSY;
}

/* ---- parts of a page ----------------------------------------------------------------------- */

static uint64_t granule_bits(unsigned from, unsigned to) {
    uint64_t below_to = to == 64 ? UINT64_MAX : (UINT64_C(1) << to) - 1;
    return from >= to ? 0 : below_to & ~((UINT64_C(1) << from) - 1);
}

static void add_edge(struct shape *s, unsigned granule, unsigned first, unsigned last) {
    s->edge[s->edges++] = (struct edge){.granule = (uint8_t)granule,
                                        .first = (uint8_t)first,
                                        .last = (uint8_t)last,
                                        .writes = s->writes,
                                        .count = 1};
}

/* Of the page's bytes [low, high), which are not all. */
static inline struct shape shape_of(unsigned low, unsigned high, bool writes) {
    unsigned first = low / GRANULE, last = (high - 1) / GRANULE;
    unsigned full_from = (low + GRANULE - 1) / GRANULE, full_to = high / GRANULE;
    struct shape s;
    s.full = granule_bits(full_from, full_to);
    s.touched = granule_bits(first, last + 1);
    s.edges = 0; /* those that there are not are not set, as this is the way of every op */
    s.writes = writes;
    if (first < full_from)
        add_edge(&s, first, low % GRANULE, first == last ? (high - 1) % GRANULE : GRANULE - 1);
    if (last >= full_to && (last != first || first == full_from))
        add_edge(&s, last, 0, (high - 1) % GRANULE);
    return s;
}

static bool edge_conflicts(const struct edge *e, const struct shape *s) {
    if (!e->writes && !s->writes)
        return false;
    if (s->full >> e->granule & 1)
        return true;
    for (unsigned i = 0; i < s->edges; i++) {
        if (s->edge[i].granule == e->granule && s->edge[i].first <= e->last &&
            e->first <= s->edge[i].last)
            return true;
    }
    return false;
}

static bool detail_conflicts(const struct detail *d, const struct shape *s) {
    if ((d->writer | (s->writes ? d->reader : 0)) & s->touched)
        return true;
    if (d->edged & s->touched) {
        for (uint32_t i = 0; i < d->edges; i++) {
            if (edge_conflicts(&d->edge[i], s))
                return true;
        }
    }
    return false;
}

/* Room for two more edges. */
static bool detail_make_room(struct rdmad_hold_map *m, uint64_t page) {
    struct detail *d = &m->detail[page];
    uint32_t room = d->room ? 2 * d->room : 8;
    struct edge *edge;
    if (d->edges + 2 <= d->room)
        return true;
    edge = realloc(d->edge, room * sizeof(*edge));
    if (!edge)
        return false;
    d->edge = edge;
    if (d->room == 0) {
        uint32_t first = __atomic_load_n(&m->first_edged, __ATOMIC_RELAXED);
        do
            d->next = first;
        while (!__atomic_compare_exchange_n(&m->first_edged, &first, (uint32_t)page + 1, false,
                                            __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    }
    d->room = room;
    return true;
}

static bool same_edge(const struct edge *a, const struct edge *b) {
    return a->granule == b->granule && a->first == b->first && a->last == b->last &&
           a->writes == b->writes;
}

static void put_edge(struct detail *d, const struct edge *e) {
    if (d->edged >> e->granule & 1) {
        for (uint32_t i = 0; i < d->edges; i++) {
            if (same_edge(&d->edge[i], e)) {
                d->edge[i].count++;
                return;
            }
        }
    }
    d->edge[d->edges++] = *e;
    d->edged |= UINT64_C(1) << e->granule;
}

static void remove_edge(struct detail *d, const struct edge *e) {
    uint64_t bit = UINT64_C(1) << e->granule;
    uint32_t i = 0;
    while (i < d->edges && !same_edge(&d->edge[i], e))
        i++;
    assert(i < d->edges);
    if (--d->edge[i].count)
        return;
    d->edge[i] = d->edge[--d->edges];
    d->edged &= ~bit;
    for (i = 0; i < d->edges; i++) {
        if (d->edge[i].granule == e->granule)
            d->edged |= bit;
    }
}

static bool too_many_readers(const struct detail *d, uint64_t granules) {
    for (; granules; granules &= granules - 1) {
        if (d->readers[__builtin_ctzll(granules)] == UINT16_MAX)
            return true;
    }
    return false;
}

static int detail_take(struct rdmad_hold_map *m, uint64_t page, const struct shape *s) {
    struct detail *d = &m->detail[page];
    if (detail_conflicts(d, s))
        return RDMAD_E_BUSY;
    if (!s->writes && too_many_readers(d, d->reader & s->full))
        return RDMAD_E_LIMIT;
    if (s->edges && !detail_make_room(m, page))
        return RDMAD_E_NOMEM;
    if (s->writes) {
        d->writer |= s->full;
    } else {
        d->reader |= s->full;
        for (uint64_t g = s->full; g; g &= g - 1)
            d->readers[__builtin_ctzll(g)]++;
    }
    for (unsigned i = 0; i < s->edges; i++)
        put_edge(d, &s->edge[i]);
    return 0;
}

static void detail_drop(struct detail *d, const struct shape *s) {
    if (s->writes) {
        d->writer &= ~s->full;
    } else {
        for (uint64_t g = s->full; g; g &= g - 1) {
            if (--d->readers[__builtin_ctzll(g)] == 0)
                d->reader &= ~(g & -g);
        }
    }
    for (unsigned i = 0; i < s->edges; i++)
        remove_edge(d, &s->edge[i]);
}

static int part_take(struct rdmad_hold_map *m, uint64_t page, unsigned low, unsigned high,
                     bool writes) {
    uint64_t conflicts = writes ? WHOLE_WRITER | WHOLE_READERS : WHOLE_WRITER;
    uint64_t counter = writes ? PART_WRITERS : PART_READERS;
    struct shape s = shape_of(low, high, writes);
    uint64_t *word = &m->page[page], w = page_lock(word);
    int rc = RDMAD_E_BUSY;

    if ((w & counter) == counter)
        rc = RDMAD_E_LIMIT;
    else if (!(w & conflicts) && !block_conflicts(m, page, writes))
        rc = detail_take(m, page, &s);
    if (!rc)
        w += writes ? PART_WRITER : PART_READER;
    page_unlock(word, w);
    return rc;
}

static void part_drop(struct rdmad_hold_map *m, uint64_t page, unsigned low, unsigned high,
                      bool writes) {
    struct shape s = shape_of(low, high, writes);
    uint64_t *word = &m->page[page], w = page_lock(word);

    detail_drop(&m->detail[page], &s);
    page_unlock(word, w - (writes ? PART_WRITER : PART_READER));
}

/* ---- ranges -------------------------------------------------------------------------------- */

/* How long the first piece of [offset, end) is: a block, a page, or a part of one. */
static uint64_t piece_length(uint64_t offset, uint64_t end) {
    uint64_t left = end - offset, to_page_end = PAGE - offset % PAGE;
    if (offset % BLOCK == 0 && left >= BLOCK)
        return BLOCK;
    return left < to_page_end ? left : to_page_end;
}

int rdmad_hold_map_take(struct rdmad_hold_map *m, uint64_t offset, uint64_t length, bool writes) {
    uint64_t end = offset + length, n;
    int rc = 0;
    assert(end <= m->bytes);
    for (uint64_t at = offset; at < end; at += n) {
        n = piece_length(at, end);
        if (n == BLOCK)
            rc = block_take(m, at / BLOCK, writes);
        else if (n == PAGE)
            rc = page_take(m, at / PAGE, writes);
        else
            rc = part_take(m, at / PAGE, (unsigned)(at % PAGE), (unsigned)(at % PAGE + n), writes);
        if (rc) {
            rdmad_hold_map_drop(m, offset, at - offset, writes);
            return rc;
        }
    }
    return 0;
}

void rdmad_hold_map_drop(struct rdmad_hold_map *m, uint64_t offset, uint64_t length, bool writes) {
    uint64_t end = offset + length, n;
    for (uint64_t at = offset; at < end; at += n) {
        n = piece_length(at, end);
        if (n == BLOCK)
            block_drop(m, at / BLOCK, writes);
        else if (n == PAGE)
            page_drop(m, at / PAGE, writes);
        else
            part_drop(m, at / PAGE, (unsigned)(at % PAGE), (unsigned)(at % PAGE + n), writes);
    }
}

/* All words at zero say so at a glance. */
static bool hold_map_all_zero(const struct rdmad_hold_map *m, uint64_t offset, uint64_t length) {
    uint64_t last = offset + length - 1;
    for (uint64_t b = offset / BLOCK; b <= last / BLOCK; b++) {
        if (__atomic_load_n(&m->block[b], __ATOMIC_SEQ_CST))
            return false;
    }
    for (uint64_t p = offset / PAGE; p <= last / PAGE; p++) {
        if (__atomic_load_n(&m->page[p], __ATOMIC_SEQ_CST))
            return false;
    }
    return true;
}

bool rdmad_hold_map_unheld(struct rdmad_hold_map *m, uint64_t offset, uint64_t length) {
    if (length == 0 || hold_map_all_zero(m, offset, length))
        return true;
    if (rdmad_hold_map_take(m, offset, length, true))
        return false;
    rdmad_hold_map_drop(m, offset, length, true);
    return true;
}
