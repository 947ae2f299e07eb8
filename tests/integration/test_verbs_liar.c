/* SPDX-License-Identifier: MIT */
/*
 * test_verbs_liar.c - what the owner's device keeps a lying daemon from, on real devices.
 *
 * The liar knows everything that an honest lessee's daemon knows, and has a QP of its own. It
 * ignores bounds, rights, revocation and expiry. Nothing outside the leased range ever changes, no
 * byte inside it after the revoke returned; others who use the owner's daemon at the same time, in
 * either direction, notice nothing. Needs two RDMA devices; the owner is on the first.
 */
#include "tests/integration/liar.h"
#include "tests/support/transfer.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POOL = 1 << 20, OFFSET = 256 << 10, LENGTH = 512 << 10, SECRET = 0xa5, QUIET = 0x3c };

/* The liar's device: the harness puts the first daemon on rxe0. */
#define LIARS_DEVICE "rxe1"

/* ---- the owner ------------------------------------------------------------------------------ */

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
    memset(o->memory, QUIET, POOL);
}

/* The middle of the pool. */
static rdmad_lease *grant(struct owner_side *o, uint32_t rights, uint64_t ttl_ms) {
    rdmad_lease *lease;
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    terms.rights = rights;
    terms.ttl_ms = ttl_ms;
    CHECK(rdmad_lease_grant(o->session, o->memory + OFFSET, LENGTH, &terms, &lease) == 0, "%s",
          rdmad_last_error(o->session));
    return lease;
}

static bool range_is(const uint8_t *from, size_t length, uint8_t byte) {
    for (size_t i = 0; i < length; i++)
        if (((const volatile uint8_t *)from)[i] != byte)
            return false;
    return true;
}

static void expect_quiet_around(const struct owner_side *o) {
    CHECK(range_is(o->memory, OFFSET, QUIET), "memory before the lease changed");
    CHECK(range_is(o->memory + OFFSET + LENGTH, POOL - OFFSET - LENGTH, QUIET),
          "memory after the lease changed");
}

/* From now on the memory is the owner's: what it puts there stays. Late packets were seen to land
 * up to 14 ms after weaker ways of revoking. */
static void watch(const struct owner_side *o, unsigned ms, unsigned round) {
    memset(o->memory + OFFSET, SECRET, LENGTH);
    uint64_t until = now_ms() + ms;
    do
        CHECK(range_is(o->memory + OFFSET, LENGTH, SECRET),
              "round %u: memory changed after the lease had ended", round);
    while (now_ms() < until);
}

/* ---- those who must not notice -------------------------------------------------------------- */

/* A client that writes to a lease and reads it back until its pipe says stop; no op may fail. */
struct neighbour {
    const char *dir, *uri;
    int stop[2];
    pid_t pid;
};

static void write_and_read(void *arg) {
    enum { PIECE = 64 << 10 };
    const struct neighbour *n = arg;
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    struct pollfd stop = {.fd = n->stop[0], .events = POLLIN};
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *lease;
    options.runtime_dir = n->dir;
    close(n->stop[1]);
    CHECK(rdmad_open(&options, &s) == 0 && rdmad_pool_create(s, 2 * PIECE, 0, &pool) == 0 &&
              rdmad_lease_attach(s, n->uri, 0, &lease) == 0,
          "%s", rdmad_last_error(NULL));
    uint8_t *out = rdmad_pool_base(pool), *in = out + PIECE;
    for (unsigned round = 0; poll(&stop, 1, 1) == 0; round++) {
        uint64_t offset = round % (TRANSFER_BYTES / PIECE) * PIECE;
        memset(out, (int)(round % 251), PIECE);
        CHECK(rdmad_write(lease, offset, out, PIECE) == 0, "write %u: %s", round,
              rdmad_last_error(s));
        CHECK(rdmad_read(lease, offset, in, PIECE) == 0, "read %u: %s", round, rdmad_last_error(s));
        CHECK(memcmp(in, out, PIECE) == 0, "round %u reads back something else", round);
    }
    rdmad_close(s);
}

static void neighbour_start(struct neighbour *n, const struct tdaemon *d, const char *uri) {
    *n = (struct neighbour){.dir = tdaemon_dir(d), .uri = uri};
    CHECK(pipe(n->stop) == 0, "a pipe");
    n->pid = client_fork(write_and_read, n);
    close(n->stop[0]);
}

static void neighbour_finish(struct neighbour *n) {
    CHECK(client_running(n->pid), "a neighbour has ended");
    CHECK(write(n->stop[1], "", 1) == 1, "a pipe");
    client_expect_ok(n->pid);
    close(n->stop[1]);
}

/* Those of another daemon that use the owner's daemon, and the other way round. */
struct neighbours {
    struct owner here, there;
    struct neighbour towards, away;
};

static void neighbours_start(struct neighbours *n, const struct tdaemon *d,
                             const struct tdaemon *other) {
    n->here = owner_start(d);
    n->there = owner_start(other);
    neighbour_start(&n->towards, other, n->here.uri);
    neighbour_start(&n->away, d, n->there.uri);
}

static void neighbours_finish(struct neighbours *n) {
    neighbour_finish(&n->towards);
    neighbour_finish(&n->away);
    client_kill(n->here.pid);
    client_kill(n->there.pid);
}

/* ---- the daemons ---------------------------------------------------------------------------- */

struct scene {
    struct tdaemon *victim, *other;
    json_t *before;
    struct owner_side owner;
    struct liar liar;
};

static void scene_open(struct scene *s) {
    static char path[128];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/impatient.json", tmp ? tmp : "/tmp");
    FILE *f = fopen(path, "we");
    /* Many rounds: who does not answer a revoke is cut off soon. */
    CHECK(f && fputs("{\"lease\": {\"revoke_grace_ms\": 5}}\n", f) > 0 && fclose(f) == 0, "%s",
          path);
    s->victim = tdaemon_start("127.0.0.1", (const char *[]){"--config", path, NULL});
    s->other = tdaemon_start("127.0.0.2", NULL);
    s->before = tdaemon_objects(s->victim);
    own(&s->owner, s->victim);
    liar_open(&s->liar, LIARS_DEVICE, tdaemon_listen(s->victim));
}

static void scene_close(struct scene *s) {
    liar_close(&s->liar);
    rdmad_close(s->owner.session);
    tdaemon_stop(s->other); /* and with it the connections to and fro */
    tdaemon_expect_objects(s->victim, s->before);
    tdaemon_stop(s->victim);
}

/* ---- bounds and rights ---------------------------------------------------------------------- */

static void expect_refused(struct scene *s, enum ibv_wc_status status, const char *what) {
    CHECK(status != IBV_WC_SUCCESS, "%s was let through", what);
    CHECK(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR, "%s: %s", what,
          ibv_wc_status_str(status));
    expect_quiet_around(&s->owner);
    liar_link(&s->liar);
}

static void nothing_outside_a_lease_is_reached(void) {
    struct scene s;
    struct liar_lease at;
    scene_open(&s);
    rdmad_lease *lease = grant(&s.owner, 0, 0);
    liar_attach(&s.liar, rdmad_lease_uri(lease), &at);
    uint64_t a = at.key.address;
    uint32_t rkey = at.key.rkey[0];
    struct {
        uint64_t address;
        size_t length;
        const char *what;
    } tries[] = {
        {a - 1, 1, "a byte before the lease"},
        {a + LENGTH, 1, "a byte after the lease"},
        {a - 64, 128, "across the lease's start"},
        {a + LENGTH - 64, 128, "across the lease's end"},
        {a - OFFSET, 4096, "the pool's start"},
        {a + LENGTH - 4096, 3 * 4096, "three pages across the end"},
        {a + (UINT64_C(1) << 40), 8, "far away"},
    };
    for (unsigned round = 0; round < test_count(20); round++) {
        for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
            expect_refused(&s, liar_write(&s.liar, tries[i].address, rkey, tries[i].length, 0x11),
                           tries[i].what);
            expect_refused(&s, liar_read(&s.liar, tries[i].address, rkey, tries[i].length),
                           tries[i].what);
        }
        /* And what it may, it still may. */
        CHECK(liar_write(&s.liar, a, rkey, 4096, 0x22) == IBV_WC_SUCCESS, "an honest write");
        CHECK(range_is(s.owner.memory + OFFSET, 4096, 0x22), "an honest write is not there");
    }
    rdmad_lease_free(lease);
    scene_close(&s);
}

static void rights_are_the_devices_too(void) {
    struct scene s;
    struct liar_lease at;
    scene_open(&s);
    rdmad_lease *lease = grant(&s.owner, RDMAD_RIGHT_READ, 0);
    liar_attach(&s.liar, rdmad_lease_uri(lease), &at);
    CHECK(liar_read(&s.liar, at.key.address, at.key.rkey[0], 64) == IBV_WC_SUCCESS, "a read");
    expect_refused(&s, liar_write(&s.liar, at.key.address, at.key.rkey[0], 64, 0x11),
                   "a write to a lease for reading");
    rdmad_lease_free(lease);
    lease = grant(&s.owner, RDMAD_RIGHT_WRITE, 0);
    liar_attach(&s.liar, rdmad_lease_uri(lease), &at);
    expect_refused(&s, liar_read(&s.liar, at.key.address, at.key.rkey[0], 64),
                   "a read of a lease for writing");
    CHECK(range_is(s.owner.memory, POOL, QUIET), "memory changed");
    rdmad_lease_free(lease);
    scene_close(&s);
}

/* ---- revocation and expiry ------------------------------------------------------------------ */

static void await_first_bytes(const struct scene *s, unsigned round) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    while (s->liar.written < 2 * LIAR_BUFFER) {
        CHECK(!s->liar.refused, "round %u: refused while it may: %s", round,
              ibv_wc_status_str((enum ibv_wc_status)s->liar.refused));
        CHECK(now_ms() < deadline, "round %u: the flood does not begin", round);
        sched_yield();
    }
    sleep_ms((unsigned)(test_random() % 5));
}

static void await_refusal(const struct scene *s, unsigned round) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    while (!s->liar.refused) {
        CHECK(now_ms() < deadline, "round %u: the device lets it go on", round);
        sched_yield();
    }
}

static void revoke_rounds(struct scene *s, unsigned n) {
    for (unsigned round = 0; round < n; round++) {
        struct liar_lease at, keeps;
        rdmad_lease *other = grant(&s->owner, RDMAD_RIGHT_READ, 0), *lease = grant(&s->owner, 0, 0);
        liar_attach(&s->liar, rdmad_lease_uri(lease), &at);
        liar_attach(&s->liar, rdmad_lease_uri(other), &keeps); /* so that it may link again */
        liar_start(&s->liar, &at, round % 2);
        await_first_bytes(s, round);
        CHECK(rdmad_lease_revoke(lease) == 0, "%s", rdmad_last_error(s->owner.session));
        watch(&s->owner, 20, round);
        await_refusal(s, round);
        liar_stop(&s->liar);
        liar_link(&s->liar); /* a new QP helps as little */
        CHECK(liar_write(&s->liar, at.key.address, at.key.rkey[0], 64, 0x11) != IBV_WC_SUCCESS,
              "round %u: the old key still opens", round);
        liar_link(&s->liar);
        CHECK(range_is(s->owner.memory + OFFSET, LENGTH, SECRET), "round %u: changed later", round);
        expect_quiet_around(&s->owner);
        rdmad_lease_free(lease);
        rdmad_lease_free(other);
    }
}

static void no_byte_changes_after_a_revoke_returned(void) {
    struct scene s;
    scene_open(&s);
    revoke_rounds(&s, test_count(1000));
    scene_close(&s);
}

static void neighbours_of_a_liar_notice_nothing(void) {
    struct scene s;
    struct neighbours n;
    scene_open(&s);
    neighbours_start(&n, s.victim, s.other);
    revoke_rounds(&s, test_count(100));
    neighbours_finish(&n);
    scene_close(&s);
}

static void no_byte_changes_after_an_expiry_was_told(void) {
    struct scene s;
    scene_open(&s);
    for (unsigned round = 0; round < test_count(50); round++) {
        struct liar_lease at;
        struct rdmad_event event = RDMAD_EVENT_INIT;
        rdmad_lease *lease = grant(&s.owner, 0, UINT64_C(400) * test_patience());
        liar_attach(&s.liar, rdmad_lease_uri(lease), &at);
        liar_start(&s.liar, &at, false);
        CHECK(rdmad_next_event(s.owner.session, (int)TEST_PATIENCE_MS, &event) == 0 &&
                  event.type == RDMAD_EVENT_LEASE_ENDED,
              "no word of the expiry");
        watch(&s.owner, 20, round);
        await_refusal(&s, round);
        liar_stop(&s.liar);
        expect_quiet_around(&s.owner);
        rdmad_lease_free(lease);
    }
    scene_close(&s);
}

/* ---- another peer's key --------------------------------------------------------------------- */

static void one_peers_key_is_no_use_to_another(void) {
    struct scene s;
    struct liar thief;
    struct liar_lease at, own_lease;
    scene_open(&s);
    liar_open(&thief, LIARS_DEVICE, tdaemon_listen(s.victim));
    rdmad_lease *lease = grant(&s.owner, 0, 3600000),
                *small = grant(&s.owner, RDMAD_RIGHT_READ, 3600000);
    liar_attach(&s.liar, rdmad_lease_uri(lease), &at);
    liar_attach(&thief, rdmad_lease_uri(small), &own_lease);
    for (unsigned i = 0; i < test_count(1000); i++) {
        enum ibv_wc_status status =
            liar_write(&thief, at.key.address, at.key.rkey[0], 64, (uint8_t)(i | 1));
        CHECK(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR, "try %u: %s", i,
              ibv_wc_status_str(status));
        CHECK(range_is(s.owner.memory, POOL, QUIET), "try %u reached memory", i);
        liar_link(&thief);
        struct peer_msg m;
        while (false_peer_hear(&s.liar.peer, 0, &m)) /* pings: who does not answer is given up */
            ;
    }
    CHECK(liar_write(&s.liar, at.key.address, at.key.rkey[0], 64, 0x22) == IBV_WC_SUCCESS,
          "the key's holder");
    rdmad_lease_free(lease);
    rdmad_lease_free(small);
    liar_close(&thief);
    scene_close(&s);
}

TEST_MAIN(CASE(nothing_outside_a_lease_is_reached), CASE(rights_are_the_devices_too),
          CASE(no_byte_changes_after_a_revoke_returned), CASE(neighbours_of_a_liar_notice_nothing),
          CASE(no_byte_changes_after_an_expiry_was_told), CASE(one_peers_key_is_no_use_to_another))
