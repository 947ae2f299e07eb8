/* SPDX-License-Identifier: MIT */
/*
 * test_hang_waits.c - what waits without having asked anything, for completions, events and
 * connections, ends when its daemon hangs, too. One that is stopped for less costs a pause.
 */
#include "tests/support/hang.h"
#include "tests/support/rawclient.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE = 600 };
enum { POOL = 1 << 20 };

/* What each client has before the daemon hangs: a lease of its own memory, a channel to who listens
 * at "far", and the rings that blocking calls make when they are first used. */
struct scene {
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *own, *there;
    rdmad_channel *channel;
    rdmad_service *service;
    rdmad_ring *ring;
    char *memory;
    int outcome;
    char said[1024];
};

static struct tdaemon *daemon_of_all;
static int ready[2], after[2]; /* pipes: a client is ready; readable when the daemon hangs */

/* ---- what waits ---------------------------------------------------------------------------- */

static int told(struct scene *c, int rc) {
    c->outcome = rdmad_last_outcome();
    snprintf(c->said, sizeof(c->said), "%s", rdmad_last_error(c->s));
    return rc;
}

static int wait_write(struct scene *c) {
    return told(c, rdmad_write(c->there, 0, c->memory + 8192, 64));
}
static int wait_read(struct scene *c) {
    return told(c, rdmad_read(c->there, 0, c->memory + 8192, 64));
}
static int wait_writev(struct scene *c) {
    struct rdmad_segment parts[2] = {{c->memory + 8192, 64, 0}, {c->memory + 16384, 64, 64}};
    return told(c, rdmad_writev(c->there, parts, 2));
}
static int wait_add(struct scene *c) {
    uint64_t old;
    return told(c, rdmad_fetch_add(c->there, 0, 1, &old));
}
static int wait_copy(struct scene *c) {
    char bytes[64] = "";
    return told(c, rdmad_write_copy(c->there, 0, bytes, sizeof(bytes)));
}
static int wait_send(struct scene *c) {
    return told(c, rdmad_send(c->channel, c->memory + 8192, 64));
}
static int wait_recv(struct scene *c) {
    return told(c, rdmad_recv(c->channel, c->memory + 8192, 64, -1, NULL));
}
static int wait_notified(struct scene *c) {
    return told(c, rdmad_wait_notified(c->own, -1, NULL, NULL));
}
static int wait_accept(struct scene *c) {
    rdmad_channel *channel;
    return told(c, rdmad_accept(c->service, NULL, -1, &channel));
}

static void submit_write(struct scene *c, rdmad_callback *callback) {
    struct rdmad_sqe *e = rdmad_ring_reserve(c->ring);
    CHECK(e && !rdmad_prep_write(c->ring, e, c->there, 0, c->memory + 8192, 64, 1), "%s",
          rdmad_last_error(c->s));
    if (callback)
        CHECK(!rdmad_sqe_set_callback(c->ring, e, callback, c), "%s", rdmad_last_error(c->s));
    CHECK(rdmad_ring_submit(c->ring) == 1, "%s", rdmad_last_error(c->s));
}

static int ended_with(struct scene *c, const struct rdmad_cqe *cqe) {
    c->outcome = cqe->outcome;
    rdmad_ring_explain(c->ring, cqe, c->said, sizeof(c->said));
    return cqe->status;
}

static int wait_at_ring(struct scene *c) {
    const struct rdmad_cqe *cqe;
    submit_write(c, NULL);
    CHECK(!rdmad_ring_wait(c->ring, -1, &cqe), "%s", rdmad_last_error(c->s));
    int status = ended_with(c, cqe);
    rdmad_ring_seen(c->ring, cqe);
    return status;
}

static int status_called;
static void called(void *arg, const struct rdmad_cqe *cqe) {
    status_called = ended_with(arg, cqe);
}
static int wait_dispatch(struct scene *c) {
    submit_write(c, called);
    CHECK(rdmad_ring_dispatch(c->ring, -1, 0) == 1, "%s", rdmad_last_error(c->s));
    return status_called;
}

static int wait_cancel(struct scene *c) {
    struct rdmad_cqe cqe;
    submit_write(c, NULL);
    CHECK(!rdmad_ring_cancel(c->ring, 1, &cqe), "%s", rdmad_last_error(c->s));
    return ended_with(c, &cqe);
}

enum { NOT_AN_OP = -1 };

static const struct wait {
    int (*call)(struct scene *c);
    int outcome;
    bool before; /* it waits already when the daemon hangs */
    const char *words;
} waits[] = {
    {wait_write, RDMAD_UNKNOWN, false, "rdmad_write"},
    {wait_read, RDMAD_FAILED_PARTIAL, false, "rdmad_read"},
    {wait_writev, RDMAD_UNKNOWN, false, "rdmad_writev"},
    {wait_add, RDMAD_UNKNOWN, false, "rdmad_fetch_add"},
    {wait_copy, RDMAD_UNKNOWN, false, "rdmad_write_copy"},
    {wait_send, RDMAD_UNKNOWN, false, "rdmad_send"},
    {wait_recv, RDMAD_FAILED_PARTIAL, true, "rdmad_recv"},
    {wait_recv, RDMAD_FAILED_PARTIAL, false, "rdmad_recv of a daemon that hangs"},
    {wait_notified, RDMAD_UNKNOWN, true, "rdmad_wait_notified"},
    {wait_accept, NOT_AN_OP, true, "rdmad_accept"},
    {wait_at_ring, RDMAD_UNKNOWN, false, "rdmad_ring_wait"},
    {wait_dispatch, RDMAD_UNKNOWN, false, "rdmad_ring_dispatch"},
    {wait_cancel, RDMAD_UNKNOWN, false, "rdmad_ring_cancel"},
};
enum { WAITS = sizeof(waits) / sizeof(waits[0]) };

/* ---- its client ---------------------------------------------------------------------------- */

static bool connect_far(struct scene *c) {
    char uri[RDMAD_URI_MAX + 1];
    int rc;
    snprintf(uri, sizeof(uri), "rdmad://%s/far", tdaemon_listen(daemon_of_all));
    for (uint64_t since = now_ms();
         (rc = rdmad_connect(c->s, uri, RDMAD_CHANNEL_RELIABLE, 0, &c->channel)) &&
         rc != RDMAD_E_TIMEOUT && rc != RDMAD_E_DAEMON_LOST;
         sleep_ms(10))
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "%s", rdmad_last_error(c->s));
    return hang_done(rc);
}

/* Blocking calls have made their rings, and the pool for copies. */
static bool warm_up(struct scene *c) {
    char bytes[64] = "";
    return hang_done(rdmad_write(c->there, 0, c->memory + 8192, 64)) &&
           hang_done(rdmad_write_copy(c->there, 0, bytes, sizeof(bytes))) &&
           rdmad_wait_notified(c->own, 0, NULL, NULL) == RDMAD_E_TIMEOUT;
}

static bool scene_try(struct scene *c, int64_t call_timeout_ms, unsigned number) {
    static unsigned tries; /* what was lost may have its name for a moment more */
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    char name[32];
    terms.ttl_ms = 3600000;
    terms.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE | RDMAD_RIGHT_ATOMIC;
    snprintf(name, sizeof(name), "service-%u-%u", number, tries++);
    c->s = NULL;
    if (!hang_done(open_patient(daemon_of_all, call_timeout_ms, &c->s)) ||
        !hang_done(rdmad_pool_create(c->s, POOL, 0, &c->pool)))
        return false;
    c->memory = rdmad_pool_base(c->pool);
    return hang_done(rdmad_lease_grant(c->s, c->memory, 4096, &terms, &c->own)) &&
           hang_done(rdmad_lease_attach(c->s, rdmad_lease_uri(c->own), 0, &c->there)) &&
           hang_done(rdmad_ring_create(c->s, 8, &c->ring)) &&
           hang_done(rdmad_listen(c->s, name, NULL, &c->service)) && warm_up(c);
}

static void say_ready(void) {
    CHECK(write(ready[1], "", 1) == 1, "the test has gone");
}

static void await_hang(void) {
    char none;
    CHECK(read(after[0], &none, 1) == 0, "the test has gone");
}

/* Ended typed, in time, and said why. */
static void expect_ended(const struct wait *w, const struct scene *c, int rc, uint64_t took) {
    CHECK(rc == RDMAD_E_DAEMON_LOST, "%s: %s: %s", w->words, rdmad_errname(rc), c->said);
    CHECK(strstr(c->said, "said nothing for 600 ms"), "%s: %s", w->words, c->said);
    CHECK(w->outcome == NOT_AN_OP || c->outcome == w->outcome, "%s: outcome %d", w->words,
          c->outcome);
    CHECK(took >= PATIENCE - 10 && took < 2 * PATIENCE + TEST_PATIENCE_MS, "%s took %lu ms",
          w->words, (unsigned long)took);
}

static void wait_and_end(void *arg) {
    const struct wait *w = arg;
    struct scene c = {.s = NULL};
    close(after[1]);
    for (unsigned tries = 0; !scene_try(&c, PATIENCE, (unsigned)(w - waits)) || !connect_far(&c);)
        hang_again(c.s, &tries);
    say_ready();
    if (!w->before)
        await_hang();
    uint64_t since = now_ms();
    int rc = w->call(&c);
    expect_ended(w, &c, rc, now_ms() - since);
    struct rdmad_event e = client_event(c.s, RDMAD_EVENT_SESSION_LOST);
    CHECK(e.reason == RDMAD_E_TIMEOUT, "%s: %s", w->words, rdmad_errname(e.reason));
    CHECK(!rdmad_buf_lock_write(c.pool, c.memory, POOL, 0), "%s: %s", w->words,
          rdmad_last_error(c.s));
    since = now_ms();
    rdmad_buf_unlock_write(c.pool, c.memory, POOL);
    rdmad_close(c.s);
    CHECK(now_ms() - since < TEST_PATIENCE_MS, "%s: what came after it waited", w->words);
}

/* ---- the other ends ------------------------------------------------------------------------ */

static bool hangs_now(void) {
    struct pollfd p = {.fd = after[0], .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* One for each client, and one for each that had to try again. */
static void accept_all(void *unused) {
    rdmad_session *s = client_open(daemon_of_all);
    rdmad_service *service;
    rdmad_channel *channel;
    unsigned count = 0;
    (void)unused;
    close(after[1]);
    CHECK(!rdmad_listen(s, "far", NULL, &service), "%s", rdmad_last_error(s));
    while (!hangs_now()) {
        int rc = rdmad_accept(service, NULL, 20, &channel);
        CHECK(!rc || rc == RDMAD_E_TIMEOUT, "%s", rdmad_last_error(s));
        count += rc == 0;
    }
    CHECK(count >= WAITS, "%u channels", count);
    while (count-- > 0)
        (void)client_event(s, RDMAD_EVENT_CHANNEL_CLOSED);
    rdmad_close(s);
}

static void await_ready(void) {
    struct pollfd p = {.fd = ready[0], .events = POLLIN};
    char one;
    CHECK(poll(&p, 1, (int)TEST_PATIENCE_MS) == 1 && read(ready[0], &one, 1) == 1,
          "a client is not ready");
}

static void expect_all_ended(const pid_t client[WAITS]) {
    uint64_t since = now_ms();
    for (unsigned i = 0; i < WAITS; i++) {
        while (client_running(client[i]) && now_ms() - since < 2 * PATIENCE + TEST_PATIENCE_MS)
            sleep_ms(1);
        CHECK(!client_running(client[i]), "%s waits for a daemon that hangs", waits[i].words);
        client_expect_ok(client[i]);
    }
}

/* Each a process with a session of its own; they end at once. */
static void waits_at_a_daemon_that_hangs_end_and_leave_nothing_behind(void) {
    pid_t client[WAITS];
    daemon_of_all = tdaemon_start("127.0.0.1", NULL);
    json_t *before = tdaemon_objects(daemon_of_all);
    CHECK(!pipe(ready) && !pipe(after), "pipes");
    pid_t other = client_fork(accept_all, NULL);
    for (unsigned i = 0; i < WAITS; i++) {
        client[i] = client_fork(wait_and_end, (void *)(uintptr_t)&waits[i]);
        await_ready();
    }
    hang(daemon_of_all);
    close(after[1]);
    expect_all_ended(client);
    go_on(daemon_of_all);
    client_expect_ok(other);
    tdaemon_expect_objects(daemon_of_all, before);
    tdaemon_stop(daemon_of_all);
}

/* ---- a daemon that does not hang ----------------------------------------------------------- */

/* Waits for what does not come, for so long. Whether it has lost nothing by that. */
static bool wait_in_vain(struct scene *c, int64_t call_timeout_ms, int timeout_ms) {
    bool up = scene_try(c, call_timeout_ms, 0);
    say_ready();
    if (!up)
        return false;
    int rc = rdmad_wait_notified(c->own, timeout_ms, NULL, NULL);
    return (rc == RDMAD_E_TIMEOUT || hang_done(rc)) &&
           hang_done(rdmad_write(c->there, 0, c->memory + 8192, 64));
}

static unsigned refusals(void) {
    json_t *said = tdaemon_call(daemon_of_all, "events", NULL);
    const json_t *events = json_object_get(said, "events");
    unsigned count = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *what = json_object_get(json_array_get(events, i), "what");
        count += !strcmp(json_string_value(what), "refused");
    }
    json_decref(said);
    return count;
}

/* What the library asks meanwhile, of which the daemon must not think that it refused it. */
static void a_daemon_that_has_nothing_to_say_is_waited_for(void) {
    daemon_of_all = tdaemon_start("127.0.0.1", NULL);
    struct scene c;
    CHECK(!pipe(ready), "a pipe");
    for (unsigned tries = 0; !wait_in_vain(&c, PATIENCE, 3 * PATIENCE + 100);)
        hang_again(c.s, &tries);
    rdmad_close(c.s);
    CHECK(refusals() == 0, "%u refusals of who has waited", refusals());
    tdaemon_stop(daemon_of_all);
}

static void what_older_libraries_ask_is_no_refusal(void) {
    struct rdmad_lease_stat_req none = {.lease = 0}, wrong = {.lease = 4711};
    struct raw_packet reply;
    daemon_of_all = tdaemon_start("127.0.0.1", NULL);
    int sock = raw_session(tdaemon_dir(daemon_of_all));
    int rc = raw_request(sock, RDMAD_MSG_LEASE_STAT, &none, sizeof(none), &reply);
    CHECK(rc == RDMAD_E_NO_LEASE, "they take nothing else, this is %s", rdmad_errname(rc));
    CHECK(refusals() == 0, "%u refusals of a sign of life", refusals());
    rc = raw_request(sock, RDMAD_MSG_LEASE_STAT, &wrong, sizeof(wrong), &reply);
    CHECK(rc == RDMAD_E_NO_LEASE && refusals() == 1, "a guess is not remembered");
    close(sock);
    tdaemon_stop(daemon_of_all);
}

enum { LONGER = 1200 };

static void *waits_longer(void *arg) {
    struct scene *c = arg;
    c->outcome = wait_in_vain(c, LONGER, 2 * LONGER + 400);
    return NULL;
}

/* Whether who waits has lost nothing by that. */
static bool stop_for_less(struct scene *c) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, waits_longer, c), "no thread");
    await_ready();
    sleep_ms(LONGER - 300);
    hang(daemon_of_all);
    sleep_ms(LONGER / 2);
    go_on(daemon_of_all);
    pthread_join(thread, NULL);
    return c->outcome;
}

/* It is asked while it is stopped, and answers when it goes on. */
static void a_daemon_that_is_stopped_for_less_costs_a_pause(void) {
    struct scene c;
    daemon_of_all = tdaemon_start("127.0.0.1", NULL);
    CHECK(!pipe(ready), "a pipe");
    for (unsigned tries = 0; !stop_for_less(&c);)
        hang_again(c.s, &tries);
    rdmad_close(c.s);
    tdaemon_stop(daemon_of_all);
}

TEST_MAIN(CASE(waits_at_a_daemon_that_hangs_end_and_leave_nothing_behind),
          CASE(a_daemon_that_has_nothing_to_say_is_waited_for),
          CASE(what_older_libraries_ask_is_no_refusal),
          CASE(a_daemon_that_is_stopped_for_less_costs_a_pause))
