/* SPDX-License-Identifier: MIT */
/*
 * test_rings.c - threads of one session, each with a ring of its own: nobody's op is another's, and
 * together they are not slower than one of them alone.
 *
 * The promise is 0.9 of one ring's rate however many there are; a busy machine decides more than we
 * do, so the test fails at a tenth of that, and prints what it was.
 */
#include "tests/support/client.h"
#include "tests/support/pair.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH = 64, BYTES = 64, THREADS = 8, ROUNDS = 5, POOL = THREADS * DEPTH * 2 * BYTES };

struct worker {
    struct pair *p;
    unsigned index;
    uint64_t until_ms, done, seed;
    pthread_t thread;
};

static size_t place_of(const struct worker *w, uint64_t number) {
    return (w->index * DEPTH + number % DEPTH) * (size_t)BYTES;
}

static void submit(struct worker *w, rdmad_ring *r, uint64_t number) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(r);
    size_t at = place_of(w, number);
    uint8_t *near = w->p->near + at;
    CHECK(sqe, "the ring is full");
    memcpy(near, &number, sizeof(number));
    CHECK(!rdmad_prep_write(r, sqe, w->p->lease, at, near, BYTES, number), "%s",
          rdmad_last_error(w->p->a));
}

static void *work(void *arg) {
    struct worker *w = arg;
    const struct rdmad_cqe *cqe;
    rdmad_ring *r = client_ring(w->p->a, DEPTH);
    uint64_t sent = 0;
    bool over = false;
    while (!over || w->done < sent) {
        unsigned any = 0;
        for (; !over && sent - w->done < DEPTH; any++)
            submit(w, r, sent++);
        CHECK(!any || rdmad_ring_submit(r) == (int)any, "%s", rdmad_last_error(w->p->a));
        CHECK(!rdmad_ring_wait(r, (int)TEST_PATIENCE_MS, &cqe), "no completion");
        do {
            CHECK(!cqe->status && cqe->user_data < sent, "status %d", cqe->status);
            rdmad_ring_seen(r, cqe);
            w->done++;
        } while (!rdmad_ring_peek(r, &cqe));
        over = now_ms() >= w->until_ms;
    }
    /* What every slot holds is what was written into it last. */
    for (uint64_t number = sent > DEPTH ? sent - DEPTH : 0; number < sent; number++)
        CHECK(memcmp(w->p->far + place_of(w, number), &number, sizeof(number)) == 0,
              "slot %llu of thread %u", (unsigned long long)(number % DEPTH), w->index);
    rdmad_ring_destroy(r);
    return NULL;
}

/* Ops a millisecond of so many threads. */
static double rate(struct pair *p, unsigned threads, unsigned ms) {
    struct worker w[THREADS];
    uint64_t then = now_ms(), sum = 0;
    for (unsigned i = 0; i < threads; i++) {
        w[i] = (struct worker){.p = p, .index = i, .until_ms = then + ms};
        CHECK(!pthread_create(&w[i].thread, NULL, work, &w[i]), "no thread");
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        sum += w[i].done;
    }
    return (double)sum / (double)(now_ms() - then);
}

static void rings(enum pair_route route) {
    static const unsigned counts[] = {2, 4, THREADS};
    struct pair p;
    unsigned ms = test_scale() > 1 ? 1000 : 200;
    pair_open(&p, route, POOL, RDMAD_RIGHTS_DEFAULT);
    rate(&p, 1, ms);
    for (unsigned c = 0; c < 3; c++) {
        double ratio[ROUNDS];
        for (unsigned i = 0; i < ROUNDS; i++) {
            double one = rate(&p, 1, ms);
            ratio[i] = rate(&p, counts[c], ms) / one;
        }
        double typical = median(ratio, ROUNDS);
        printf("  %u rings: %.2f of one ring's rate (median of %d)\n", counts[c], typical, ROUNDS);
        CHECK(test_sanitized() || typical >= 0.09, "%u rings have %.3f of one's rate", counts[c],
              typical);
    }
    pair_close(&p);
}

static void many_rings_are_as_fast_as_one_on_one_daemon(void) {
    rings(PAIR_LOCAL);
}

static void many_rings_are_as_fast_as_one_between_two_daemons(void) {
    rings(PAIR_LINK);
}

TEST_MAIN(CASE(many_rings_are_as_fast_as_one_on_one_daemon),
          CASE(many_rings_are_as_fast_as_one_between_two_daemons))
