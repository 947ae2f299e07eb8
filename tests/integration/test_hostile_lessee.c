/* SPDX-License-Identifier: MIT */
/*
 * test_hostile_lessee.c - after the owner's revoke returned, not one byte of its memory changes and
 * not one byte of it is read out, whatever the other side sends: a lessee that writes at full speed
 * through its own honest daemon, and a program that is no daemon and speaks the wire itself.
 */
#include "tests/integration/hostile.h"
#include "tests/support/harness.h"
#include "tests/support/procs.h"

#include <inttypes.h>
#include <rdmad/rdmad.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POOL = 1 << 20, SECRET = 0xa5, ROUNDS = 1000 };

static struct tdaemon *start_impatient(const char *host) {
    static char path[128];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/impatient.json", tmp ? tmp : "/tmp");
    FILE *f = fopen(path, "we");
    /* Many rounds: who does not answer a revoke is cut off soon. */
    CHECK(f && fputs("{\"lease\": {\"revoke_grace_ms\": 5}}\n", f) > 0 && fclose(f) == 0, "%s",
          path);
    return tdaemon_start(host, (const char *[]){"--config", path, NULL});
}

struct owner_side {
    rdmad_session *session;
    rdmad_pool *pool;
    uint8_t *memory;
};

static void own(struct owner_side *o, const struct tdaemon *d) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    options.runtime_dir = tdaemon_dir(d);
    CHECK(rdmad_open(&options, &o->session) == 0, "%s", rdmad_last_error(NULL));
    CHECK(rdmad_pool_create(o->session, POOL, 0, &o->pool) == 0, "%s",
          rdmad_last_error(o->session));
    o->memory = rdmad_pool_base(o->pool);
    memset(o->memory, 0, POOL);
}

static rdmad_lease *grant(struct owner_side *o) {
    rdmad_lease *lease;
    CHECK(rdmad_lease_grant(o->session, o->memory, POOL, NULL, &lease) == 0, "%s",
          rdmad_last_error(o->session));
    return lease;
}

static bool all_is(const uint8_t *memory, uint8_t byte) {
    for (size_t i = 0; i < POOL; i++)
        if (((const volatile uint8_t *)memory)[i] != byte)
            return false;
    return true;
}

/* From the moment that revoke returned the memory is the owner's: what it puts there stays. */
static void revoke_and_watch(struct owner_side *o, rdmad_lease *lease, unsigned round) {
    CHECK(rdmad_lease_revoke(lease) == 0, "revoke: %s", rdmad_last_error(o->session));
    memset(o->memory, SECRET, POOL);
    uint64_t until = now_ms() + 3;
    do
        CHECK(all_is(o->memory, SECRET), "round %u: memory changed after the revoke returned",
              round);
    while (now_ms() < until);
}

static void await(const uint64_t *n, uint64_t at_least, const char *what) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    while (__atomic_load_n(n, __ATOMIC_RELAXED) < at_least) {
        CHECK(now_ms() < deadline, "%s did not happen", what);
        sched_yield();
    }
}

static void await_flag(const bool *b, const char *what) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    while (!__atomic_load_n(b, __ATOMIC_ACQUIRE)) {
        CHECK(now_ms() < deadline, "%s did not happen", what);
        sched_yield();
    }
}

static void hostile_round(struct owner_side *o, struct hostile *h, enum hostile_habit habit,
                          unsigned round) {
    rdmad_lease *lease = grant(o);
    h->secret = SECRET;
    memset(o->memory, 0, POOL);
    hostile_attach(h, rdmad_lease_uri(lease));
    hostile_start(h, habit);
    if (habit == HOSTILE_STALLS)
        await_flag(&h->stalled, "a stalled payload");
    else
        await(&h->written, POOL + test_random() % (UINT64_C(4) * POOL), "the flood");
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    while (all_is(o->memory, 0))
        CHECK(now_ms() < deadline, "round %u: %lu bytes sent, %lu ops refused, none placed", round,
              (unsigned long)h->written, (unsigned long)h->refused);
    revoke_and_watch(o, lease, round);
    __atomic_store_n(&h->resume, true, __ATOMIC_RELEASE);
    sleep_ms(2);
    CHECK(all_is(o->memory, SECRET), "round %u: the rest of a payload was placed after all", round);
    hostile_stop(h);
    CHECK(h->secrets == 0, "round %u: %lu bytes were read out after the revoke", round,
          (unsigned long)h->secrets);
    rdmad_lease_free(lease);
}

static void flood_with(enum hostile_habit habit) {
    struct tdaemon *d = start_impatient("127.0.0.1");
    struct owner_side o;
    struct hostile h;
    own(&o, d);
    hostile_connect(&h, tdaemon_listen(d));
    for (unsigned round = 0; round < test_count(ROUNDS / 3); round++)
        hostile_round(&o, &h, habit, round);
    hostile_close(&h);
    rdmad_close(o.session);
    tdaemon_stop(d);
}

static void one_that_hears_no_revoke(void) {
    flood_with(HOSTILE_DEAF);
}
static void one_that_lies_about_having_stopped(void) {
    flood_with(HOSTILE_LIAR);
}
static void one_that_stalls_in_a_payload(void) {
    flood_with(HOSTILE_STALLS);
}

/* ---- the second wall: no daemon of its own checks what it asks for -----------------------------
 */

static rdmad_lease *grant_middle(struct owner_side *o, uint64_t ttl_ms) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *lease;
    terms.ttl_ms = ttl_ms;
    CHECK(rdmad_lease_grant(o->session, o->memory + POOL / 4, POOL / 2, &terms, &lease) == 0, "%s",
          rdmad_last_error(o->session));
    return lease;
}

static void one_that_reaches_past_its_lease(void) {
    const struct {
        uint64_t offset;
        uint32_t length;
    } past[] = {{POOL / 2, 1},
                {POOL / 2 - 1, 2},
                {POOL / 2 - 4096, 8192},
                {UINT64_MAX, 1},
                {UINT64_MAX - 7, 8},
                {UINT64_MAX - 7, 16},
                {UINT64_MAX - 4095, 8192},
                {(uint64_t)0 - POOL / 4, 4096}};
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct owner_side o;
    struct hostile h;
    own(&o, d);
    rdmad_lease *lease = grant_middle(&o, 0);
    memset(o.memory, SECRET, POOL);
    hostile_connect(&h, tdaemon_listen(d));
    hostile_attach(&h, rdmad_lease_uri(lease));
    CHECK(h.length == POOL / 2, "the lease has %" PRIu64 " bytes", h.length);
    h.secret = SECRET;
    for (size_t i = 0; i < sizeof(past) / sizeof(past[0]); i++) {
        int r = hostile_read(&h, past[i].offset, past[i].length);
        int w = hostile_write(&h, past[i].offset, past[i].length, 1);
        CHECK(r == RDMAD_E_RANGE && w == RDMAD_E_RANGE,
              "%u bytes at %" PRIu64 " of %d: read %d, write %d", past[i].length, past[i].offset,
              POOL / 2, r, w);
    }
    CHECK(h.secrets == 0, "%" PRIu64 " bytes of the neighbourhood were read", h.secrets);
    CHECK(all_is(o.memory, SECRET), "memory beside the lease changed");
    CHECK(!hostile_write(&h, 0, 64, 1) && o.memory[POOL / 4] == 1, "its own range is its own");
    hostile_close(&h);
    rdmad_close(o.session);
    tdaemon_stop(d);
}

/* The owner's control thread hangs, so nobody closes the window in time. */
static void one_that_goes_on_after_the_deadline(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct owner_side o;
    struct hostile h;
    own(&o, d);
    memset(o.memory, SECRET, POOL);
    hostile_connect(&h, tdaemon_listen(d));
    /* Time enough for a busy machine to attach and write. */
    const unsigned ttl_ms = 3000 * test_patience();
    rdmad_lease *lease = grant_middle(&o, ttl_ms);
    hostile_attach(&h, rdmad_lease_uri(lease));
    h.secret = SECRET;
    CHECK(!hostile_write(&h, 0, 64, SECRET), "refused before the deadline");
    pid_t stopped = thread_stop(tdaemon_pid(d), NULL);
    sleep_ms(ttl_ms + 100 * test_patience());
    int r = hostile_read(&h, 0, 64), w = hostile_write(&h, 0, 64, 1);
    thread_go_on(stopped);
    CHECK(r == RDMAD_E_LEASE_EXPIRED && w == RDMAD_E_LEASE_EXPIRED,
          "after the deadline: read %d, write %d", r, w);
    CHECK(h.secrets == 0 && all_is(o.memory, SECRET), "memory was reached after the deadline");
    hostile_close(&h);
    rdmad_close(o.session);
    tdaemon_stop(d);
}

/* ---- through honest daemons ---------------------------------------------------------------- */

struct writer {
    const char *dir, *uri;
};

/* Writes at full speed until an op fails, and then some more. */
static void write_on(void *arg) {
    const struct writer *w = arg;
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *lease;
    options.runtime_dir = w->dir;
    CHECK(rdmad_open(&options, &s) == 0, "%s", rdmad_last_error(NULL));
    CHECK(rdmad_pool_create(s, POOL, 0, &pool) == 0, "%s", rdmad_last_error(s));
    uint8_t *from = rdmad_pool_base(pool);
    CHECK(rdmad_lease_attach(s, w->uri, 0, &lease) == 0, "%s", rdmad_last_error(s));
    for (unsigned failed = 0, i = 1; failed < 100; i++) {
        memset(from, (int)(i % 100 + 1), 4096);
        failed += rdmad_write(lease, (i * 4096) % POOL, from, 4096) != 0;
    }
    rdmad_close(s);
}

static void write_through(const struct tdaemon *owners, const struct tdaemon *lessees) {
    struct owner_side o;
    own(&o, owners);
    /* Half of the rounds here, half on the same daemon; each is many writes. */
    for (unsigned round = 0; round < test_count(ROUNDS / 2); round++) {
        memset(o.memory, 0, POOL);
        rdmad_lease *lease = grant(&o);
        char uri[RDMAD_URI_MAX + 1];
        snprintf(uri, sizeof(uri), "%s", rdmad_lease_uri(lease));
        struct writer w = {tdaemon_dir(lessees), uri};
        pid_t pid = client_fork(write_on, &w);
        uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
        while (all_is(o.memory, 0))
            CHECK(now_ms() < deadline, "the lessee writes nothing while it may");
        sleep_ms((unsigned)(test_random() % 8));
        revoke_and_watch(&o, lease, round);
        client_expect_ok(pid);
        CHECK(all_is(o.memory, SECRET), "round %u: memory changed later", round);
        rdmad_lease_free(lease);
    }
    rdmad_close(o.session);
}

static void a_client_on_another_daemon(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    write_through(a, b);
    tdaemon_stop(b);
    tdaemon_stop(a);
}

static void a_client_on_the_same_daemon(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    write_through(d, d);
    tdaemon_stop(d);
}

TEST_MAIN(CASE(one_that_reaches_past_its_lease), CASE(one_that_goes_on_after_the_deadline),
          CASE(one_that_hears_no_revoke), CASE(one_that_lies_about_having_stopped),
          CASE(one_that_stalls_in_a_payload), CASE(a_client_on_another_daemon),
          CASE(a_client_on_the_same_daemon))
