/* SPDX-License-Identifier: MIT */
/*
 * leases.c - leases of a short life, and who writes into them until they end, and beyond.
 *
 * When its owner is told of a lease's end, or has revoked it, it writes a word of its own all over
 * the memory and looks for it later, twice: soon, and before the memory is used again. What has
 * changed was written by somebody who had no right to any more.
 */
#include "tests/history/scene.h"

#include "tests/support/harness.h"

#include <string.h>

enum { BYTES = LESSEES * LEASE_PART, REGIONS = 8, LIE_EVERY = 5, LOOK_AFTER_MS = 40 };

struct region {
    uint32_t lease; /* the last one on it; 0: none yet */
    char *at;
};

static uint64_t owners_word(uint32_t lease) {
    return 0xa5a5a5a500000000u | lease;
}

/* ---- the owner ------------------------------------------------------------------------------- */

static void announce(struct board *b, uint32_t lease, const char *uri) {
    __atomic_store_n(&b->writing, lease, __ATOMIC_SEQ_CST);
    snprintf(b->lease_uri, sizeof(b->lease_uri), "%s", uri);
    __atomic_store_n(&b->lease, lease, __ATOMIC_SEQ_CST);
}

static void look(struct program *p, const struct region *m) {
    const uint64_t expected = owners_word(m->lease);
    uint64_t found = expected;
    size_t at = 0;
    struct record *r = record_begin(&p->book, RECORD_LEASE_LOOK, m->lease, expected, 0);
    for (size_t i = 0; i < BYTES / 8 && found == expected; i++) {
        found = __atomic_load_n((uint64_t *)m->at + i, __ATOMIC_RELAXED);
        at = 8 * i;
    }
    record_end(r, RECORD_DONE, 0, found, at);
}

/* From here on the memory is its own. */
static void take_back(const struct region *m) {
    uint64_t *words = (uint64_t *)m->at;
    for (size_t i = 0; i < BYTES / 8; i++)
        __atomic_store_n(words + i, owners_word(m->lease), __ATOMIC_RELAXED);
}

/* True when the owner knows that the lease has ended. */
static bool await_end(struct program *p, rdmad_lease *lease, uint64_t ttl, bool revokes) {
    if (revokes) {
        (void)program_events(p, (int)program_draw(p, ttl), NULL);
        return rdmad_lease_revoke(lease) == 0;
    }
    bool told = program_events(p, (int)(ttl + TEST_PATIENCE_MS), lease);
    CHECK(told, "client %u: a lease of %u ms has ended and its owner is not told", p->client,
          (unsigned)ttl);
    return true;
}

static bool grant(struct program *p, const struct region *m, uint64_t ttl, rdmad_lease **lease) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    terms.ttl_ms = ttl;
    terms.rights = RDMAD_RIGHT_WRITE;
    struct record *r = record_begin(&p->book, RECORD_GRANT, m->lease, ttl, 0);
    int rc = rdmad_lease_grant(p->session, m->at, BYTES, &terms, lease);
    record_end(r, rc == 0 ? RECORD_DONE : RECORD_UNKNOWN, rc, 0, 0);
    return rc == 0;
}

static void one_lease(struct program *p, struct region *m, uint32_t number) {
    const uint64_t ttl = 10 + program_draw(p, 150);
    const bool revokes = program_draw(p, 3) == 0;
    rdmad_lease *lease;
    if (m->lease)
        look(p, m);
    m->lease = number;
    memset(m->at, 0, BYTES);
    if (!grant(p, m, ttl, &lease)) {
        m->lease = 0;
        (void)program_events(p, 5, NULL);
        return;
    }
    announce(p->board, number, rdmad_lease_uri(lease));
    struct record *r = record_begin(&p->book, RECORD_LEASE_END, number, revokes, 0);
    if (!await_end(p, lease, ttl, revokes)) { /* nobody knows: it is let be, and so is its memory */
        record_end(r, RECORD_UNKNOWN, 0, 0, 0);
        rdmad_lease_free(lease);
        (void)program_events(p, (int)ttl, NULL);
        m->lease = 0;
        return;
    }
    record_end(r, RECORD_DONE, 0, 0, 0);
    take_back(m);
    rdmad_lease_free(lease);
    (void)program_events(p, (int)program_draw(p, LOOK_AFTER_MS), NULL);
    if (p->board->lie == LIE_WRITE_AFTER_END && number % LIE_EVERY == 0)
        m->at[BYTES / 2 + 100] ^= 1;
    look(p, m);
}

void lessor_run(void *program) {
    struct program *p = program;
    struct region regions[REGIONS];
    program_begin(p, (size_t)REGIONS * BYTES);
    for (uint32_t i = 0; i < REGIONS; i++)
        regions[i] = (struct region){.at = p->buffer + (size_t)i * BYTES};
    for (uint32_t number = 1; program_goes_on(p); number++)
        one_lease(p, &regions[number % REGIONS], number);
    for (uint32_t i = 0; i < REGIONS; i++)
        if (regions[i].lease)
            look(p, &regions[i]);
    program_end(p);
}

/* ---- who writes ------------------------------------------------------------------------------ */

/* The announced lease, if it is another than the last; 0 if not. */
static uint32_t next_lease(const struct board *b, uint32_t last, char uri[RDMAD_URI_MAX + 1]) {
    uint32_t lease = __atomic_load_n(&b->lease, __ATOMIC_SEQ_CST);
    if (lease == last)
        return 0;
    snprintf(uri, RDMAD_URI_MAX + 1, "%s", b->lease_uri);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(&b->writing, __ATOMIC_SEQ_CST) == lease ? lease : 0;
}

/* Writes until it is refused, and then some times more. */
static void write_into(struct program *p, rdmad_lease *l, uint32_t lease, uint64_t *values) {
    const uint64_t at = (uint64_t)p->instance * LEASE_PART;
    for (unsigned refused = 0; refused < 3 && program_goes_on(p);) {
        uint64_t value = (uint64_t)(p->client + 1) << 40 | ++*values;
        pattern_fill(p->buffer, LEASE_PART, lease, value);
        struct record *r = record_begin(&p->book, RECORD_LEASE_WRITE, lease, value, 0);
        int rc = rdmad_write(l, at, p->buffer, LEASE_PART);
        record_end(r, rc == 0 ? RECORD_DONE : record_outcome(), rc, 0, 0);
        refused += rc != 0;
        program_pause(p, 1000);
    }
}

void lessee_run(void *program) {
    struct program *p = program;
    char uri[RDMAD_URI_MAX + 1], through[RDMAD_URI_MAX + 1];
    uint64_t values = 0;
    uint32_t last = 0;
    program_begin(p, LEASE_PART);
    while (program_goes_on(p)) {
        rdmad_lease *l;
        uint32_t lease = next_lease(p->board, last, uri);
        (void)program_events(p, lease ? 0 : 2, NULL);
        if (!lease)
            continue;
        last = lease;
        if (rdmad_lease_attach(p->session, program_uri(p, uri, through), 0, &l) != 0)
            continue; /* it has ended already, or its daemon is not there */
        write_into(p, l, lease, &values);
        rdmad_lease_free(l);
    }
    program_end(p);
}
