/* SPDX-License-Identifier: MIT */
/*
 * test_kill_client.c - either client of a transfer is killed in the middle of it, at random
 * moments: both daemons are back to what they held before, and a neighbour never notices.
 *
 * The neighbour is a second owner and lessee on the same two daemons, so the same peers, links and
 * workers, whose transfers run all the time and none of which may fail.
 */
#include "tests/support/transfer.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct forking {
    const char *dir;
    int told;
};

/* Without what was under way when we asked: the neighbour's ops, which come and go, and descriptors
 * of what came before, as the connection by which we asked last. */
static json_t *quiet_objects(struct tdaemon *d) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    json_t *last = NULL, *objects;
    for (;; last = objects) {
        objects = tdaemon_objects(d);
        json_object_del(objects, "ops_inflight");
        bool same = last && json_equal(last, objects);
        json_decref(last);
        if (same)
            return objects;
        CHECK(now_ms() < deadline, "its objects are never twice the same");
        sleep_ms(20);
    }
}

static void one_round(struct tdaemon *owners, struct tdaemon *lessees, bool kill_owner) {
    json_t *before[2] = {quiet_objects(owners), quiet_objects(lessees)};
    struct owner o = owner_start(owners);
    struct lessee l = lessee_start(lessees, o.uri, TRANSFER_TOLERANT);
    lessee_await_start(&l);
    sleep_ms((unsigned)(test_random() % 40));
    if (kill_owner) {
        client_kill(o.pid);
        lessee_expect_end(&l, TRANSFER_TIMEOUT_MS + TEST_PATIENCE_MS);
    } else {
        lessee_kill(&l);
        client_kill(o.pid);
    }
    uint64_t start = now_ms();
    tdaemon_expect_objects(owners, before[0]);
    tdaemon_expect_objects(lessees, before[1]);
    if (now_ms() - start > 1000)
        printf("  objects took %lu ms to come back\n", (unsigned long)(now_ms() - start));
}

static void rounds(struct tdaemon *a, struct tdaemon *b) {
    struct owner o = owner_start(a);
    struct lessee neighbour = lessee_start(b, o.uri, TRANSFER_STRICT);
    lessee_await_start(&neighbour);
    one_round(a, b, true); /* warms up what stays, as the other direction's link */
    for (unsigned i = 0; i < test_count(100); i++) {
        one_round(a, b, true);
        one_round(a, b, false);
        CHECK(client_running(neighbour.pid), "the neighbour ended");
    }
    lessee_finish(&neighbour);
    client_kill(o.pid);
}

static void between_two_daemons(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    json_t *before = tdaemon_objects_of_clients(a);
    rounds(a, b);
    tdaemon_expect_objects(a, before);
    tdaemon_stop(b);
    tdaemon_stop(a);
}

static void on_one_daemon(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    json_t *before = tdaemon_objects(d);
    rounds(d, d);
    tdaemon_expect_objects(d, before);
    tdaemon_stop(d);
}

/* ---- a client that has forked -------------------------------------------------------------- */

/* Tells by told that all is there, and waits to be killed; its child lives on and tells its pid. */
static void open_and_fork(void *arg) {
    const struct forking *f = arg;
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_ring *ring;
    pid_t child;
    o.runtime_dir = f->dir;
    CHECK(rdmad_open(&o, &s) == 0, "%s", rdmad_last_error(NULL));
    CHECK(rdmad_pool_create(s, 1 << 20, 0, &pool) == 0, "%s", rdmad_last_error(s));
    CHECK(rdmad_ring_create(s, 8, &ring) == 0, "%s", rdmad_last_error(s));
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    CHECK(write(f->told, &child, sizeof(child)) == sizeof(child), "%s", strerror(errno));
    pause();
}

static void with_a_child_that_lives_on(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    json_t *before = tdaemon_objects(d);
    int ends[2];
    pid_t child;
    CHECK(pipe(ends) == 0, "%s", strerror(errno));
    /* What outlives its parent comes to us, for the end. */
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "%s", strerror(errno));
    struct forking f = {.dir = tdaemon_dir(d), .told = ends[1]};
    pid_t parent = client_fork(open_and_fork, &f);
    CHECK(read(ends[0], &child, sizeof(child)) == sizeof(child), "the client ended early");
    client_kill(parent);
    CHECK(client_running(child), "the child ended with its parent");
    tdaemon_expect_objects(d, before);
    client_kill(child);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 0) == 0, "%s", strerror(errno)); /* not the daemon's */
    close(ends[0]);
    close(ends[1]);
    tdaemon_stop(d);
}

TEST_MAIN(CASE(between_two_daemons), CASE(on_one_daemon), CASE(with_a_child_that_lives_on))
