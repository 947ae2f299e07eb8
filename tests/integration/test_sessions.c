/* SPDX-License-Identifier: MIT */
/*
 * test_sessions.c - many sessions at once: they cost nothing while idle and leave nothing behind.
 */
#include "tests/support/harness.h"
#include "tests/support/procs.h"
#include "tests/support/rawclient.h"

#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
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
    for (uint64_t until = now_ms() + TEST_PATIENCE_MS; tdaemon_used(d, "sessions") > 2; sleep_ms(5))
        CHECK(now_ms() < until, "who has closed its socket has a session still");
    close(raw_session(tdaemon_dir(d))); /* there is room again */
    close(socks[1]);
    close(socks[2]);
    unlink(path);
    tdaemon_stop(d);
}

/* Containers' users have numbers beyond what an int holds. */
static void a_uid_of_any_size_is_shown_as_it_is(void) {
    const uid_t uid = 4000000000u;
    if (geteuid() != 0)
        skip("only root can be somebody else");
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    CHECK(seteuid(uid) == 0, "seteuid");
    setfsuid(0); /* the daemon's directory is ours; only its socket looks at who we are */
    int sock = raw_session(tdaemon_dir(d));
    CHECK(seteuid(0) == 0, "seteuid");
    json_t *shown = tdaemon_call(d, "session.show", NULL);
    const json_t *row = json_array_get(json_object_get(shown, "sessions"), 0);
    json_int_t said = json_integer_value(json_object_get(row, "uid"));
    CHECK(said == (json_int_t)uid, "uid %u is shown as %lld", (unsigned)uid, (long long)said);
    json_decref(shown);
    close(sock);
    tdaemon_stop(d);
}

/* As much as the default limits let a session have in two pools, but no more than it takes. */
static uint64_t large_pool_bytes(void) {
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t most = UINT64_C(2) << 30, bytes = machine / 8 / (2u << 20) * (2u << 20);
    if (bytes < 64u << 20)
        skip("pools of %lu bytes are too small to be given up", (unsigned long)bytes);
    return bytes < most ? bytes : most;
}

static void ask_for_pool(int sock, uint64_t bytes) {
    struct {
        struct rdmad_msg_header header;
        struct rdmad_pool_create_req body;
    } m = {.body = {.bytes = bytes}};
    raw_header(&m.header, RDMAD_MSG_POOL_CREATE, sizeof(m.body));
    int rc = raw_send(sock, &m, sizeof(m), NULL, 0);
    CHECK(rc == 0, "request of a pool: %s", strerror(-rc));
}

/*
 * No clock tells here whether it was given up, for machines are fast and slow: a pool that is made
 * whole was once resident whole. The daemon sleeps while the client comes and goes, so that it sees
 * request and death in the same instant, and nothing but itself decides how far it gets.
 */
static void a_dead_clients_pool_is_not_faulted_in_to_the_end(void) {
    uint64_t bytes = large_pool_bytes();
    struct raw_pool pool;
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    json_t *before = tdaemon_objects(d);
    unsigned fds = tdaemon_fds(d);
    uint64_t rss = tdaemon_rss_bytes(d);
    int sock = raw_session(tdaemon_dir(d));
    process_stop(tdaemon_pid(d));
    ask_for_pool(sock, bytes);
    ask_for_pool(sock, bytes); /* which waits for the first */
    close(sock);
    process_go_on(tdaemon_pid(d));
    tdaemon_expect_objects(d, before);
    tdaemon_expect_fds(d, fds);
    uint64_t peak = process_peak_bytes(tdaemon_pid(d));
    printf("  twice %lu MiB asked for, at most %lu MiB resident\n", (unsigned long)(bytes >> 20),
           (unsigned long)(peak >> 20));
    if (!test_sanitized())
        CHECK(peak < rss + bytes, "a pool of %lu bytes was made for nobody: %lu, then %lu bytes",
              (unsigned long)bytes, (unsigned long)rss, (unsigned long)peak);
    sock = raw_session(tdaemon_dir(d)); /* the next client's is made */
    CHECK(raw_pool_create(sock, 1 << 20, 0, &pool) == 0, "pool");
    raw_pool_unmap(&pool);
    close(sock);
    tdaemon_stop(d);
}

TEST_MAIN(CASE(sessions_that_go_leave_nothing), CASE(idle_sessions_use_no_cpu),
          CASE(sessions_beyond_the_limit_are_refused), CASE(a_uid_of_any_size_is_shown_as_it_is),
          CASE(a_dead_clients_pool_is_not_faulted_in_to_the_end))
