/* SPDX-License-Identifier: MIT */
/*
 * checkpointed DIRECTORY REPORT - a session at the daemon in DIRECTORY that is to be
 * checkpointed: a pool full of bytes that only this program knows, a lease of it, granted and
 * attached, a ring, and one write after the other. Says in REPORT which round it has done, and what
 * has happened to its session; an op that fails or bytes that are wrong end it at once, but for ops
 * that end because their daemon has gone. What test_checkpoint.sh dumps and restores.
 */
#include <err.h>
#include <rdmad/rdmad.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 262144, BLOCK = 4096 };

static FILE *report;

static void say(const char *what, unsigned long n, const char *more) {
    fprintf(report, "%s %lu %s\n", what, n, more);
    fflush(report);
}

static uint64_t expected(size_t i) {
    return (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

/* All but the first block, which the writes are for. */
static void check_contents(const uint64_t *memory, unsigned long n) {
    for (size_t i = BLOCK / sizeof(*memory); i < BYTES / sizeof(*memory); i++)
        if (memory[i] != expected(i))
            errx(1, "round %lu: word %zu of the pool has changed", n, i);
}

static void take_events(rdmad_session *s, unsigned long n) {
    struct rdmad_event event = RDMAD_EVENT_INIT;
    while (rdmad_next_event(s, 0, &event) == 0) {
        if (event.type != RDMAD_EVENT_SESSION_RESUMED)
            errx(1, "round %lu: event %u: %s", n, event.type, event.text);
        say("resumed", n, event.text);
    }
}

static void one_round(rdmad_session *s, rdmad_lease *there, const char *memory, char *buf,
                      unsigned long n) {
    memset(buf, (int)(n % 251) + 1, BLOCK);
    int rc = rdmad_write(there, 0, buf, BLOCK);
    if (rc == RDMAD_E_DAEMON_LOST) /* it was in flight: of unknown outcome */
        rc = rdmad_write(there, 0, buf, BLOCK);
    if (rc)
        errx(1, "round %lu: %s", n, rdmad_last_error(s));
    if (memcmp(memory, buf, BLOCK) != 0)
        errx(1, "round %lu: a write is done and its bytes are not there", n);
    check_contents((const uint64_t *)(const void *)memory, n);
    take_events(s, n);
}

int main(int argc, char **argv) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    const struct timespec moment = {.tv_nsec = 20000000};
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *granted, *there;
    if (argc != 3 || !(report = fopen(argv[2], "a")))
        errx(2, "usage: checkpointed DIRECTORY REPORT");
    options.runtime_dir = argv[1];
    options.call_timeout_ms = -1; /* it may lie on a disk for a day */
    if (rdmad_open(&options, &s) || rdmad_pool_create(s, 1 << 20, 0, &pool))
        errx(1, "%s", rdmad_last_error(NULL));
    char *memory = rdmad_alloc(pool, BYTES), *buf = rdmad_alloc(pool, BLOCK);
    for (size_t i = 0; memory && i < BYTES / sizeof(uint64_t); i++)
        ((uint64_t *)(void *)memory)[i] = expected(i);
    terms.ttl_ms = 3600000;
    if (!memory || !buf || rdmad_lease_grant(s, memory, BYTES, &terms, &granted) ||
        rdmad_lease_attach(s, rdmad_lease_uri(granted), 0, &there))
        errx(1, "%s", rdmad_last_error(s));
    for (unsigned long n = 1;; n++) {
        one_round(s, there, memory, buf, n);
        say("round", n, "");
        nanosleep(&moment, NULL);
    }
}
