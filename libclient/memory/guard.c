/* SPDX-License-Identifier: MIT */
/*
 * guard.c - guard mode's records of pages and ops, and what protects the pages.
 *
 * Several ops on one page nest: it knows how many read and how many fill it. A page's protection is
 * always worked out anew from its record, and neighbours that change alike change in one call. When
 * the kernel refuses (too many mappings), the page stays as it is: less is found then.
 *
 * Freed buffers queue up for being handed out again. The oldest leave when a quarter of the pool is
 * dead, when there are very many, or when there is no room for a new buffer; but not while an op
 * still holds them.
 */
#include "libclient/memory/guard.h"
#include "libclient/memory/guard_fault.h"
#include "libclient/memory/lent.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RW (PROT_READ | PROT_WRITE)
#define DEAD_BUFFERS_MAX 4096u /* each is a mapping or two of at most 65,530 */

static bool guard_can_protect(char *base) {
    return mprotect(base, RDMAD_GUARD_PAGE, PROT_READ) == 0 &&
           mprotect(base, RDMAD_GUARD_PAGE, RW) == 0;
}

struct rdmad_guard *rdmad_guard_new(struct rdmad_pool *pool) {
    struct rdmad_guard *g;

    if (pool->bytes < RDMAD_GUARD_PAGE || !guard_can_protect(pool->base)) {
        fprintf(stderr,
                "rdmad guard: pool %llu is not guarded: pages of %u bytes cannot be "
                "protected in it\n",
                (unsigned long long)pool->handle, RDMAD_GUARD_PAGE);
        return NULL;
    }
    g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    g->pool = pool;
    g->base = pool->base;
    g->bytes = pool->bytes;
    g->number = pool->handle;
    g->pages = (uint32_t)(pool->bytes / RDMAD_GUARD_PAGE);
    g->page = calloc(g->pages, sizeof(*g->page));
    if (!g->page) {
        free(g);
        return NULL;
    }
    for (uint32_t i = 0; i < g->pages; i++)
        g->page[i].prot = RW;
    rdmad_guard_lock();
    rdmad_guard_register(g);
    rdmad_guard_unlock();
    return g;
}

void rdmad_guard_free(struct rdmad_guard *g) {
    if (!g)
        return;
    rdmad_guard_lock();
    rdmad_guard_unregister(g);
    rdmad_guard_unlock();
    for (struct rdmad_guard_op *op = g->ops, *next; op; op = next) {
        next = op->next;
        free(op);
    }
    free(g->page);
    free(g);
}

/* ---- protection ---------------------------------------------------------------------------- */

static uint8_t guard_page_prot(const struct rdmad_guard_page *page) {
    if (page->state == RDMAD_GUARD_DEAD || page->writers)
        return PROT_NONE;
    return page->readers ? PROT_READ : RW;
}

/* With the lock: pages [from, to) as their records say. */
static void guard_protect(struct rdmad_guard *g, uint32_t from, uint32_t to) {
    for (uint32_t i = from, n; i < to; i += n) {
        uint8_t prot = guard_page_prot(&g->page[i]);
        for (n = 1; i + n < to && guard_page_prot(&g->page[i + n]) == prot; n++)
            ;
        bool same = true;
        for (uint32_t k = i; k < i + n && same; k++)
            same = g->page[k].prot == prot;
        if (same || mprotect(g->base + (uint64_t)i * RDMAD_GUARD_PAGE,
                             (uint64_t)n * RDMAD_GUARD_PAGE, prot))
            continue;
        for (uint32_t k = i; k < i + n; k++)
            g->page[k].prot = prot;
    }
}

/* ---- ops ----------------------------------------------------------------------------------- */

/* Whether an op on [offset, end) protects the page: any part of it for buffers, all else. */
static bool guard_covers(const struct rdmad_guard *g, uint32_t i, uint64_t offset, uint64_t end) {
    uint64_t at = (uint64_t)i * RDMAD_GUARD_PAGE;
    return g->page[i].state != RDMAD_GUARD_UNUSED || (offset <= at && at + RDMAD_GUARD_PAGE <= end);
}

static void guard_count(struct rdmad_guard *g, const struct rdmad_hold *h, uint32_t by) {
    uint64_t end = h->offset + h->length;
    uint32_t from = (uint32_t)(h->offset / RDMAD_GUARD_PAGE);
    uint32_t to = (uint32_t)((end + RDMAD_GUARD_PAGE - 1) / RDMAD_GUARD_PAGE);
    if (to > g->pages)
        to = g->pages;
    for (uint32_t i = from; i < to; i++) {
        if (!guard_covers(g, i, h->offset, end))
            continue;
        uint32_t *counter = h->writes ? &g->page[i].writers : &g->page[i].readers;
        if (by == 1 || *counter) /* a buffer may have been put on a page since the op began */
            *counter += by;
    }
    guard_protect(g, from, to);
}

static void guard_refuse_dead(const struct rdmad_guard *g, const struct rdmad_hold *h) {
    const struct rdmad_guard_page *page = &g->page[h->offset / RDMAD_GUARD_PAGE];
    struct rdmad_guard_text t = {.used = 0};
    if (page->state != RDMAD_GUARD_DEAD)
        return;
    rdmad_guard_say(&t, "rdmad guard: use of ");
    rdmad_guard_say_buffer(&t, g, page);
    rdmad_guard_say(&t, " after rdmad_free, by ");
    rdmad_guard_say_op(&t, h);
    rdmad_guard_abort(&t);
}

void rdmad_guard_hold(struct rdmad_pool *pool, const struct rdmad_hold *hold) {
    struct rdmad_guard_op *op = malloc(sizeof(*op));
    struct rdmad_guard *g = pool->guard;
    if (!op)
        abort(); /* a mode for tests */
    op->hold = *hold;
    rdmad_guard_lock();
    guard_refuse_dead(g, hold);
    op->next = g->ops;
    g->ops = op;
    guard_count(g, hold, 1);
    rdmad_guard_unlock();
}

static bool guard_same_hold(const struct rdmad_hold *a, const struct rdmad_hold *b) {
    return a->offset == b->offset && a->length == b->length && a->writes == b->writes &&
           a->opcode == b->opcode && a->user_data == b->user_data && a->object == b->object;
}

void rdmad_guard_release(struct rdmad_pool *pool, const struct rdmad_hold *hold) {
    struct rdmad_guard *g = pool->guard;
    struct rdmad_guard_op **at, *op;
    rdmad_guard_lock();
    for (at = &g->ops; !guard_same_hold(&(*at)->hold, hold); at = &(*at)->next)
        assert((*at)->next);
    op = *at;
    *at = op->next;
    guard_count(g, hold, UINT32_MAX);
    rdmad_guard_unlock();
    free(op);
}

/* ---- buffers ------------------------------------------------------------------------------- */

static void guard_set_state(struct rdmad_guard *g, uint32_t first, enum rdmad_guard_state state) {
    uint32_t pages = g->page[first].pages;
    for (uint32_t i = first; i < first + pages; i++) {
        g->page[i].state = (uint8_t)state;
        g->page[i].first = first;
    }
    guard_protect(g, first, first + pages);
}

static uint64_t buffer_bytes(const struct rdmad_guard_page *page) {
    return (uint64_t)page->pages * RDMAD_GUARD_PAGE;
}

/* The pages of the oldest dead buffer that nobody holds can be handed out again. False: none. */
static bool guard_revive(struct rdmad_pool *pool) {
    struct rdmad_guard *g = pool->guard;
    uint32_t *at, before = 0, first;
    uint64_t offset;
    rdmad_guard_lock();
    for (at = &g->dead_first; *at; before = *at, at = &g->page[*at - 1].next) {
        first = *at - 1;
        offset = (uint64_t)first * RDMAD_GUARD_PAGE;
        if (rdmad_is_held(&pool->holders, offset, buffer_bytes(&g->page[first])) ||
            rdmad_is_lent(&pool->holders, offset, buffer_bytes(&g->page[first])))
            continue;
        *at = g->page[first].next;
        if (g->dead_last == first + 1)
            g->dead_last = before;
        g->dead_pages -= g->page[first].pages;
        g->dead_buffers--;
        guard_set_state(g, first, RDMAD_GUARD_UNUSED);
        rdmad_guard_unlock();
        rdmad_arena_return(pool->arena, offset);
        return true;
    }
    rdmad_guard_unlock();
    return false;
}

uint64_t rdmad_guard_take(struct rdmad_pool *pool, size_t bytes) {
    uint64_t pages = bytes / RDMAD_GUARD_PAGE + (bytes % RDMAD_GUARD_PAGE != 0), offset;
    struct rdmad_guard *g = pool->guard;
    pages = pages ? pages : 1;
    if (pages > g->pages)
        return RDMAD_ARENA_NONE;
    do
        offset = rdmad_arena_take(pool->arena, pages * RDMAD_GUARD_PAGE);
    while (offset == RDMAD_ARENA_NONE && guard_revive(pool));
    if (offset == RDMAD_ARENA_NONE)
        return offset;
    uint32_t first = (uint32_t)(offset / RDMAD_GUARD_PAGE);
    rdmad_guard_lock();
    g->page[first].bytes = bytes;
    g->page[first].pages = (uint32_t)pages;
    guard_set_state(g, first, RDMAD_GUARD_LIVE);
    rdmad_guard_unlock();
    memset(pool->base + offset, RDMAD_GUARD_NEW, bytes);
    memset(pool->base + offset + bytes, RDMAD_GUARD_SLACK, pages * RDMAD_GUARD_PAGE - bytes);
    return offset;
}

static void guard_check_slack(const struct rdmad_guard *g, const struct rdmad_guard_page *page) {
    const char *start = g->base + (uint64_t)page->first * RDMAD_GUARD_PAGE;
    struct rdmad_guard_text t = {.used = 0};
    for (uint64_t i = page->bytes; i < buffer_bytes(page); i++) {
        if ((uint8_t)start[i] == RDMAD_GUARD_SLACK)
            continue;
        rdmad_guard_say(&t, "rdmad guard: ");
        rdmad_guard_say_buffer(&t, g, page);
        rdmad_guard_say(&t, " was written beyond its end, at +");
        rdmad_guard_say_number(&t, i, 10);
        rdmad_guard_abort(&t);
    }
}

static void guard_say_lent(struct rdmad_pool *pool, const struct rdmad_guard_page *page,
                           uint64_t offset) {
    struct rdmad_guard_text t = {.used = 0};
    char who[128];

    rdmad_lent_name(pool, offset, buffer_bytes(page), who, sizeof(who));
    rdmad_guard_say(&t, "rdmad guard: rdmad_free of ");
    rdmad_guard_say_buffer(&t, pool->guard, page);
    rdmad_guard_say(&t, " under ");
    rdmad_guard_say(&t, who);
    rdmad_guard_say(&t, ", which is alive: others may still read and write it, so it is not handed "
                        "out again before that ends");
    rdmad_guard_print(&t);
}

/* While it was the program's last, unless an op holds it or others may reach it. */
static void guard_poison(struct rdmad_pool *pool, uint64_t offset) {
    struct rdmad_guard *g = pool->guard;
    const struct rdmad_guard_page *page = &g->page[offset / RDMAD_GUARD_PAGE];
    if (rdmad_is_lent(&pool->holders, offset, buffer_bytes(page))) {
        guard_say_lent(pool, page, offset);
        return;
    }
    if (rdmad_is_held(&pool->holders, offset, buffer_bytes(page)))
        return;
    guard_check_slack(g, page);
    memset(pool->base + offset, RDMAD_GUARD_FREED, buffer_bytes(page));
}

void rdmad_guard_give(struct rdmad_pool *pool, uint64_t offset) {
    uint32_t first = (uint32_t)(offset / RDMAD_GUARD_PAGE);
    struct rdmad_guard *g = pool->guard;
    guard_poison(pool, offset);
    rdmad_guard_lock();
    guard_set_state(g, first, RDMAD_GUARD_DEAD);
    g->page[first].next = 0;
    if (g->dead_last)
        g->page[g->dead_last - 1].next = first + 1;
    else
        g->dead_first = first + 1;
    g->dead_last = first + 1;
    g->dead_pages += g->page[first].pages;
    g->dead_buffers++;
    bool too_many = g->dead_pages > g->pages / 4 || g->dead_buffers > DEAD_BUFFERS_MAX;
    rdmad_guard_unlock();
    if (too_many)
        guard_revive(pool);
}

void rdmad_guard_explain_free(struct rdmad_pool *pool, uint64_t offset) {
    struct rdmad_guard *g = pool->guard;
    const struct rdmad_guard_page *page;
    struct rdmad_guard_text t = {.used = 0};
    if (offset / RDMAD_GUARD_PAGE >= g->pages)
        return;
    page = &g->page[offset / RDMAD_GUARD_PAGE];
    if (page->state == RDMAD_GUARD_UNUSED)
        return;
    rdmad_guard_say(&t, "rdmad guard: rdmad_free of ");
    if (offset != (uint64_t)page->first * RDMAD_GUARD_PAGE) {
        rdmad_guard_say(&t, "an address inside ");
        rdmad_guard_say_buffer(&t, g, page);
    } else {
        rdmad_guard_say_buffer(&t, g, page);
        rdmad_guard_say(&t, ", which was freed before");
    }
    rdmad_guard_abort(&t);
}
