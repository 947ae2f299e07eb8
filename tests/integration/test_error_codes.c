/* SPDX-License-Identifier: MIT */
/*
 * test_error_codes.c - the errors that no other test has a real daemon and a real client come to:
 * what makes each, and in which words it is told. tests/errors has where the others are.
 */
#include "tests/support/client.h"
#include "tests/support/rawclient.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { POOL = 1 << 20, LARGE = 256 << 20 };
static const uint64_t ttl_ns = UINT64_C(600000000000);

/* A program that wants a session where there is nobody, or cannot have a socket. */
static int open_at(const char *dir) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    options.runtime_dir = dir;
    return rdmad_open(&options, &s);
}

static int nobody_is_there(struct tdaemon *d) {
    (void)d;
    return open_at("/nonexistent");
}

static int limited(enum __rlimit_resource resource, rlim_t most, struct rlimit *before) {
    getrlimit(resource, before);
    struct rlimit now = {.rlim_cur = most, .rlim_max = before->rlim_max};
    return setrlimit(resource, &now);
}

static int no_descriptor_is_left(struct tdaemon *d) {
    struct rlimit before;
    CHECK(limited(RLIMIT_NOFILE, 0, &before) == 0, "%s", strerror(errno));
    int rc = open_at(tdaemon_dir(d));
    setrlimit(RLIMIT_NOFILE, &before);
    return rc;
}

/* The daemon made the pool, and the program has no room for it. */
static int no_memory_is_left(struct tdaemon *d) {
    struct rlimit limit;
    rdmad_pool *pool;
    rdmad_session *s = client_open(d);
    CHECK(limited(RLIMIT_AS, LARGE / 2, &limit) == 0, "%s", strerror(errno));
    int rc = rdmad_pool_create(s, LARGE, 0, &pool);
    setrlimit(RLIMIT_AS, &limit);
    uint64_t until = now_ms() + TEST_PATIENCE_MS; /* nor does the daemon keep it */
    while (tdaemon_used(d, "pools"))
        CHECK(now_ms() < until, "the daemon keeps the pool");
    rdmad_close(s);
    return rc;
}

static void errors_of_the_library(void) {
    static const struct {
        int code;
        const char *words;
        int (*make)(struct tdaemon *d);
        bool plain; /* not under sanitizers, which need memory themselves */
    } table[] = {
        {RDMAD_E_NO_DAEMON, "/nonexistent/rdmad.sock does not exist", nobody_is_there, false},
        {RDMAD_E_SYSTEM, "cannot make a socket: Too many open files", no_descriptor_is_left, false},
        {RDMAD_E_NOMEM, "cannot map a pool of 268435456 bytes", no_memory_is_left, true},
    };
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].plain && test_sanitized()) {
            printf("  skipped: %s, in a sanitizer's build\n", rdmad_errname(table[i].code));
            continue;
        }
        client_refused(NULL, table[i].make(d), table[i].code, table[i].words);
        rdmad_close(client_open(d)); /* and all is well again */
    }
    tdaemon_stop(d);
}

/* A client that says that more entries wait than its ring has is told so, and ended. */
static void a_ring_whose_indices_make_no_sense(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct raw_ring ring;
    int sock = raw_session(tdaemon_dir(d));
    CHECK(raw_ring_create(sock, 16, &ring) == 0, "ring");
    raw_ring_tail(&ring, ring.sq_tail + ring.sq_entries + 1);
    raw_expect_told_away(sock, RDMAD_E_RING, "ring indices make no sense");
    CHECK(raw_ended(sock, (int)TEST_PATIENCE_MS), "the session goes on");
    raw_ring_unmap(&ring);
    close(sock);
    tdaemon_stop(d);
}

/* An owner whose session can be resumed takes the pages away that it has granted. */
static void granted_and_taken_away(int sock, struct raw_pool *pool,
                                   struct rdmad_lease_grant_rep *lease) {
    char text[RDMAD_TEXT_MAX + 1] = "";
    struct rdmad_resume_offer_req offer = {.reserved = 0};
    struct raw_packet reply;
    CHECK(raw_request(sock, RDMAD_MSG_RESUME_OFFER, &offer, sizeof(offer), &reply) == 0, "%s",
          raw_text(&reply));
    CHECK(raw_pool_make(sock, POOL, 0, pool) == 0, "pool");
    memset(pool->base, 7, pool->bytes);
    CHECK(fcntl(pool->fd, F_ADD_SEALS, F_SEAL_SEAL) == 0, "%s", strerror(errno));
    CHECK(raw_pool_ready(sock, pool->handle, text) == 0, "%s", text);
    CHECK(raw_grant(sock, pool, ttl_ns, lease, text) == 0, "%s", text);
    CHECK(fallocate(pool->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, POOL) == 0, "%s",
          strerror(errno));
}

/* Who reads what its owner has taken away hears that, and not that the owner is gone. */
static void memory_that_vanished(void) {
    need_hole_guard();
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct rdmad_lease_grant_rep lease;
    struct raw_pool theirs;
    rdmad_pool *pool;
    rdmad_session *s = client_with_pool(d, POOL, &pool);
    char *mine = rdmad_alloc(pool, 4096);
    int sock = raw_session(tdaemon_dir(d));
    granted_and_taken_away(sock, &theirs, &lease);
    rdmad_lease *there = client_attach(s, lease.uri);
    client_refused(s, rdmad_read(there, 0, mine, 4096), RDMAD_E_FAULT, "memory vanished");
    CHECK(raw_ended(sock, (int)TEST_PATIENCE_MS), "the owner's session goes on");
    rdmad_close(s);
    raw_pool_unmap(&theirs);
    close(sock);
    tdaemon_stop(d);
}

TEST_MAIN(CASE(errors_of_the_library), CASE(a_ring_whose_indices_make_no_sense),
          CASE(memory_that_vanished))
