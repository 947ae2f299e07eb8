/* SPDX-License-Identifier: MIT */
/*
 * ringer.c - a program that has many ops in flight at once, on a ring of its own: adds to the
 * counters that users add to, and compares and swaps of their registers.
 *
 * When its daemon goes they all end at once, some known and some not; what is submitted meanwhile
 * waits for the next one. Each op completes once: record_end sees to that.
 */
#include "tests/history/scene.h"

#include "tests/support/harness.h"

enum { ENTRIES = 32, AT_A_TIME = 12 };

struct ringer {
    struct program *p;
    rdmad_lease *lease;
    rdmad_ring *ring;
    unsigned in_flight;
    uint64_t values;
    struct record *failed; /* the last op that did */
};

static void submit_add(struct ringer *g, struct rdmad_sqe *sqe) {
    uint32_t counter = (uint32_t)program_draw(g->p, COUNTERS);
    uint64_t amount = 1 + program_draw(g->p, MOST_ADDED);
    struct record *r = record_begin(&g->p->book, RECORD_ADD, counter, amount, 0);
    CHECK(rdmad_prep_fetch_add(g->ring, sqe, g->lease, AT_COUNTERS + 8 * counter, amount,
                               (uint64_t)r) == 0,
          "%s", rdmad_last_error(g->p->session));
}

/* From 0, so that one of those that are in flight at a time can win. */
static void submit_cas(struct ringer *g, struct rdmad_sqe *sqe) {
    uint32_t key = program_key(g->p) + (uint32_t)program_draw(g->p, KEYS_AT_A_TIME);
    uint64_t value = (uint64_t)(g->p->client + 1) << 40 | ++g->values;
    struct record *r = record_begin(&g->p->book, RECORD_CAS, key, 0, value);
    CHECK(rdmad_prep_cas(g->ring, sqe, g->lease, AT_REGISTERS + 8 * key, 0, value, (uint64_t)r) ==
              0,
          "%s", rdmad_last_error(g->p->session));
}

static void submit_some(struct ringer *g) {
    for (uint64_t n = 1 + program_draw(g->p, AT_A_TIME); n; n--) {
        const bool adds = program_draw(g->p, 4) != 0;
        struct rdmad_sqe *sqe = rdmad_ring_reserve(g->ring);
        if (!sqe)
            break;
        if (adds)
            submit_add(g, sqe);
        else
            submit_cas(g, sqe);
        g->in_flight++;
    }
    (void)rdmad_ring_submit(g->ring); /* what cannot be submitted completes, too */
}

static enum record_outcome outcome_of(const struct rdmad_cqe *cqe) {
    static const enum record_outcome outcomes[] = {[RDMAD_DONE] = RECORD_DONE,
                                                   [RDMAD_FAILED_UNTOUCHED] = RECORD_NOT_DONE,
                                                   [RDMAD_FAILED_PARTIAL] = RECORD_PARTLY,
                                                   [RDMAD_UNKNOWN] = RECORD_UNKNOWN};
    CHECK(cqe->outcome <= RDMAD_UNKNOWN, "outcome %u", cqe->outcome);
    CHECK((cqe->status == 0) == (cqe->outcome == RDMAD_DONE), "status %d with outcome %u",
          cqe->status, cqe->outcome);
    return outcomes[cqe->outcome];
}

static void complete_some(struct ringer *g, int wait_ms) {
    const struct rdmad_cqe *cqe;
    int rc = rdmad_ring_wait(g->ring, wait_ms, &cqe);
    for (; rc == 0; rc = rdmad_ring_peek(g->ring, &cqe)) {
        struct record *r = (struct record *)cqe->user_data;
        record_end(r, outcome_of(cqe), cqe->status, cqe->value, 0);
        if (cqe->status)
            g->failed = r;
        rdmad_ring_seen(g->ring, cqe);
        g->in_flight--;
    }
}

static void complete_all(struct ringer *g) {
    for (uint64_t since = now_ms(); g->in_flight; complete_some(g, 50))
        CHECK(now_ms() - since < 3 * TEST_PATIENCE_MS, "client %u: %u ops do not complete",
              g->p->client, g->in_flight);
}

void ringer_run(void *program) {
    struct program *p = program;
    struct ringer g = {.p = p};
    program_begin(p, 4096);
    CHECK(rdmad_ring_create(p->session, ENTRIES, &g.ring) == 0, "%s", rdmad_last_error(p->session));
    g.lease = program_attach(p, p->board->uri);
    while (g.lease && program_goes_on(p)) {
        submit_some(&g);
        complete_some(&g, 20);
        (void)program_events(p, 0, NULL);
        if (g.failed) {
            complete_all(&g);
            g.lease = program_mend(p, g.lease, p->board->uri);
            g.failed = NULL;
        }
        program_pause(p, 8000);
    }
    complete_all(&g);
    rdmad_lease_free(g.lease);
    rdmad_ring_destroy(g.ring);
    program_end(p);
}
