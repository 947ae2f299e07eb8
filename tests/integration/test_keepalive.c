/* SPDX-License-Identifier: MIT */
/*
 * test_keepalive.c - the program at the other end of a channel is stopped, or hangs, while its
 * daemon lives: who asked for it is told in bounded time, and told when it goes on. A program that
 * only waits is never taken for one.
 */
#include "tests/support/client.h"
#include "tests/support/procs.h"
#include "tests/support/runner.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define OK(call, s)                                          \
    do {                                                     \
        int rc_ = (call);                                    \
        CHECK(rc_ == 0, "%d: %s", rc_, rdmad_last_error(s)); \
    } while (0)

enum { SHORT_MS = 500 };

/* ---- the other end: a process that echoes -----------------------------------------------------
 */

struct echo {
    struct tdaemon *d;
    const char *service;
    bool by_loop; /* waits in an event loop; else in rdmad_recv */
    int expected; /* with which its channel ends */
    pid_t pid;
};

static void echo_by_calls(rdmad_session *s, rdmad_channel *c, char *buf, int expected) {
    int rc;
    while ((rc = rdmad_recv(c, buf, 64, -1, NULL)) == 0) {
        rc = rdmad_send(c, buf, 64);
        CHECK(rc == 0 || rc == RDMAD_E_PEER_LOST, "%d: %s", rc, rdmad_last_error(s));
    }
    CHECK(rc == expected, "the channel ended with %d: %s", rc, rdmad_last_error(s));
}

static void post_recv(rdmad_ring *r, rdmad_channel *c, char *buf) {
    struct rdmad_sqe *e = rdmad_ring_reserve(r);
    CHECK(e, "no entry");
    CHECK(rdmad_prep_recv(r, e, c, buf, 64, 0) == 0, "prep");
    CHECK(rdmad_ring_submit(r) >= 0, "submit");
}

/* What the header asks of an event loop, and nothing else. */
static void echo_by_loop(rdmad_session *s, rdmad_channel *c, char *buf, int expected) {
    rdmad_ring *r = client_ring(s, 8);
    struct epoll_event e = {.events = EPOLLIN};
    const struct rdmad_cqe *cqe;
    int loop = epoll_create1(EPOLL_CLOEXEC), status = 0;
    CHECK(epoll_ctl(loop, EPOLL_CTL_ADD, rdmad_ring_fd(r), &e) == 0, "epoll");
    post_recv(r, c, buf);
    while (!status) {
        while (rdmad_ring_peek(r, &cqe) == 0) {
            status = cqe->status;
            rdmad_ring_seen(r, cqe);
            if (!status) {
                OK(rdmad_send(c, buf, 64), s);
                post_recv(r, c, buf);
            }
        }
        if (!status && rdmad_ring_arm(r) == 0)
            epoll_wait(loop, &e, 1, -1);
    }
    CHECK(status == expected, "the channel ended with %d", status);
}

static void echo_run(void *arg) {
    const struct echo *e = arg;
    rdmad_pool *pool;
    rdmad_service *service;
    rdmad_channel *c;
    rdmad_session *s = client_with_pool(e->d, 1 << 20, &pool);
    char *buf = rdmad_alloc(pool, 64);
    OK(rdmad_listen(s, e->service, NULL, &service), s);
    OK(rdmad_accept(service, NULL, -1, &c), s);
    (e->by_loop ? echo_by_loop : echo_by_calls)(s, c, buf, e->expected);
    rdmad_close(s);
}

/* ---- this end ---------------------------------------------------------------------------------
 */

static rdmad_channel *connect_to(rdmad_session *s, struct echo *e) {
    char uri[RDMAD_URI_MAX + 1];
    rdmad_channel *c = NULL;
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    e->pid = client_fork(echo_run, e);
    snprintf(uri, sizeof(uri), "rdmad://%s/%s", tdaemon_listen(e->d), e->service);
    int rc;
    while ((rc = rdmad_connect(s, uri, RDMAD_CHANNEL_RELIABLE, 0, &c)) && now_ms() < until)
        sleep_ms(20); /* until it listens */
    OK(rc, s);
    return c;
}

/* A message there and back: it is served. */
static void echoes(rdmad_session *s, rdmad_channel *c, char *buf) {
    OK(rdmad_send(c, buf, 64), s);
    OK(rdmad_recv(c, buf, 64, (int)TEST_PATIENCE_MS, NULL), s);
}

static void expect_no_event(rdmad_session *s, int ms) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    int rc = rdmad_next_event(s, ms, &e);
    CHECK(rc == RDMAD_E_TIMEOUT, "event %u: %s", e.type, e.text);
}

/* A program that a busy machine does not run for so long is silent: when all are heard again, it is
 * tried again. */
static void expect_quiet(rdmad_session *s, int ms, rdmad_channel *const *channels, unsigned n,
                         char *buf) {
    enum { TRIES = 5 };
    struct rdmad_event e = RDMAD_EVENT_INIT;
    for (unsigned tries = 1; rdmad_next_event(s, ms, &e) != RDMAD_E_TIMEOUT; tries++) {
        CHECK(tries < TRIES, "event %u: %s", e.type, e.text);
        for (unsigned i = 0; i < n; i++)
            echoes(s, channels[i], buf);
        while (rdmad_next_event(s, 100, &e) == 0)
            ;
    }
}

/* One of that type for each channel, in any order. Returns when the first came. */
static uint64_t expect_each(rdmad_session *s, unsigned type, rdmad_channel *const *channels,
                            unsigned n) {
    unsigned seen = 0;
    uint64_t first = 0;
    for (unsigned i = 0; i < n; i++) {
        struct rdmad_event e = client_event(s, type);
        first = first ? first : now_ms();
        for (unsigned k = 0; k < n; k++)
            if (e.channel == channels[k])
                seen |= 1u << k;
    }
    CHECK(seen == (1u << n) - 1, "type %u came of channels 0x%x of %u", type, seen, n);
    return first;
}

static void who_waits_is_not_silent_who_is_stopped_is(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    /* A busy machine must not make a program look as if it were stopped. */
    const unsigned ms = 2000 * test_patience();
    struct echo echo[] = {
        {.d = a, .service = "near-calls", .expected = RDMAD_E_CLOSED},
        {.d = a, .service = "near-loop", .by_loop = true, .expected = RDMAD_E_CLOSED},
        {.d = b, .service = "far-calls", .expected = RDMAD_E_CLOSED},
        {.d = b, .service = "far-loop", .by_loop = true, .expected = RDMAD_E_CLOSED}};
    enum { N = sizeof(echo) / sizeof(*echo) };
    rdmad_channel *c[N];
    rdmad_pool *pool;
    rdmad_session *s = client_with_pool(a, 1 << 20, &pool);
    char *buf = rdmad_alloc(pool, 64);
    for (unsigned i = 0; i < N; i++) {
        c[i] = connect_to(s, &echo[i]);
        OK(rdmad_channel_keepalive(c[i], ms, 0), s);
        echoes(s, c[i], buf);
    }
    expect_quiet(s, (int)(ms * 3 / 2), c, N, buf); /* all that they do is to wait */
    uint64_t stopped = now_ms();
    for (unsigned i = 0; i < N; i++)
        process_stop(echo[i].pid);
    uint64_t took = expect_each(s, RDMAD_EVENT_CHANNEL_SILENT, c, N) - stopped;
    CHECK(took >= ms / 4, "it was over after %lu ms", (unsigned long)took);
    for (unsigned i = 0; i < N; i++)
        process_go_on(echo[i].pid);
    expect_each(s, RDMAD_EVENT_CHANNEL_HEARD, c, N);
    for (unsigned i = 0; i < N; i++) {
        echoes(s, c[i], buf);
        OK(rdmad_channel_close(c[i]), s);
        client_expect_ok(echo[i].pid);
    }
    rdmad_close(s);
    tdaemon_stop(a);
    tdaemon_stop(b);
}

/* Its other threads, the library's among them, run on. */
static void who_hangs_is_silent(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    struct echo echo = {.d = b, .service = "hangs", .by_loop = true, .expected = RDMAD_E_CLOSED};
    rdmad_pool *pool;
    rdmad_session *s = client_with_pool(a, 1 << 20, &pool);
    rdmad_channel *c = connect_to(s, &echo);
    char *buf = rdmad_alloc(pool, 64);
    echoes(s, c, buf);
    OK(rdmad_channel_keepalive(c, SHORT_MS, 0), s);
    pid_t thread = thread_stop(echo.pid, NULL);
    expect_each(s, RDMAD_EVENT_CHANNEL_SILENT, &c, 1);
    thread_go_on(thread);
    expect_each(s, RDMAD_EVENT_CHANNEL_HEARD, &c, 1);
    echoes(s, c, buf);
    /* Whoever wants it no more hears nothing. */
    OK(rdmad_channel_keepalive(c, 0, 0), s);
    while (rdmad_next_event(s, 0, &(struct rdmad_event)RDMAD_EVENT_INIT) == 0)
        ; /* on a busy machine it may have been silent once more */
    process_stop(echo.pid);
    expect_no_event(s, 3 * SHORT_MS);
    process_go_on(echo.pid);
    OK(rdmad_channel_close(c), s);
    client_expect_ok(echo.pid);
    rdmad_close(s);
    tdaemon_stop(a);
    tdaemon_stop(b);
}

static void ends_with(struct tdaemon *a, struct tdaemon *b) {
    struct echo echo = {.d = b, .service = "given-up", .expected = RDMAD_E_CANCELED};
    rdmad_pool *pool;
    rdmad_session *s = client_with_pool(a, 1 << 20, &pool);
    rdmad_channel *c = connect_to(s, &echo);
    char *buf = rdmad_alloc(pool, 64);
    echoes(s, c, buf);
    OK(rdmad_channel_keepalive(c, SHORT_MS, RDMAD_KEEPALIVE_ENDS), s);
    process_stop(echo.pid);
    int rc = rdmad_recv(c, buf, 64, -1, NULL);
    CHECK(rc == RDMAD_E_TIMEOUT, "a receive that waits without end ended with %d: %s", rc,
          rdmad_last_error(s));
    struct rdmad_event e = client_event(s, RDMAD_EVENT_CHANNEL_CLOSED);
    CHECK(e.reason == RDMAD_E_TIMEOUT && strstr(e.text, "no sign of life"), "%d: %s", e.reason,
          e.text);
    OK(rdmad_channel_close(c), s);
    process_go_on(echo.pid); /* and sees that it was given up */
    client_expect_ok(echo.pid);
    rdmad_close(s);
}

static void the_channel_ends_if_that_was_chosen(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    ends_with(a, b);
    ends_with(a, a);
    tdaemon_stop(a);
    tdaemon_stop(b);
}

static void it_goes_on_with_the_next_daemon(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    struct echo echo = {.d = b, .service = "lasting", .expected = RDMAD_E_CLOSED};
    rdmad_pool *pool;
    rdmad_session *s = client_with_pool(a, 1 << 20, &pool);
    rdmad_channel *c = connect_to(s, &echo);
    char *buf = rdmad_alloc(pool, 64);
    struct rdmad_event e = RDMAD_EVENT_INIT;
    echoes(s, c, buf);
    OK(rdmad_channel_keepalive(c, SHORT_MS, 0), s);
    tdaemon_kill(a);
    tdaemon_restart(a);
    CHECK(rdmad_next_event(s, (int)TEST_PATIENCE_MS, &e) == 0, "no event");
    if (e.type != RDMAD_EVENT_SESSION_RESUMED)
        skip("the session does not outlive its daemon here: %s", e.text);
    process_stop(echo.pid);
    expect_each(s, RDMAD_EVENT_CHANNEL_SILENT, &c, 1);
    process_go_on(echo.pid);
    expect_each(s, RDMAD_EVENT_CHANNEL_HEARD, &c, 1);
    echoes(s, c, buf);
    OK(rdmad_channel_close(c), s);
    client_expect_ok(echo.pid);
    rdmad_close(s);
    tdaemon_stop(a);
    tdaemon_stop(b);
}

static void what_makes_no_sense_is_refused(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL);
    struct echo echo = {.d = a, .service = "refused", .expected = RDMAD_E_CLOSED};
    rdmad_session *s = client_open(a);
    rdmad_channel *c = connect_to(s, &echo);
    client_refused(s, rdmad_channel_keepalive(c, 499, 0), RDMAD_E_RANGE, "at least 500 ms");
    client_refused(s, rdmad_channel_keepalive(c, 3600001, 0), RDMAD_E_RANGE, "at most 3600000 ms");
    client_refused(s, rdmad_channel_keepalive(c, UINT64_MAX, 0), RDMAD_E_RANGE, "too long");
    client_refused(s, rdmad_channel_keepalive(c, 1000, 2), RDMAD_E_INVAL, "RDMAD_KEEPALIVE_ENDS");
    OK(rdmad_channel_close(c), s);
    client_expect_ok(echo.pid);
    rdmad_close(s);
    tdaemon_stop(a);
}

TEST_MAIN(CASE(who_waits_is_not_silent_who_is_stopped_is), CASE(who_hangs_is_silent),
          CASE(the_channel_ends_if_that_was_chosen), CASE(it_goes_on_with_the_next_daemon),
          CASE(what_makes_no_sense_is_refused))
