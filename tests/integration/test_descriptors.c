/* SPDX-License-Identifier: MIT */
/*
 * test_descriptors.c - the daemon's table of descriptors: what each thing takes of it, which is
 * what the words at its start count with, what a client hears when it is full, and whose number 0
 * is.
 */
#include "tests/integration/upgrades.h"
#include "tests/support/rawclient.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void set_nofile(pid_t pid, rlim_t n, rlim_t most) {
    struct rlimit limit = {n, most};
    CHECK(prlimit(pid, RLIMIT_NOFILE, &limit, NULL) == 0, "prlimit: %s", strerror(errno));
}

/* ---- what is counted ---------------------------------------------------------------------------
 */

/* Exactly so many more than before. */
static void expect_more(struct tdaemon *d, unsigned before, unsigned count, const char *what) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    unsigned now;
    while ((now = tdaemon_fds(d)) != before + count) {
        CHECK(now_ms() < deadline, "%s: %u descriptors more, not %u", what, now - before, count);
        sleep_ms(5);
    }
}

/* What it has when nothing is going on. */
static unsigned at_rest(struct tdaemon *d) {
    unsigned before, now = 0;
    json_decref(raw_objects_at_rest(d));
    do {
        before = now;
        sleep_ms(100);
        now = tdaemon_fds(d);
    } while (now != before);
    return now;
}

static void sessions_rings_and_pools_take_what_is_counted(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    unsigned own = at_rest(d);
    struct raw_ring unready, ring;
    struct raw_pool pool;
    printf("  a daemon alone has %u descriptors\n", own);
    CHECK(own < 64 + 8, "a daemon with one worker has %u descriptors of its own", own);
    int sock = raw_session(tdaemon_dir(d));
    expect_more(d, own, 1, "a session");
    CHECK(raw_ring_make(sock, 16, &unready) == 0, "ring");
    expect_more(d, own, 1 + 4, "a session and a ring that is not ready");
    CHECK(raw_ring_create(sock, 16, &ring) == 0, "ring");
    expect_more(d, own, 1 + 4 + 2, "a session, a ring that is not ready and one that is");
    CHECK(raw_pool_make(sock, 4096, 0, &pool) == 0, "pool");
    expect_more(d, own, 1 + 4 + 2 + 1, "all that and a pool that is not ready");
    raw_populate_and_seal(pool.base, pool.bytes, pool.fd);
    CHECK(raw_pool_ready(sock, pool.handle, NULL) == 0, "pool");
    expect_more(d, own, 1 + 4 + 2, "all that and a pool that is ready");
    raw_ring_unmap(&unready);
    raw_ring_unmap(&ring);
    raw_pool_unmap(&pool);
    close(sock);
    expect_more(d, own, 0, "nothing");
    tdaemon_stop(d);
}

static void a_peer_takes_what_is_counted(void) {
    struct tdaemon *owner = tdaemon_start("127.0.0.1", NULL);
    struct tdaemon *lessee = tdaemon_start("127.0.0.1", NULL);
    int granter = raw_session(tdaemon_dir(owner)), user = raw_session(tdaemon_dir(lessee));
    unsigned before_owner = tdaemon_fds(owner), before_lessee = tdaemon_fds(lessee);
    struct raw_pool pool;
    struct rdmad_lease_grant_rep granted;
    struct rdmad_lease_attach_rep attached;
    char text[RDMAD_TEXT_MAX + 1];
    CHECK(raw_pool_create(granter, 4096, 0, &pool) == 0, "pool");
    CHECK(raw_grant(granter, &pool, UINT64_C(600000000000), &granted, text) == 0, "%s", text);
    CHECK(raw_attach(user, granted.uri, &attached, text) == 0, "%s", text);
    expect_more(owner, before_owner, 2, "a peer that dialled, with one worker");
    expect_more(lessee, before_lessee, 2, "a peer that was dialled, with one worker");
    raw_pool_unmap(&pool);
    close(granter);
    close(user);
    tdaemon_stop(lessee);
    tdaemon_stop(owner);
}

/* ---- what is said at its start -----------------------------------------------------------------
 */

static struct tdaemon *start_with(rlim_t files) {
    char path[128];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/descriptors.json", tmp ? tmp : "/tmp");
    FILE *f = fopen(path, "we");
    CHECK(f && fputs("{\"limits\": {\"sessions\": 100, \"sessions_per_uid\": 100, "
                     "\"mappings\": 200}, \"peer\": {\"max\": 10}}\n",
                     f) > 0,
          "%s", path);
    CHECK(fclose(f) == 0, "%s", path);
    set_nofile(0, files, files);
    struct tdaemon *d = tdaemon_start("127.0.0.1", (const char *[]){"--config", path, NULL});
    unlink(path);
    return d;
}

/* 64 and 8 for the one worker; 100 sessions, 3 each; 10 peers, 2 each. */
static void too_few_for_what_the_limits_allow_is_said_at_the_start(void) {
    struct tdaemon *d = start_with(391);
    CHECK(tdaemon_logged(d, "391 files can be open, and 100 sessions (limits.sessions) with a ring "
                            "each and 10 peers (peer.max) may need 392: raise LimitNOFILE"),
          "nothing is said of 391 files where 392 may be needed");
    tdaemon_stop(d);
}

/* 65 for each session, 2 for each mapping, and the rest as above. */
static void too_few_for_what_clients_can_make_it_keep_is_said_at_the_start(void) {
    struct tdaemon *d = start_with(392);
    CHECK(tdaemon_silent(d, "may need"), "392 files are said not to be enough");
    CHECK(tdaemon_logged(d, "info: rude clients can make rdmad keep 6992 (100 limits.sessions, 200 "
                            "limits.mappings) files open, of 392: raise LimitNOFILE"),
          "nothing is said of 392 files where 6992 may be kept");
    tdaemon_stop(d);
}

static void enough_is_not_worth_a_word(void) {
    struct tdaemon *d = start_with(6992);
    CHECK(tdaemon_silent(d, "files can be open") && tdaemon_silent(d, "can make rdmad keep"),
          "6992 files are said not to be enough");
    tdaemon_stop(d);
}

/* ---- when too many are on their way ------------------------------------------------------------
 */

#define PLAIN_UID 65528u
#define FEW_FILES 300u

/* The kernel counts what is on its way for a user, and lets root have as much as it likes. */
static void become_plain(void) {
    static char dir[128];
    const char *tmp = getenv("TMPDIR");
    if (getuid())
        return;
    snprintf(dir, sizeof(dir), "%s/plain.XXXXXX", tmp ? tmp : "/tmp");
    CHECK(mkdtemp(dir) && chown(dir, PLAIN_UID, PLAIN_UID) == 0, "%s", dir);
    CHECK(setenv("TMPDIR", dir, 1) == 0, "setenv");
    CHECK(!setgroups(0, NULL) && !setresgid(PLAIN_UID, PLAIN_UID, PLAIN_UID) &&
              !setresuid(PLAIN_UID, PLAIN_UID, PLAIN_UID),
          "cannot become uid %u", PLAIN_UID);
}

static void fill_what_may_be_in_flight(int pair[2]) {
    int fds[100], rc;
    for (unsigned i = 0; i < 100; i++)
        fds[i] = STDIN_FILENO;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    while ((rc = raw_send(pair[0], "x", 1, fds, 100)) == 0)
        ;
    CHECK(rc == -ETOOMANYREFS, "send: %s", strerror(-rc));
}

static void expect_refused(int sock, uint16_t type, const void *req, size_t size) {
    struct raw_packet reply;
    int status = raw_request(sock, type, req, size, &reply);
    CHECK(status == RDMAD_E_LIMIT, "status %d of message %u", status, type);
    CHECK(strstr(raw_text(&reply), "cannot be passed on") &&
              strstr(raw_text(&reply), "LimitNOFILE"),
          "said: %s", raw_text(&reply));
    printf("  said: %s\n", raw_text(&reply));
}

static void an_answer_whose_descriptors_cannot_be_passed_fails_its_request_alone(void) {
    const struct rdmad_ring_create_req ring_req = {.sq_entries = 16};
    const struct rdmad_pool_create_req pool_req = {.bytes = 4096};
    const struct rdmad_lifeline_req life_req = {.reserved = 0};
    struct raw_packet reply;
    struct raw_ring ring;
    struct raw_pool pool;
    int pair[2];
    become_plain();
    set_nofile(0, FEW_FILES, FEW_FILES);
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    unsigned own = at_rest(d);
    int sock = raw_session(tdaemon_dir(d));
    json_t *before = tdaemon_objects(d);
    fill_what_may_be_in_flight(pair);
    expect_refused(sock, RDMAD_MSG_RING_CREATE, &ring_req, sizeof(ring_req));
    expect_refused(sock, RDMAD_MSG_POOL_CREATE, &pool_req, sizeof(pool_req));
    expect_refused(sock, RDMAD_MSG_LIFELINE, &life_req, sizeof(life_req));
    expect_more(d, own, 1, "a session whose requests failed");
    tdaemon_expect_objects(d, before);
    close(pair[0]);
    close(pair[1]);
    CHECK(raw_ring_create(sock, 16, &ring) == 0, "a ring, later");
    CHECK(raw_pool_create(sock, 4096, 0, &pool) == 0, "a pool, later");
    CHECK(raw_request(sock, RDMAD_MSG_LIFELINE, &life_req, sizeof(life_req), &reply) == 0,
          "the lifeline, later");
    CHECK(raw_request(sock, RDMAD_MSG_LIFELINE, &life_req, sizeof(life_req), &reply) ==
              RDMAD_E_EXISTS,
          "a session has it twice");
    raw_ring_unmap(&ring);
    raw_pool_unmap(&pool);
    close(sock);
    tdaemon_stop(d);
}

/* ---- when it is full --------------------------------------------------------------------------
 */

/* Connects until somebody is turned away, who hears it without having asked anything. */
static unsigned fill_table(struct tdaemon *d, int *socks, unsigned most) {
    struct raw_packet p;
    unsigned n = 0;
    while (n < most) {
        socks[n] = raw_connect(tdaemon_dir(d));
        if (raw_recv(socks[n], &p, 200)) {
            close(socks[n]);
            return n;
        }
        n++;
    }
    return n;
}

static void who_finds_no_descriptor_left_is_told_so(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    int socks[16];
    unsigned fds = tdaemon_fds(d);
    struct rlimit before;
    CHECK(prlimit(tdaemon_pid(d), RLIMIT_NOFILE, NULL, &before) == 0, "prlimit");
    set_nofile(tdaemon_pid(d), fds + 4, before.rlim_max);
    unsigned n = fill_table(d, socks, 16);
    CHECK(n < 16, "%u clients fit where there should be room for few", n);
    for (int i = 0; i < 3; i++)
        raw_expect_turned_away(tdaemon_dir(d), RDMAD_E_LIMIT, "no descriptor left");
    close(socks[--n]);
    for (uint64_t deadline = now_ms() + TEST_PATIENCE_MS; fill_table(d, &socks[n], 1) == 0;)
        CHECK(now_ms() < deadline, "there is no room again");
    n++;
    while (n)
        close(socks[--n]);
    tdaemon_expect_fds(d, fds);
    tdaemon_stop(d);
}

/* ---- the directory's lock ------------------------------------------------------------------- */

static void expect_locked(const struct tdaemon *d) {
    char path[256];
    snprintf(path, sizeof(path), "%s/rdmad.lock", tdaemon_dir(d));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0, "%s: %s", path, strerror(errno));
    CHECK(flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK,
          "the directory is not its own any more");
    close(fd);
}

/* Neither an upgrade nor a start without standard input gives something else its number. */
static void its_directory_stays_its_own(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    expect_locked(d);
    for (unsigned i = 0; i < 2; i++) {
        upgrade_now(d);
        expect_locked(d);
    }
    tdaemon_stop(d);
    int input = dup(STDIN_FILENO);
    close(STDIN_FILENO); /* nor at a start without standard input */
    d = tdaemon_start("127.0.0.1", NULL);
    expect_locked(d);
    tdaemon_stop(d);
    dup2(input, STDIN_FILENO);
    close(input);
}

TEST_MAIN(CASE(sessions_rings_and_pools_take_what_is_counted), CASE(a_peer_takes_what_is_counted),
          CASE(too_few_for_what_the_limits_allow_is_said_at_the_start),
          CASE(too_few_for_what_clients_can_make_it_keep_is_said_at_the_start),
          CASE(enough_is_not_worth_a_word),
          CASE(an_answer_whose_descriptors_cannot_be_passed_fails_its_request_alone),
          CASE(who_finds_no_descriptor_left_is_told_so), CASE(its_directory_stays_its_own))
