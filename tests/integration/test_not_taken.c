/* SPDX-License-Identifier: MIT */
/*
 * test_not_taken.c - a daemon stops while entries stand in rings that it has not taken, since their
 * session is paused: the next daemon does them, once, or they are known not to be done.
 */
#include "tests/support/client.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 1 << 20, ADDS = 20 };

/* One session that is owner and lessee of its own lease. */
struct party {
    struct tdaemon *d;
    rdmad_session *s;
    rdmad_pool *pool;
    char *memory, *buffer;
    rdmad_lease *granted, *attached;
    rdmad_ring *ring;
};

static void party_start(struct party *p, int resume) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    need_hole_guard();
    *p = (struct party){.d = tdaemon_start("127.0.0.1", NULL)};
    o.runtime_dir = tdaemon_dir(p->d);
    o.resume = resume;
    CHECK(rdmad_open(&o, &p->s) == 0, "%s", rdmad_last_error(NULL));
    CHECK(rdmad_pool_create(p->s, BYTES, 0, &p->pool) == 0, "%s", rdmad_last_error(p->s));
    p->memory = rdmad_alloc(p->pool, 65536);
    p->buffer = rdmad_alloc(p->pool, 65536);
    CHECK(p->memory && p->buffer, "%s", rdmad_last_error(p->s));
    memset(p->memory, 0, 65536);
    memset(p->buffer, 7, 65536);
    t.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE | RDMAD_RIGHT_ATOMIC;
    CHECK(rdmad_lease_grant(p->s, p->memory, 65536, &t, &p->granted) == 0, "%s",
          rdmad_last_error(p->s));
    p->attached = client_attach(p->s, rdmad_lease_uri(p->granted));
    p->ring = client_ring(p->s, 64);
}

static void party_end(struct party *p) {
    rdmad_ring_destroy(p->ring);
    rdmad_close(p->s);
    tdaemon_stop(p->d);
}

static void pause_it(struct party *p) {
    struct rdmad_session_info info = RDMAD_SESSION_INFO_INIT;
    rdmad_session_get_info(p->s, &info);
    json_decref(tdaemon_call(p->d, "session.pause", json_pack("{s:I}", "id", (json_int_t)info.id)));
}

static void restart(struct party *p) {
    tdaemon_end(p->d);
    tdaemon_restart(p->d);
}

static void add(struct party *p, uint64_t offset, uint64_t name) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(p->ring);
    CHECK(sqe && rdmad_prep_fetch_add(p->ring, sqe, p->attached, offset, 1, name) == 0, "%s",
          rdmad_last_error(p->s));
}

static void write_part(struct party *p, unsigned at, unsigned flags) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(p->ring);
    CHECK(sqe && rdmad_prep_write(p->ring, sqe, p->attached, 4096 + 512 * at, p->buffer + 512 * at,
                                  512, 1000) == 0,
          "%s", rdmad_last_error(p->s));
    rdmad_sqe_set_flags(sqe, flags);
}

static void submit(struct party *p, int count) {
    int n = rdmad_ring_submit(p->ring);
    CHECK(n == count, "submitted %d, not %d: %s", n, count, rdmad_last_error(p->s));
}

static struct rdmad_cqe next(struct party *p) {
    const struct rdmad_cqe *cqe;
    int rc = rdmad_ring_wait(p->ring, (int)TEST_PATIENCE_MS, &cqe);
    CHECK(rc == 0, "%s: %s", rdmad_errname(rc), rdmad_last_error(p->s));
    struct rdmad_cqe copy = *cqe;
    rdmad_ring_seen(p->ring, cqe);
    return copy;
}

static void expect(struct party *p, uint64_t name, int status, int outcome) {
    struct rdmad_cqe c = next(p);
    CHECK(c.user_data == name && c.status == status && c.outcome == outcome,
          "op %llu ended with %s, outcome %d; expected op %llu, %s, %d",
          (unsigned long long)c.user_data, rdmad_errname(c.status), c.outcome,
          (unsigned long long)name, rdmad_errname(status), outcome);
}

static uint64_t word(const struct party *p, uint64_t offset) {
    uint64_t w;
    memcpy(&w, p->memory + offset, sizeof(w));
    return w;
}

static void expect_written(const struct party *p, unsigned parts, bool written) {
    for (unsigned i = 0; i < parts; i++)
        CHECK((memcmp(p->memory + 4096 + 512 * i, p->buffer + 512 * i, 512) == 0) == written,
              "part %u is %swritten", i, written ? "not " : "");
}

/* Adds, which would show if they were done twice or not at all, and a batch between them. */
static void the_next_daemon_does_it_once(void) {
    struct party p;
    party_start(&p, 1);
    add(&p, 0, 0);
    submit(&p, 1);
    expect(&p, 0, 0, RDMAD_DONE);
    pause_it(&p);
    for (uint64_t i = 1; i <= ADDS; i++)
        add(&p, 0, i);
    for (unsigned i = 0; i < 4; i++)
        write_part(&p, i, i < 3 ? RDMAD_SQE_MORE : 0);
    add(&p, 8, 2000);
    submit(&p, ADDS + 5);
    restart(&p);
    for (uint64_t i = 1; i <= ADDS; i++)
        expect(&p, i, 0, RDMAD_DONE);
    expect(&p, 1000, 0, RDMAD_DONE);
    expect(&p, 2000, 0, RDMAD_DONE);
    CHECK(word(&p, 0) == ADDS + 1 && word(&p, 8) == 1, "the words are %llu and %llu",
          (unsigned long long)word(&p, 0), (unsigned long long)word(&p, 8));
    expect_written(&p, 4, true);
    party_end(&p);
}

/* Nothing of it was taken, and its end comes only when there is no daemon, or the next. */
static void a_batch_that_was_begun_goes_to_the_next_as_a_whole(void) {
    struct party p;
    party_start(&p, 1);
    pause_it(&p);
    add(&p, 0, 1);
    write_part(&p, 0, RDMAD_SQE_MORE);
    write_part(&p, 1, RDMAD_SQE_MORE);
    submit(&p, 3);
    restart(&p);
    expect(&p, 1, 0, RDMAD_DONE);
    write_part(&p, 2, 0);
    submit(&p, 1);
    expect(&p, 1000, 0, RDMAD_DONE);
    expect_written(&p, 3, true);
    party_end(&p);
}

/* The old daemon has its beginning, so nobody has all of it: it is lost, with its rest. What comes
 * behind it is done. */
static void a_batch_that_was_taken_in_part_is_lost(void) {
    struct party p;
    party_start(&p, 1);
    add(&p, 0, 1);
    write_part(&p, 0, RDMAD_SQE_MORE);
    submit(&p, 2);
    expect(&p, 1, 0, RDMAD_DONE);
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    while (memcmp(p.memory + 4096, p.buffer, 512) != 0)
        CHECK(now_ms() < deadline, "its beginning is not taken");
    pause_it(&p);
    write_part(&p, 1, 0);
    add(&p, 0, 2);
    submit(&p, 2);
    restart(&p);
    struct rdmad_cqe first = next(&p), second = next(&p);
    struct rdmad_cqe batch = first.user_data == 1000 ? first : second,
                     after = first.user_data == 1000 ? second : first;
    CHECK(batch.user_data == 1000 && batch.status == RDMAD_E_DAEMON_LOST &&
              batch.outcome != RDMAD_DONE,
          "the batch ended with %s", rdmad_errname(batch.status));
    CHECK(after.user_data == 2 && after.status == 0, "what is behind it ended with %s",
          rdmad_errname(after.status));
    CHECK(word(&p, 0) == 2, "the word is %llu", (unsigned long long)word(&p, 0));
    party_end(&p);
}

struct canceling {
    struct party *p;
    struct rdmad_cqe cqe;
    int rc;
};

static void *cancel_it(void *arg) {
    struct canceling *c = arg;
    c->rc = rdmad_ring_cancel(c->p->ring, 5, &c->cqe);
    return NULL;
}

/* Neither the op nor its CANCEL was taken: the next daemon is asked for both. */
static void who_cancels_waits_for_the_next_daemon_and_no_longer(void) {
    struct party p;
    pthread_t thread;
    struct canceling c = {.p = &p};
    party_start(&p, 1);
    pause_it(&p);
    struct rdmad_sqe *sqe = rdmad_ring_reserve(p.ring);
    CHECK(rdmad_prep_notified(p.ring, sqe, p.granted, 5) == 0, "%s", rdmad_last_error(p.s));
    submit(&p, 1);
    CHECK(pthread_create(&thread, NULL, cancel_it, &c) == 0, "thread");
    sleep_ms(100); /* it has said so, or says so to the next daemon: both must do */
    restart(&p);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += TEST_PATIENCE_MS / 1000;
    CHECK(pthread_timedjoin_np(thread, NULL, &until) == 0, "the cancel does not return");
    CHECK(c.rc == 0 && c.cqe.status == RDMAD_E_CANCELED, "%s, %s", rdmad_errname(c.rc),
          rdmad_errname(c.cqe.status));
    add(&p, 0, 6);
    submit(&p, 1);
    expect(&p, 6, 0, RDMAD_DONE);
    party_end(&p);
}

/* There is no next daemon for this session, but it is known what has become of its ops: nothing. */
static void who_does_not_go_on_knows_that_nothing_was_done(void) {
    struct party p;
    party_start(&p, 0);
    pause_it(&p);
    for (unsigned i = 0; i < 2; i++)
        write_part(&p, i, i ? 0 : RDMAD_SQE_MORE);
    add(&p, 0, 3);
    submit(&p, 3);
    tdaemon_end(p.d);
    expect(&p, 1000, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_UNTOUCHED);
    expect(&p, 3, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_UNTOUCHED);
    CHECK(word(&p, 0) == 0, "it was done");
    expect_written(&p, 2, false);
    tdaemon_restart(p.d);
    party_end(&p);
}

TEST_MAIN(CASE(the_next_daemon_does_it_once),
          CASE(a_batch_that_was_begun_goes_to_the_next_as_a_whole),
          CASE(a_batch_that_was_taken_in_part_is_lost),
          CASE(who_cancels_waits_for_the_next_daemon_and_no_longer),
          CASE(who_does_not_go_on_knows_that_nothing_was_done))
