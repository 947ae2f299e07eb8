/* SPDX-License-Identifier: MIT */
/*
 * memory.c - the owner of the memory in which counters, registers, keys and blocks lie. It does
 * nothing but live, and at the end it reads by its own CPU what is there.
 */
#include "tests/history/scene.h"

#include "tests/support/harness.h"

#include <string.h>

static void publish(struct program *p, rdmad_lease *lease) {
    struct board *b = p->board;
    snprintf(b->uri, sizeof(b->uri), "%s", rdmad_lease_uri(lease));
    __atomic_store_n(&b->granted, true, __ATOMIC_SEQ_CST);
}

static void read_all(struct program *p, enum record_kind kind, size_t at, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct record *r = record_begin(&p->book, kind, i, 0, 0);
        uint64_t word = __atomic_load_n((uint64_t *)(p->buffer + at) + i, __ATOMIC_SEQ_CST);
        record_end(r, RECORD_DONE, 0, word, 0);
    }
}

void owner_run(void *program) {
    struct program *p = program;
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *lease;
    program_begin(p, MEMORY);
    memset(p->buffer, 0, MEMORY);
    terms.ttl_ms = 3600000;
    terms.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE | RDMAD_RIGHT_ATOMIC;
    CHECK(rdmad_lease_grant(p->session, p->buffer, MEMORY, &terms, &lease) == 0, "%s",
          rdmad_last_error(p->session));
    publish(p, lease);
    while (!__atomic_load_n(&p->board->finish, __ATOMIC_SEQ_CST))
        (void)program_events(p, 20, NULL);
    read_all(p, RECORD_COUNT, AT_COUNTERS, COUNTERS);
    read_all(p, RECORD_LOOK, AT_REGISTERS, KEYS);
    read_all(p, RECORD_GET, AT_KEYS, KEYS);
    rdmad_lease_free(lease);
    program_end(p);
}
