/* SPDX-License-Identifier: MIT */
/*
 * user.c - a program that does at random, by blocking calls, what others do to the same memory:
 *
 *   - counters: adds, which returns what was there, always another amount;
 *   - registers: compares and swaps, always to a value that nobody else uses, or reads by adding 0
 *     (a plain READ promises no 8 bytes as a whole);
 *   - a key-value store: puts, deletes and gets, each made of such steps, seen as one op;
 *   - blocks: writes its own as a whole, reads others'.
 *
 * When its handle has ended it attaches again, by the same URI. A handle that lives on by itself is
 * used on. A lie is told at every tenth occasion.
 */
#include "tests/history/scene.h"

#include "tests/support/harness.h"

#include <string.h>

enum { LIE_EVERY = 10 };

struct user {
    struct program *p;
    rdmad_lease *lease;
    uint64_t values, occasions;
    uint64_t version[2];              /* of its two blocks */
    uint64_t seen[2][KEYS_AT_A_TIME]; /* of registers and keys, as last read here */
    uint32_t seen_key[2];             /* the first of those */
    struct record *op;
};

static bool lies(struct user *u, enum lie lie) {
    return u->p->board->lie == lie && ++u->occasions % LIE_EVERY == 0;
}

static void begin(struct user *u, enum record_kind kind, uint32_t object, uint64_t arg,
                  uint64_t arg2) {
    u->op = record_begin(&u->p->book, kind, object, arg, arg2);
}

static void end(struct user *u, int rc, uint64_t result, uint64_t result2) {
    enum record_outcome outcome = rc == 0 ? RECORD_DONE : record_outcome();
    record_end(u->op, outcome, rc, result, result2);
}

/* A value that no other op has: by which client, and its how many-th. */
static uint64_t new_value(struct user *u) {
    return (uint64_t)(u->p->client + 1) << 40 | ++u->values;
}

static void add(struct user *u) {
    uint32_t counter = (uint32_t)program_draw(u->p, COUNTERS);
    uint64_t was = 0, amount = 1 + program_draw(u->p, MOST_ADDED);
    begin(u, RECORD_ADD, counter, amount, 0);
    bool lost = lies(u, LIE_ADD_LOST);
    int rc = rdmad_fetch_add(u->lease, AT_COUNTERS + 8 * counter, lost ? 0 : amount, &was);
    if (rc == 0 && lies(u, LIE_ADD_TWICE))
        (void)rdmad_fetch_add(u->lease, AT_COUNTERS + 8 * counter, amount, NULL);
    end(u, rc, was, 0);
}

/* ---- registers and keys ---------------------------------------------------------------------- */

/* Which of the keys that are in use now; what was seen of earlier ones is forgotten. */
static unsigned draw_key(struct user *u, unsigned of, uint32_t *key) {
    uint32_t first = program_key(u->p);
    unsigned which = (unsigned)program_draw(u->p, KEYS_AT_A_TIME);
    if (first != u->seen_key[of])
        memset(u->seen[of], 0, sizeof(u->seen[of]));
    u->seen_key[of] = first;
    *key = first + which;
    return which;
}

static void look(struct user *u, unsigned of, uint64_t base, enum record_kind kind) {
    uint32_t key;
    unsigned which = draw_key(u, of, &key);
    uint64_t is = 0;
    begin(u, kind, key, 0, 0);
    int rc = rdmad_fetch_add(u->lease, base + 8 * key, 0, &is);
    if (rc == 0)
        u->seen[of][which] = is;
    end(u, rc, is, 0);
}

static void swap(struct user *u) {
    uint32_t key;
    unsigned which = draw_key(u, 0, &key);
    uint64_t expected = u->seen[0][which], desired = new_value(u), was = expected;
    begin(u, RECORD_CAS, key, expected, desired);
    int rc = 0;
    if (!lies(u, LIE_CAS_LOST))
        rc = rdmad_cas(u->lease, AT_REGISTERS + 8 * key, expected, desired, &was);
    if (rc == 0)
        u->seen[0][which] = was == expected ? desired : was;
    end(u, rc, was, 0);
}

/* Compares and swaps until nobody came between. Only the last step can have changed anything. */
static void put(struct user *u, bool deletes) {
    uint32_t key;
    unsigned which = draw_key(u, 1, &key);
    uint64_t expected = u->seen[1][which], was = 0, value = deletes ? 0 : new_value(u);
    int rc;
    begin(u, RECORD_PUT, key, value, 0);
    if (lies(u, LIE_PUT_LOST)) {
        rc = rdmad_fetch_add(u->lease, AT_KEYS + 8 * key, 0, &was);
    } else {
        while ((rc = rdmad_cas(u->lease, AT_KEYS + 8 * key, expected, value, &was)) == 0 &&
               was != expected)
            expected = was;
    }
    if (rc == 0)
        u->seen[1][which] = value;
    end(u, rc, was, 0);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void write_block(struct user *u) {
    unsigned which = (unsigned)program_draw(u->p, 2);
    uint32_t block = 2 * u->p->client + which;
    uint64_t version = ++u->version[which];
    pattern_fill(u->p->buffer, BLOCK, block, version);
    begin(u, RECORD_BLOCK_WRITE, block, version, 0);
    int rc = 0;
    if (!lies(u, LIE_BLOCK_LOST))
        rc = rdmad_write(u->lease, AT_BLOCKS + (uint64_t)block * BLOCK, u->p->buffer, BLOCK);
    end(u, rc, 0, 0);
}

static void read_block(struct user *u) {
    uint32_t block =
        (uint32_t)program_draw(u->p, 2 * __atomic_load_n(&u->p->board->clients, __ATOMIC_SEQ_CST));
    uint64_t whole, version;
    char *at = u->p->buffer + BLOCK;
    begin(u, RECORD_BLOCK_READ, block, 0, 0);
    int rc = rdmad_read(u->lease, AT_BLOCKS + (uint64_t)block * BLOCK, at, BLOCK);
    version = pattern_read(at, BLOCK, block, &whole);
    end(u, rc, version, whole);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void one(struct user *u) {
    switch (program_draw(u->p, 10)) {
    case 0:
    case 1:
    case 2:
        add(u);
        break;
    case 3:
        look(u, 0, AT_REGISTERS, RECORD_LOOK);
        break;
    case 4:
    case 5:
        swap(u);
        break;
    case 6:
        look(u, 1, AT_KEYS, RECORD_GET);
        break;
    case 7:
        put(u, program_draw(u->p, 8) == 0);
        break;
    case 8:
        write_block(u);
        break;
    default:
        read_block(u);
    }
}

void user_run(void *program) {
    struct program *p = program;
    struct user u = {.p = p};
    program_begin(p, 2 * BLOCK);
    u.lease = program_attach(p, p->board->uri);
    for (uint64_t i = 0; u.lease && program_goes_on(p); i++) {
        one(&u);
        if (u.op->outcome != RECORD_DONE)
            u.lease = program_mend(p, u.lease, p->board->uri);
        else if (i % 64 == 0)
            (void)program_events(p, 0, NULL);
        program_pause(p, 1500);
    }
    rdmad_lease_free(u.lease);
    program_end(p);
}
