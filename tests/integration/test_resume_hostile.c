/* SPDX-License-Identifier: MIT */
/*
 * test_resume_hostile.c - a daemon is killed time and again, and among those that come back is one
 * who shows what was never its own. It gets nothing, and the others notice nothing.
 */
#include "common/uri.h"
#include "tests/support/client.h"
#include "tests/support/raw_resume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POOL = 1 << 20, LEASE = 256 << 10, PIECE = 4096 };
static const uint64_t ttl_ns = UINT64_C(3600000000000);

/* ---- who goes on as always ----------------------------------------------------------------- */

struct honest {
    rdmad_session *owner, *lessee;
    rdmad_pool *pool, *near_pool;
    rdmad_lease *own, *there;
    uint8_t *memory, *near, *was; /* was: what the owner's pool has to have in it */
    char uri[RDMAD_URI_MAX + 1];
};

static void honest_up(struct honest *h, const struct tdaemon *d) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    h->owner = client_with_pool(d, POOL, &h->pool);
    h->lessee = client_with_pool(d, POOL, &h->near_pool);
    h->memory = rdmad_pool_base(h->pool);
    h->near = rdmad_pool_base(h->near_pool);
    h->was = malloc(POOL);
    CHECK(h->was, "no memory");
    for (size_t i = 0; i < POOL; i++)
        h->memory[i] = h->was[i] = (uint8_t)test_random();
    terms.ttl_ms = ttl_ns / 1000000;
    CHECK(!rdmad_lease_grant(h->owner, h->memory, LEASE, &terms, &h->own), "%s",
          rdmad_last_error(h->owner));
    snprintf(h->uri, sizeof(h->uri), "%s", rdmad_lease_uri(h->own));
    h->there = client_attach(h->lessee, h->uri);
    CHECK(!rdmad_read(h->there, 0, h->near, PIECE), "%s", rdmad_last_error(h->lessee));
}

/* There is no other event. */
static void expect_resumed(rdmad_session *s) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    CHECK(!rdmad_next_event(s, (int)TEST_PATIENCE_MS, &e), "it is not resumed");
    CHECK(e.type == RDMAD_EVENT_SESSION_RESUMED, "event %u: %s", e.type, e.text);
    CHECK(rdmad_next_event(s, 0, &e) == RDMAD_E_TIMEOUT, "event %u: %s", e.type, e.text);
}

/* All is where it was, and the lease is good for both. */
static void honest_check(struct honest *h) {
    size_t at = test_random() % (LEASE / PIECE) * PIECE;
    expect_resumed(h->owner);
    expect_resumed(h->lessee);
    CHECK(memcmp(h->memory, h->was, POOL) == 0, "its pool has other bytes in it");
    CHECK(strcmp(rdmad_lease_uri(h->own), h->uri) == 0, "%s is %s now", h->uri,
          rdmad_lease_uri(h->own));
    CHECK(!client_info(h->own).ended && !client_info(h->there).ended, "the lease has ended");
    CHECK(!rdmad_read(h->there, at, h->near, PIECE), "%s", rdmad_last_error(h->lessee));
    CHECK(memcmp(h->near, h->was + at, PIECE) == 0, "other bytes are read");
    memset(h->near, (int)test_random(), PIECE);
    memcpy(h->was + at, h->near, PIECE);
    CHECK(!rdmad_write(h->there, at, h->near, PIECE), "%s", rdmad_last_error(h->lessee));
    CHECK(memcmp(h->memory, h->was, POOL) == 0, "a write has gone elsewhere");
}

static void honest_down(struct honest *h) {
    rdmad_close(h->lessee);
    rdmad_close(h->owner);
    free(h->was);
}

/* ---- who speaks for itself ----------------------------------------------------------------- */

/* A session with a pool and a lease that granted it, and what it shows for them. */
struct life {
    int sock;
    struct rdmad_resume_proof proof;
    struct raw_pool pool;
    struct rdmad_lease_resume_req again;
};

static void life_begin(struct life *l, struct tdaemon *d) {
    struct rdmad_lease_grant_rep lease;
    char text[RDMAD_TEXT_MAX + 1];
    struct rdmad_uri uri;
    l->sock = raw_offered(d, &l->proof);
    raw_pool_to_keep(l->sock, POOL, &l->pool);
    CHECK(!raw_grant(l->sock, &l->pool, ttl_ns, &lease, text), "%s", text);
    CHECK(!rdmad_uri_parse(lease.uri, &uri), "%s", lease.uri);
    l->again = (struct rdmad_lease_resume_req){.lease = lease.lease,
                                               .left_ns = ttl_ns / 2,
                                               .grant = {.pool = l->pool.handle,
                                                         .length = POOL,
                                                         .ttl_ns = ttl_ns,
                                                         .rights = RDMAD_RIGHTS_DEFAULT}};
    memcpy(l->again.key, uri.key, sizeof(l->again.key));
}

static void life_again(struct life *l, struct tdaemon *d) {
    struct rdmad_lease_grant_rep lease;
    char text[RDMAD_TEXT_MAX + 1];
    l->sock = raw_session(tdaemon_dir(d));
    CHECK(!raw_prove(l->sock, &l->proof), "a session that was offered is not resumed");
    CHECK(!raw_pool_back(l->sock, l->pool.handle, &l->pool, text), "%s", text);
    CHECK(!raw_lease_back(l->sock, &l->again, &lease), "its lease does not come back");
    CHECK(l->pool.base[0] == 7 && l->pool.base[POOL - 1] == 7, "its pool has other bytes in it");
}

static void life_end(struct life *l) {
    close(l->sock);
    raw_pool_unmap(&l->pool);
}

/* ---- who does not ---------------------------------------------------------------------------- */

struct scene {
    struct tdaemon *d;
    struct honest honest;
    struct life victim, hostile;
};

static void expect_refused(const struct scene *c, const struct rdmad_resume_proof *proof,
                           int status, const char *what) {
    int sock = raw_session(tdaemon_dir(c->d));
    int got = raw_prove(sock, proof);
    CHECK(got == status, "%s: status %d", what, got);
    close(sock);
}

static void another_secret(const struct scene *c) {
    struct rdmad_resume_proof proof = c->hostile.proof;
    size_t bit = test_random() % (8 * sizeof(proof));
    ((uint8_t *)&proof)[bit / 8] ^= (uint8_t)(1u << bit % 8);
    expect_refused(c, &proof, RDMAD_E_PERM, "one bit is another");
    proof = c->hostile.proof;
    proof.life = c->victim.proof.life;
    proof.session = c->victim.proof.session;
    expect_refused(c, &proof, RDMAD_E_PERM, "its own secret for another session");
    proof = c->victim.proof;
    proof.life = c->hostile.proof.life;
    proof.session = c->hostile.proof.session;
    expect_refused(c, &proof, RDMAD_E_PERM, "another's secret for its own session");
}

static void as_another_user(void *arg) {
    const struct scene *c = arg;
    CHECK(setgid(65534) == 0 && setuid(65534) == 0, "%s", strerror(errno));
    expect_refused(c, &c->victim.proof, RDMAD_E_PERM, "another user's proof");
    expect_refused(c, &c->hostile.proof, RDMAD_E_PERM, "another user's proof");
}

/* A memfd of that size, as good as a pool's but for that. */
static struct raw_pool memory_of(size_t bytes, bool sealed) {
    struct raw_pool p = {.bytes = bytes,
                         .fd = memfd_create("pool", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    CHECK(p.fd >= 0 && ftruncate(p.fd, (off_t)bytes) == 0, "%s", strerror(errno));
    p.base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p.fd, 0);
    CHECK(p.base != MAP_FAILED, "%s", strerror(errno));
    memset(p.base, 8, bytes);
    if (sealed)
        CHECK(fcntl(p.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0, "%s",
              strerror(errno));
    return p;
}

/* Handed back as the pool that it had. */
static void refused_memory(const struct scene *c, size_t bytes, bool sealed, const char *words) {
    char text[RDMAD_TEXT_MAX + 1];
    struct raw_pool p = memory_of(bytes, sealed);
    p.bytes = POOL;
    CHECK(raw_pool_back(c->hostile.sock, c->hostile.pool.handle, &p, text) && strstr(text, words),
          "\"%s\" does not say \"%s\"", text, words);
    p.bytes = bytes;
    raw_pool_unmap(&p);
}

static void refused_lease(const struct scene *c, const struct life *of, int status,
                          const char *what) {
    struct rdmad_lease_grant_rep lease;
    int got = raw_lease_back(c->hostile.sock, &of->again, &lease);
    CHECK(got == status, "%s: status %d", what, got);
}

/* It shows what is its own, and hands back what is not. */
static void other_memory(struct scene *c) {
    char text[RDMAD_TEXT_MAX + 1];
    c->hostile.sock = raw_session(tdaemon_dir(c->d));
    CHECK(!raw_prove(c->hostile.sock, &c->hostile.proof), "its own proof is refused");
    refused_lease(c, &c->hostile, RDMAD_E_HANDLE, "a lease without its pool");
    refused_memory(c, POOL / 2, true, "bytes, 1048576 were said");
    refused_memory(c, POOL, false, "not sealed");
    refused_lease(c, &c->hostile, RDMAD_E_HANDLE, "a lease of a pool that was refused");
    CHECK(!raw_pool_back(c->hostile.sock, c->hostile.pool.handle, &c->hostile.pool, text), "%s",
          text);
    refused_lease(c, &c->victim, RDMAD_E_NO_LEASE, "another's lease, in its own memory");
    close(c->hostile.sock);
}

static void round_of(struct scene *c) {
    tdaemon_kill(c->d);
    close(c->victim.sock);
    tdaemon_restart(c->d);
    another_secret(c);
    life_again(&c->victim, c->d);
    expect_refused(c, &c->victim.proof, RDMAD_E_BUSY, "the proof of one that is there");
    if (geteuid() == 0)
        client_expect_ok(client_fork(as_another_user, c));
    other_memory(c);
    honest_check(&c->honest);
}

static void whoever_shows_what_is_not_its_own_gets_nothing(void) {
    struct scene c = {.d = NULL};
    need_hole_guard();
    c.d = tdaemon_start("127.0.0.1", NULL);
    CHECK(chmod(tdaemon_dir(c.d), 0755) == 0, "%s", strerror(errno));
    honest_up(&c.honest, c.d);
    life_begin(&c.victim, c.d);
    json_t *before = tdaemon_objects(c.d);
    life_begin(&c.hostile, c.d);
    close(c.hostile.sock);
    for (unsigned i = 0; i < test_count(100); i++) {
        round_of(&c);
        tdaemon_expect_objects(c.d, json_incref(before));
    }
    json_decref(before);
    honest_down(&c.honest);
    life_end(&c.victim);
    raw_pool_unmap(&c.hostile.pool);
    tdaemon_stop(c.d);
}

TEST_MAIN(CASE(whoever_shows_what_is_not_its_own_gets_nothing))
