/* SPDX-License-Identifier: MIT */
/*
 * test_guard.c - who may touch a buffer, with real daemons: the owner's daemon is stopped, so that
 * an op stays in flight for as long as the test wants.
 *
 * Guard mode first: a child whose RDMAD_GUARD is 1 writes into a buffer in flight, reads one that
 * is being filled, uses one after it was freed, or frees one twice, and must end with the sentence
 * about it. Then without it: the second op is refused with the first one's name, a lock waits for
 * the op, a freed buffer is not handed out again, the pool is not destroyed; all of which is over
 * when the op has ended.
 */
#include "tests/support/harness.h"
#include "tests/support/procs.h"

#include <rdmad/rdmad.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, BUFFER = 64 << 10 };

struct scene {
    struct tdaemon *owners, *lessees;
    rdmad_session *owner;
    char uri[RDMAD_URI_MAX + 1];
};

struct lessee {
    rdmad_session *session;
    rdmad_pool *pool;
    rdmad_lease *lease;
    rdmad_ring *ring;
    char *buffer;
};

static void scene_open(struct scene *sc) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_pool *pool;
    rdmad_lease *lease;

    sc->owners = tdaemon_start("127.0.0.1", NULL);
    sc->lessees = tdaemon_start("127.0.0.2", NULL);
    options.runtime_dir = tdaemon_dir(sc->owners);
    CHECK(!rdmad_open(&options, &sc->owner), "%s", rdmad_last_error(NULL));
    CHECK(!rdmad_pool_create(sc->owner, BYTES, 0, &pool), "%s", rdmad_last_error(sc->owner));
    CHECK(!rdmad_lease_grant(sc->owner, rdmad_pool_base(pool), BYTES, NULL, &lease), "%s",
          rdmad_last_error(sc->owner));
    snprintf(sc->uri, sizeof(sc->uri), "%s", rdmad_lease_uri(lease));
}

static void scene_close(struct scene *sc) {
    rdmad_close(sc->owner);
    tdaemon_stop(sc->lessees);
    tdaemon_stop(sc->owners);
}

static void join(struct lessee *l, const struct scene *sc) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;

    options.runtime_dir = tdaemon_dir(sc->lessees);
    CHECK(!rdmad_open(&options, &l->session), "%s", rdmad_last_error(NULL));
    CHECK(!rdmad_pool_create(l->session, BYTES, 0, &l->pool) &&
              !rdmad_lease_attach(l->session, sc->uri, 0, &l->lease) &&
              !rdmad_ring_create(l->session, 16, &l->ring),
          "%s", rdmad_last_error(l->session));
    l->buffer = rdmad_alloc(l->pool, BUFFER);
    CHECK(l->buffer, "%s", rdmad_last_error(l->session));
    CHECK(!rdmad_write(l->lease, 0, l->buffer, BUFFER), "%s", rdmad_last_error(l->session));
}

static int prepare(struct lessee *l, bool fills, uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(l->ring);

    CHECK(sqe, "no room in the ring");
    return fills ? rdmad_prep_read(l->ring, sqe, l->lease, 0, l->buffer, BUFFER, user_data)
                 : rdmad_prep_write(l->ring, sqe, l->lease, 0, l->buffer, BUFFER, user_data);
}

/* In flight until the owner's daemon goes on. */
static void start(struct lessee *l, bool fills, uint64_t user_data) {
    CHECK(!prepare(l, fills, user_data), "%s", rdmad_last_error(l->session));
    CHECK(rdmad_ring_submit(l->ring) == 1, "%s", rdmad_last_error(l->session));
}

/* ---- guard mode ----------------------------------------------------------------------------- */

enum misuse { WRITES_WHAT_IS_READ, READS_WHAT_IS_FILLED, USES_AFTER_FREE, FREES_TWICE };

static void misuse(const struct scene *sc, enum misuse how, int said) {
    struct lessee l;
    volatile char *bytes;

    dup2(said, STDERR_FILENO);
    setenv("RDMAD_GUARD", "1", 1);
    join(&l, sc);
    bytes = l.buffer;
    process_stop(tdaemon_pid(sc->owners));
    switch (how) {
    case WRITES_WHAT_IS_READ:
        start(&l, false, 7);
        bytes[16] = bytes[15];
        break;
    case READS_WHAT_IS_FILLED:
        start(&l, true, 8);
        (void)bytes[BUFFER - 1];
        break;
    case USES_AFTER_FREE:
        rdmad_free(l.pool, l.buffer);
        bytes[1] = 1;
        break;
    case FREES_TWICE:
        rdmad_free(l.pool, l.buffer);
        rdmad_free(l.pool, l.buffer);
        break;
    }
    _exit(0);
}

static void expect_caught(const struct scene *sc, enum misuse how, const char *words) {
    char said[4096];
    size_t used = 0;
    ssize_t n;
    int ends[2], status;
    pid_t pid;

    CHECK(pipe(ends) == 0, "pipe");
    pid = fork();
    CHECK(pid >= 0, "fork");
    if (pid == 0)
        misuse(sc, how, ends[1]);
    close(ends[1]);
    while ((n = read(ends[0], said + used, sizeof(said) - 1 - used)) > 0)
        used += (size_t)n;
    said[used] = '\0';
    close(ends[0]);
    CHECK(waitpid(pid, &status, 0) == pid, "waitpid");
    process_go_on(tdaemon_pid(sc->owners));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status 0x%x; it said: %s", status,
          said);
    CHECK(strstr(said, words), "\"%s\" lacks \"%s\"", said, words);
}

static void cpu_accesses_are_caught(void) {
    struct scene sc;

    scene_open(&sc);
    expect_caught(&sc, WRITES_WHAT_IS_READ,
                  "(65536 bytes, allocated by rdmad_alloc) at +16 while op WRITE (user_data 7) of "
                  "lease ");
    expect_caught(&sc, READS_WHAT_IS_FILLED,
                  "(65536 bytes, allocated by rdmad_alloc) at +65535 while op READ (user_data 8) "
                  "of lease ");
    expect_caught(&sc, USES_AFTER_FREE, "after rdmad_free: ");
    expect_caught(&sc, FREES_TWICE, "which was freed before");
    scene_close(&sc);
}

/* Transfers of every kind are the same in guard mode: the daemon's mapping is its own. */
static void transfers_are_the_same_in_guard_mode(void) {
    struct lessee l;
    struct scene sc;

    setenv("RDMAD_GUARD", "1", 1);
    scene_open(&sc);
    join(&l, &sc);
    for (unsigned i = 0; i < 200; i++) {
        char *out = rdmad_alloc(l.pool, 1 + i * 97), *in = rdmad_alloc(l.pool, 1 + i * 97);
        CHECK(out && in, "%s", rdmad_last_error(l.session));
        memset(out, (int)i, 1 + i * 97);
        CHECK(!rdmad_write(l.lease, i, out, 1 + i * 97), "%s", rdmad_last_error(l.session));
        CHECK(!rdmad_read(l.lease, i, in, 1 + i * 97), "%s", rdmad_last_error(l.session));
        CHECK(memcmp(in, out, 1 + i * 97) == 0, "round %u", i);
        rdmad_free(l.pool, out);
        rdmad_free(l.pool, in);
    }
    rdmad_close(l.session);
    scene_close(&sc);
    unsetenv("RDMAD_GUARD");
}

/* ---- without it ----------------------------------------------------------------------------- */

static void expect_words(const struct lessee *l, const char *words) {
    CHECK(strstr(rdmad_last_error(l->session), words), "\"%s\" lacks \"%s\"",
          rdmad_last_error(l->session), words);
}

static void what_an_op_holds_is_left_alone(void) {
    const struct rdmad_cqe *cqe;
    struct lessee l;
    struct scene sc;
    char *other;

    scene_open(&sc);
    join(&l, &sc);
    process_stop(tdaemon_pid(sc.owners));
    start(&l, true, 5);
    CHECK(prepare(&l, false, 6) == RDMAD_E_BUSY, "an op on a buffer that is being filled");
    expect_words(&l, "held by op READ of lease ");
    expect_words(&l, "(user_data 5, 65536 bytes at buffer+0)");
    CHECK(rdmad_buf_lock_read(l.pool, l.buffer, 1, 100) == RDMAD_E_TIMEOUT, "a lock");
    expect_words(&l, "held by op READ of lease ");
    CHECK(rdmad_pool_destroy(l.pool) == RDMAD_E_BUSY, "destroy");
    rdmad_free(l.pool, l.buffer);
    for (unsigned i = 0; i < BYTES / BUFFER; i++) {
        other = rdmad_alloc(l.pool, BUFFER);
        CHECK(other != l.buffer, "a buffer in flight was handed out again");
        CHECK(!other == (i == BYTES / BUFFER - 1), "piece %u", i);
    }
    process_go_on(tdaemon_pid(sc.owners));
    CHECK(!rdmad_ring_wait(l.ring, (int)TEST_PATIENCE_MS, &cqe) && !cqe->status, "the op");
    rdmad_ring_seen(l.ring, cqe);
    CHECK(rdmad_alloc(l.pool, BUFFER) == l.buffer, "it is handed out again");
    CHECK(!rdmad_buf_lock_write(l.pool, l.buffer, BUFFER, 0), "%s", rdmad_last_error(l.session));
    rdmad_buf_unlock_write(l.pool, l.buffer, BUFFER);
    rdmad_ring_destroy(l.ring); /* with it the entry that was refused */
    CHECK(!rdmad_pool_destroy(l.pool), "%s", rdmad_last_error(l.session));
    rdmad_close(l.session);
    scene_close(&sc);
}

TEST_MAIN(CASE(cpu_accesses_are_caught), CASE(transfers_are_the_same_in_guard_mode),
          CASE(what_an_op_holds_is_left_alone))
