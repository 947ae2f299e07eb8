/* SPDX-License-Identifier: MIT */
/*
 * test_buffers_back.c - an op that has ended has ended: its buffer is the program's again, whatever
 * became of the daemon that had it. A device goes on for a moment after a daemon was killed, until
 * the kernel has taken away its queue pairs, and after a session was ended by the daemon.
 *
 * Many large transfers are under way when the daemon is lost. When the last one has ended, the
 * program writes into each page of all buffers, at once. Those are never seen in the memory that
 * was written, and never overwritten by what was read.
 */
#include "tests/support/client.h"

#include <pthread.h>
#include <string.h>

enum { OPS = 64, OP_BYTES = 256 << 10, BYTES = OPS * OP_BYTES, PAGE = 4096 };
enum { OF_OP = 0x11, OF_OWNER = 0x22, OF_PROGRAM = 0xee };

struct scene {
    struct tdaemon *near, *far;
    rdmad_session *owner, *lessee;
    rdmad_pool *memory_pool, *buffer_pool;
    uint8_t *memory, *buffer;
    rdmad_lease *granted, *attached;
    rdmad_ring *ring;
    unsigned lost; /* ops */
    size_t late;   /* pages */
};

static rdmad_session *open_at(const struct tdaemon *d, bool resumes) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    o.runtime_dir = tdaemon_dir(d);
    o.resume = resumes;
    CHECK(!rdmad_open(&o, &s), "%s", rdmad_last_error(NULL));
    return s;
}

/* One that outlives its daemon ends its ops by the same rule. */
static void lessee_up(struct scene *c, struct tdaemon *d, bool resumes) {
    c->lessee = open_at(d, resumes);
    CHECK(!rdmad_pool_create(c->lessee, BYTES, 0, &c->buffer_pool), "%s",
          rdmad_last_error(c->lessee));
    c->buffer = rdmad_pool_base(c->buffer_pool);
    c->attached = client_attach(c->lessee, rdmad_lease_uri(c->granted));
    c->ring = client_ring(c->lessee, 2 * OPS);
}

static void owner_up(struct scene *c, struct tdaemon *d) {
    c->owner = open_at(d, false);
    CHECK(!rdmad_pool_create(c->owner, BYTES, 0, &c->memory_pool), "%s",
          rdmad_last_error(c->owner));
    c->memory = rdmad_pool_base(c->memory_pool);
    CHECK(!rdmad_lease_grant(c->owner, c->memory, BYTES, NULL, &c->granted), "%s",
          rdmad_last_error(c->owner));
}

static void ops_begin(struct scene *c, bool reads) {
    for (uint64_t i = 0; i < OPS; i++) {
        size_t at = i * OP_BYTES;
        struct rdmad_sqe *e = rdmad_ring_reserve(c->ring);
        CHECK(e, "no room");
        int rc = reads ? rdmad_prep_read(c->ring, e, c->attached, at, c->buffer + at, OP_BYTES, i)
                       : rdmad_prep_write(c->ring, e, c->attached, at, c->buffer + at, OP_BYTES, i);
        CHECK(!rc, "%s", rdmad_last_error(c->lessee));
    }
    CHECK(rdmad_ring_submit(c->ring) == OPS, "%s", rdmad_last_error(c->lessee));
}

static void ops_end(struct scene *c) {
    const struct rdmad_cqe *cqe;
    for (unsigned i = 0; i < OPS; i++) {
        CHECK(!rdmad_ring_wait(c->ring, (int)TEST_PATIENCE_MS, &cqe), "an op has no end: %s",
              rdmad_last_error(c->lessee));
        CHECK(!cqe->status || cqe->status == RDMAD_E_DAEMON_LOST || cqe->status == RDMAD_E_CANCELED,
              "%s", rdmad_errname(cqe->status));
        c->lost += cqe->status != 0;
        rdmad_ring_seen(c->ring, cqe);
    }
}

/* ---- the daemon is lost --------------------------------------------------------------------- */

static void pause_somewhat(void) {
    sleep_ms((unsigned)test_random() % (test_patience() > 1 ? 60 : 6));
}

static void *kill_it(void *arg) {
    const struct scene *c = arg;
    pause_somewhat();
    tdaemon_kill(c->near);
    return NULL;
}

static void *kick_it(void *arg) {
    const struct scene *c = arg;
    struct rdmad_session_info info = RDMAD_SESSION_INFO_INIT;
    rdmad_session_get_info(c->lessee, &info);
    pause_somewhat();
    json_decref(
        tdaemon_call(c->near, "session.kick", json_pack("{s:I}", "id", (json_int_t)info.id)));
    return NULL;
}

/* The program writes into all its buffers as soon as no op has them any more. */
static void lose_in_flight(struct scene *c, bool reads, void *(*lose)(void *arg)) {
    pthread_t thread;
    memset(c->buffer, OF_OP, BYTES);
    memset(c->memory, OF_OWNER, BYTES);
    ops_begin(c, reads);
    CHECK(!pthread_create(&thread, NULL, lose, c), "no thread");
    ops_end(c);
    for (size_t at = 0; at < BYTES; at += PAGE)
        c->buffer[at] = OF_PROGRAM;
    pthread_join(thread, NULL);
    sleep_ms(50); /* for what is on its way */
}

static size_t count_pages(const uint8_t *memory) {
    size_t count = 0;
    for (size_t at = 0; at < BYTES; at += PAGE)
        count += memory[at] == OF_PROGRAM;
    return count;
}

static void expect_no_late_byte(const struct scene *c, bool reads) {
    size_t late = reads ? BYTES / PAGE - count_pages(c->buffer) : count_pages(c->memory);
    CHECK(late == 0, "%zu pages were %s after the ops had ended", late,
          reads ? "written into the buffers" : "taken from the buffers");
}

static void rounds(void *(*lose)(void *arg), bool killed, bool resumes) {
    struct scene c = {.near = tdaemon_start("127.0.0.1", NULL),
                      .far = tdaemon_start("127.0.0.2", NULL)};
    unsigned n = test_count(40);
    owner_up(&c, c.far);
    for (unsigned round = 0; round < n; round++) {
        bool reads = round % 2;
        lessee_up(&c, c.near, resumes);
        lose_in_flight(&c, reads, lose);
        expect_no_late_byte(&c, reads);
        if (killed)
            tdaemon_restart(c.near);
        rdmad_close(c.lessee);
    }
    printf("    %u ops were under way in %u rounds\n", c.lost, n);
    rdmad_close(c.owner);
    tdaemon_stop(c.near);
    tdaemon_stop(c.far);
}

static void a_daemon_that_is_killed(void) {
    rounds(kill_it, true, false);
}

static void a_daemon_that_is_killed_and_outlived(void) {
    need_hole_guard();
    rounds(kill_it, true, true);
}

static void a_session_that_the_daemon_ends(void) {
    rounds(kick_it, false, false);
}

/* ---- what others reach ---------------------------------------------------------------------- */

/* Reads the owner's memory until that fails, from another daemon. */
static void *read_on(void *arg) {
    struct scene *c = arg;
    while (!rdmad_read(c->attached, 0, c->buffer, OP_BYTES))
        for (size_t at = 0; at < OP_BYTES; at += PAGE)
            c->late += c->buffer[at] == OF_PROGRAM;
    return NULL;
}

/* It has an op that waits, so it is told when its daemon has let go of its memory. */
static void lose_while_read(struct scene *c, void *(*lose)(void *arg)) {
    const struct rdmad_cqe *cqe;
    rdmad_ring *ring = client_ring(c->owner, 2);
    struct rdmad_sqe *e = rdmad_ring_reserve(ring);
    pthread_t reader, thread;
    CHECK(!rdmad_prep_notified(ring, e, c->granted, 1) && rdmad_ring_submit(ring) == 1, "%s",
          rdmad_last_error(c->owner));
    CHECK(!pthread_create(&reader, NULL, read_on, c) && !pthread_create(&thread, NULL, lose, c),
          "no thread");
    CHECK(!rdmad_ring_wait(ring, (int)TEST_PATIENCE_MS, &cqe), "%s", rdmad_last_error(c->owner));
    memset(c->memory, OF_PROGRAM, OP_BYTES);
    pthread_join(thread, NULL);
    pthread_join(reader, NULL);
    CHECK(c->late == 0, "%zu pages were read that were written after the end", c->late);
}

static void an_owners_daemon_that_is_killed(void) {
    struct scene c = {.near = tdaemon_start("127.0.0.1", NULL),
                      .far = tdaemon_start("127.0.0.2", NULL)};
    for (unsigned round = 0; round < test_count(40); round++) {
        owner_up(&c, c.near);
        lessee_up(&c, c.far, false);
        lose_while_read(&c, kill_it);
        rdmad_close(c.lessee);
        rdmad_close(c.owner);
        tdaemon_restart(c.near);
    }
    tdaemon_stop(c.near);
    tdaemon_stop(c.far);
}

TEST_MAIN(CASE(an_owners_daemon_that_is_killed), CASE(a_daemon_that_is_killed),
          CASE(a_daemon_that_is_killed_and_outlived), CASE(a_session_that_the_daemon_ends))
