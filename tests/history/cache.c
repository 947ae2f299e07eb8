/* SPDX-License-Identifier: MIT */
/*
 * cache.c - examples/kv_cache.c as it stands, in a history: its server, and programs that put and
 * get at random. A get is a READ that the server does not notice, a put a message; together they
 * are to be like one op after another.
 */
#include "tests/history/scene.h"

#include "tests/support/harness.h"

int kv_cache_main(int argc, char **argv);
#define main kv_cache_main
#include "examples/kv_cache.c" /* NOLINT(bugprone-suspicious-include): as it stands */
#undef main

#include <stdlib.h>

enum { LIE_EVERY = 10, SERVER_WAIT_MS = 50 };

/* ---- the server ------------------------------------------------------------------------------ */

void cache_run(void *program) {
    struct program *p = program;
    struct board *b = p->board;
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_service *service;
    rdmad_lease *lease;
    program_begin(p, ENTRIES * sizeof(struct entry) + sizeof(struct put));
    struct entry *table = (void *)p->buffer;
    struct put *put = (void *)(table + ENTRIES);
    terms.ttl_ms = 3600000;
    terms.rights = RDMAD_RIGHT_READ;
    CHECK(!rdmad_listen(p->session, "cache.put", NULL, &service) &&
              !rdmad_lease_grant(p->session, table, ENTRIES * sizeof(*table), &terms, &lease),
          "%s", rdmad_last_error(p->session));
    snprintf(b->cache, sizeof(b->cache), "%s", rdmad_lease_uri(lease));
    snprintf(b->cache_puts, sizeof(b->cache_puts), "%s", rdmad_service_uri(service));
    __atomic_store_n(&b->cached, true, __ATOMIC_SEQ_CST);
    while (program_goes_on(p)) {
        serve_one(service, table, put, SERVER_WAIT_MS);
        (void)program_events(p, 0, NULL);
    }
    rdmad_service_close(service);
    rdmad_lease_free(lease);
    program_end(p);
}

/* ---- who puts and gets ----------------------------------------------------------------------- */

struct reader {
    struct program *p;
    rdmad_lease *table;
    struct entry *entry; /* in the pool */
    struct put *put;
    uint64_t values;
};

/* No two keys are in one place, where one would drive the other out. */
static uint32_t draw_key(struct reader *r, char key[KEY]) {
    uint32_t slot = (program_key(r->p) + (uint32_t)program_draw(r->p, KEYS_AT_A_TIME)) % ENTRIES;
    unsigned salt = 0;
    do {
        snprintf(key, KEY, "key %u.%u", slot, salt++);
    } while (slot_of(key) != slot);
    return KEYS + slot; /* beside those of users */
}

static void get_key(struct reader *r, const char *key, uint32_t object) {
    struct record *op = record_begin(&r->p->book, RECORD_GET, object, 0, 0);
    int rc = look_up(r->table, key, r->entry);
    uint64_t value = !rc && is_of(r->entry, key) ? strtoull(r->entry->value, NULL, 16) : 0;
    record_end(op, rc ? record_outcome() : RECORD_DONE, rc, value, 0);
    if (value)
        __atomic_store_n(&r->p->board->cache_read, true, __ATOMIC_SEQ_CST);
    if (rc)
        r->table = program_mend(r->p, r->table, r->p->board->cache);
}

static bool lies(const struct reader *r) {
    return r->p->board->lie == LIE_CACHE_LOST && r->values % LIE_EVERY == 0;
}

/* Of one that failed after it was connected nobody knows whether the server has stored it, or will.
 */
static void put_key(struct reader *r, const char *key, uint32_t object) {
    char text[32], here[] = "rdmad:///cache.put", through[RDMAD_URI_MAX + 1];
    const char *there = program_uri(r->p, r->p->board->cache_puts, through);
    uint64_t value = (uint64_t)(r->p->client + 1) << 40 | ++r->values;
    enum record_outcome outcome = RECORD_NOT_DONE;
    rdmad_channel *c;
    snprintf(text, sizeof(text), "%llx", (unsigned long long)value);
    put_fill(r->put, key, text);
    struct record *op = record_begin(&r->p->book, RECORD_PUT, object, value, RECORD_UNSEEN);
    int rc =
        rdmad_connect(r->p->session, r->p->daemon ? there : here, RDMAD_CHANNEL_RELIABLE, 0, &c);
    if (!rc) {
        rc = lies(r) ? 0 : send_put(c, r->put);
        outcome = rc ? RECORD_UNKNOWN : RECORD_DONE;
    }
    record_end(op, outcome, rc, 0, 0);
    if (outcome != RECORD_NOT_DONE)
        (void)rdmad_channel_close(c);
}

/* Whoever has put looks at once, for then what comes too late is seen. */
static void one(struct reader *r) {
    char key[KEY];
    uint32_t object = draw_key(r, key);
    if (program_draw(r->p, 4) == 0)
        put_key(r, key, object);
    get_key(r, key, object);
}

void reader_run(void *program) {
    struct program *p = program;
    struct reader r = {.p = p};
    program_begin(p, 4096);
    r.entry = (void *)p->buffer;
    r.put = (void *)(r.entry + 1);
    while (program_goes_on(p) && !__atomic_load_n(&p->board->cached, __ATOMIC_SEQ_CST))
        (void)program_events(p, 5, NULL);
    if (program_goes_on(p))
        r.table = program_attach(p, p->board->cache);
    while (r.table && program_goes_on(p)) {
        one(&r);
        (void)program_events(p, 0, NULL);
        program_pause(p, 3000);
    }
    rdmad_lease_free(r.table);
    program_end(p);
}
