/* SPDX-License-Identifier: MIT */
/*
 * test_sessions.c - many sessions at once: they cost nothing while idle and leave nothing behind.
 */
#include "tests/support/harness.h"
#include "tests/support/rawclient.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

struct crowd {
    unsigned count;
    int *socks;
    struct raw_ring *rings;
};

static void raise_nofile(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
}

/* Each with a ring, as every client has; the ring's memory stays mapped, its descriptors do not. */
static void come(struct crowd *c, const char *dir) {
    for (unsigned i = 0; i < c->count; i++) {
        c->socks[i] = raw_session(dir);
        int status = raw_ring_create(c->socks[i], 16, &c->rings[i]);
        CHECK(status == 0, "ring of session %u: error %d", i, status);
    }
}

static void go(struct crowd *c) {
    for (unsigned i = 0; i < c->count; i++) {
        raw_ring_unmap(&c->rings[i]);
        close(c->socks[i]);
    }
}

static void crowd_new(struct crowd *c) {
    c->count = test_count(1000);
    c->socks = calloc(c->count, sizeof(*c->socks));
    c->rings = calloc(c->count, sizeof(*c->rings));
    CHECK(c->socks && c->rings, "out of memory");
    raise_nofile();
}

static void crowd_free(struct crowd *c) {
    free(c->socks);
    free(c->rings);
}

static void sessions_that_go_leave_nothing(void) {
    struct crowd c;
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    crowd_new(&c);
    unsigned fds = tdaemon_fds(d);
    uint64_t settled = 0;
    for (int round = 0; round < 4; round++) {
        json_t *before = tdaemon_objects(d);
        come(&c, tdaemon_dir(d));
        json_t *during = tdaemon_objects(d);
        CHECK(json_integer_value(json_object_get(during, "sessions")) == (json_int_t)c.count,
              "not all sessions are there");
        json_decref(during);
        go(&c);
        tdaemon_expect_objects(d, before);
        tdaemon_expect_fds(d, fds);
        uint64_t rss = tdaemon_rss_bytes(d);
        printf("  round %d: %u sessions, then %lu KiB resident\n", round, c.count,
               (unsigned long)(rss >> 10));
        /* The first rounds warm up the allocator; sanitizers keep what was freed for a while. */
        if (round == 1)
            settled = rss;
        if (round == 3 && !test_sanitized())
            CHECK(rss < settled + (1u << 20), "memory grows: %lu, then %lu bytes",
                  (unsigned long)settled, (unsigned long)rss);
    }
    crowd_free(&c);
    tdaemon_stop(d);
}

static void idle_sessions_use_no_cpu(void) {
    struct crowd c;
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    crowd_new(&c);
    come(&c, tdaemon_dir(d));
    sleep_ms(1000); /* spinning has a bound, and it is long past now */
    uint64_t before = tdaemon_cpu_ticks(d);
    sleep_ms(10000);
    uint64_t ticks = tdaemon_cpu_ticks(d) - before;
    uint64_t bound = test_scale() > 1 ? 1 : 10;
    printf("  %u idle sessions: %lu ticks in 10 s\n", c.count, (unsigned long)ticks);
    CHECK(ticks <= bound, "an idle daemon used %lu ticks in 10 s, at most %lu expected",
          (unsigned long)ticks, (unsigned long)bound);
    go(&c);
    crowd_free(&c);
    tdaemon_stop(d);
}

/* The limit is the limit: one more is refused in words, and nobody else notices. */
static void sessions_beyond_the_limit_are_refused(void) {
    char path[128], said[RDMAD_TEXT_MAX + 1] = "";
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/limits.json", tmp ? tmp : "/tmp");
    FILE *f = fopen(path, "we");
    CHECK(f && fputs("{\"limits\": {\"sessions\": 3}}\n", f) > 0 && fclose(f) == 0, "%s", path);
    struct tdaemon *d = tdaemon_start("127.0.0.1", (const char *[]){"--config", path, NULL});
    int socks[3];
    for (int i = 0; i < 3; i++)
        socks[i] = raw_session(tdaemon_dir(d));
    int extra = raw_connect(tdaemon_dir(d));
    struct raw_packet p;
    CHECK(raw_recv(extra, &p, (int)TEST_PATIENCE_MS), "a fourth session hears nothing");
    if (p.size > sizeof(p.header)) {
        CHECK(p.header.type == RDMAD_EV_SESSION_ENDED && p.header.status == RDMAD_E_LIMIT,
              "type %u, status %d", p.header.type, p.header.status);
        snprintf(said, sizeof(said), "%s", raw_text(&p));
        CHECK(raw_ended(extra, (int)TEST_PATIENCE_MS), "the fourth session is not closed");
    }
    printf("  said: %s\n", said);
    close(extra);
    close(socks[0]);
    sleep_ms(200);
    close(raw_session(tdaemon_dir(d))); /* there is room again */
    close(socks[1]);
    close(socks[2]);
    unlink(path);
    tdaemon_stop(d);
}

TEST_MAIN(CASE(sessions_that_go_leave_nothing), CASE(idle_sessions_use_no_cpu),
          CASE(sessions_beyond_the_limit_are_refused))
