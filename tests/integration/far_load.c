/* SPDX-License-Identifier: MIT */
/*
 * far_load.c - the threads, and what must have come of their ops.
 */
#include "tests/integration/far_load.h"
#include "tests/support/client.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ADDERS = 4, ADDS_MOST = 1 << 20 };

struct adder {
    struct far_pair *p;
    const bool *stop;
    uint64_t done, unknown, failed;
    uint64_t *old;     /* what each addition that was done has found */
    uint64_t worst_us; /* the longest, since somebody looked */
    pthread_t thread;
};

static bool may_end_so(int status) {
    return status == 0 || status == RDMAD_E_PEER_LOST || status == RDMAD_E_TIMEOUT ||
           status == RDMAD_E_LEASE_EXPIRED;
}

/* What its handle says when an op ended so. */
static const char *end_of(const rdmad_lease *lease) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_lease_get_info(lease, &info);
    return info.ended ? rdmad_errname(info.ended) : "alive";
}

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void *add(void *arg) {
    struct adder *a = arg;
    while (!__atomic_load_n(a->stop, __ATOMIC_RELAXED) && a->done < ADDS_MOST) {
        uint64_t old, since = now_us();
        int rc = rdmad_fetch_add(a->p->attached, 0, 1, &old);
        uint64_t took = now_us() - since;
        if (took > __atomic_load_n(&a->worst_us, __ATOMIC_RELAXED))
            __atomic_store_n(&a->worst_us, took, __ATOMIC_RELAXED);
        if (rc == 0) {
            a->old[a->done] = old;
            __atomic_store_n(&a->done, a->done + 1, __ATOMIC_RELAXED);
        } else if (rdmad_last_outcome() == RDMAD_UNKNOWN)
            a->unknown++;
        else
            a->failed++;
        CHECK(may_end_so(rc), "an addition: %s, the lease: %s", rdmad_errname(rc),
              end_of(a->p->attached));
    }
    return NULL;
}

struct flood {
    struct far_pair *p;
    const bool *stop;
    uint64_t done, failed;
    pthread_t thread;
};

static void *flood(void *arg) {
    enum { DEPTH = 32, LONG = FAR_BYTES / 2 };
    struct flood *f = arg;
    const struct rdmad_cqe *cqe;
    rdmad_ring *ring = client_ring(f->p->lessee, DEPTH);
    unsigned flying = 0;
    for (bool stop = false; !stop || flying;) {
        stop = __atomic_load_n(f->stop, __ATOMIC_RELAXED);
        for (struct rdmad_sqe *sqe; !stop && (sqe = rdmad_ring_reserve(ring)); flying++)
            CHECK(rdmad_prep_write(ring, sqe, f->p->attached, LONG, f->p->buffer, LONG, 0) == 0 &&
                      rdmad_ring_submit(ring) == 1,
                  "%s", rdmad_last_error(f->p->lessee));
        CHECK(!flying || rdmad_ring_wait(ring, (int)TEST_PATIENCE_MS, &cqe) == 0, "no end");
        if (!flying)
            continue;
        CHECK(may_end_so(cqe->status), "a write: %s, the lease: %s", rdmad_errname(cqe->status),
              end_of(f->p->attached));
        cqe->status ? f->failed++ : f->done++;
        rdmad_ring_seen(ring, cqe);
        flying--;
    }
    rdmad_ring_destroy(ring);
    return NULL;
}

/* No two additions have found the same, and the word is what was done, and perhaps what is unknown.
 */
static void expect_each_once(const struct adder *adders, uint64_t word) {
    uint64_t done = 0, unknown = 0;
    for (unsigned i = 0; i < ADDERS; i++) {
        done += adders[i].done;
        unknown += adders[i].unknown;
    }
    printf("    %" PRIu64 " done, %" PRIu64 " unknown, the word is %" PRIu64 "\n", done, unknown,
           word);
    CHECK(word >= done && word <= done + unknown, "additions are lost, or done twice");
    char *seen = calloc(1, word + 1);
    CHECK(seen, "out of memory");
    for (unsigned i = 0; i < ADDERS; i++)
        for (uint64_t n = 0; n < adders[i].done; n++) {
            CHECK(adders[i].old[n] < word && !seen[adders[i].old[n]]++, "two have found %" PRIu64,
                  adders[i].old[n]);
        }
    free(seen);
}

struct far_load {
    bool stop;
    struct adder adders[ADDERS];
    struct flood flood;
    const char *word;
};

double far_load_longest_ms(struct far_load *load) {
    uint64_t worst = 0;
    for (unsigned i = 0; i < ADDERS; i++) {
        uint64_t one = __atomic_exchange_n(&load->adders[i].worst_us, 0, __ATOMIC_RELAXED);
        worst = one > worst ? one : worst;
    }
    return (double)worst / 1000;
}

static uint64_t additions_of(const struct far_load *load) {
    uint64_t done = 0;
    for (unsigned i = 0; i < ADDERS; i++)
        done += __atomic_load_n(&load->adders[i].done, __ATOMIC_RELAXED);
    return done;
}

void far_load_expect_progress(struct far_load *load) {
    const uint64_t until = now_ms() + TEST_PATIENCE_MS, before = additions_of(load);
    while (additions_of(load) <= before + ADDERS) { /* each may have had one under way */
        CHECK(now_ms() < until, "the load does not go on, the lease: %s",
              end_of(load->flood.p->attached));
        sleep_ms(2);
    }
}

struct far_load *far_load_start(struct far_pair *p) {
    struct far_load *load = calloc(1, sizeof(*load));
    CHECK(load, "out of memory");
    memset(p->memory, 0, 8);
    load->word = p->memory;
    for (unsigned i = 0; i < ADDERS; i++) {
        struct adder *a = &load->adders[i];
        *a = (struct adder){.p = p, .stop = &load->stop, .old = calloc(ADDS_MOST, 8)};
        CHECK(a->old, "out of memory");
        CHECK(pthread_create(&a->thread, NULL, add, a) == 0, "no thread");
    }
    load->flood = (struct flood){.p = p, .stop = &load->stop};
    CHECK(pthread_create(&load->flood.thread, NULL, flood, &load->flood) == 0, "no thread");
    return load;
}

uint64_t far_load_stop(struct far_load *load) {
    uint64_t word, undone;
    __atomic_store_n(&load->stop, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < ADDERS; i++)
        pthread_join(load->adders[i].thread, NULL);
    pthread_join(load->flood.thread, NULL);
    printf("    %" PRIu64 " long writes done, %" PRIu64 " not\n", load->flood.done,
           load->flood.failed);
    memcpy(&word, load->word, sizeof(word));
    expect_each_once(load->adders, word);
    undone = load->flood.failed;
    for (unsigned i = 0; i < ADDERS; i++) {
        undone += load->adders[i].unknown + load->adders[i].failed;
        free(load->adders[i].old);
    }
    free(load);
    return undone;
}
