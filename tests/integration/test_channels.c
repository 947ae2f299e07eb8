/* SPDX-License-Identifier: MIT */
/*
 * test_channels.c - services and channels between real clients of one daemon and of two: how they
 * come about, how they do not, and how they end. Whatever happens, both daemons are back to what
 * they held before.
 */
#include "tests/support/client.h"
#include "tests/support/hang.h"

#include <pthread.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POOL (1u << 20)

/* The daemon of the service, and of who connects: one, or two. */
static struct tdaemon *db, *da;
static json_t *before_b, *before_a;
static rdmad_session *b;
static rdmad_service *service;
static char uri[RDMAD_URI_MAX + 1];

static void *buffer_of(rdmad_session *s) {
    rdmad_pool *pool;
    CHECK(!rdmad_pool_create(s, POOL, 0, &pool), "%s", rdmad_last_error(s));
    return rdmad_pool_base(pool);
}

static json_t *lasting_objects(struct tdaemon *d) {
    return da != db ? tdaemon_objects_of_clients(d) : tdaemon_objects(d);
}

/* config: the settings of b's daemon, or NULL. */
static void up_with(const char *config, int64_t call_timeout_ms, bool two, uint32_t backlog) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    terms.backlog = backlog;
    db = tdaemon_start("127.0.0.1", config ? (const char *[]){"--config", config, NULL} : NULL);
    da = two ? tdaemon_start("127.0.0.2", NULL) : db;
    before_b = lasting_objects(db);
    before_a = lasting_objects(da);
    CHECK(!open_patient(db, call_timeout_ms, &b), "%s", rdmad_last_error(NULL));
    CHECK(!rdmad_listen(b, "here", &terms, &service), "%s", rdmad_last_error(b));
    snprintf(uri, sizeof(uri), "%s", rdmad_service_uri(service));
}

static void up(bool two, uint32_t backlog) {
    up_with(NULL, 0, two, backlog);
}

static void down(void) {
    if (b)
        rdmad_close(b);
    b = NULL;
    tdaemon_expect_objects(db, before_b);
    tdaemon_expect_objects(da, before_a);
    if (da != db)
        tdaemon_stop(da);
    tdaemon_stop(db);
}

/* Each case on one daemon and between two. */
static void both(void (*run)(void)) {
    for (int two = 0; two < 2; two++) {
        up(two, 0);
        run();
        down();
    }
}

/* ---- who connects, in a thread ----------------------------------------------------------------
 */

struct caller {
    pthread_t thread;
    rdmad_session *session;
    rdmad_channel *channel;
    const char *to;
    int timeout_ms;
    unsigned kind;
    int rc;
    char why[RDMAD_TEXT_MAX + 1];
};

static void *calling(void *arg) {
    struct caller *c = arg;
    c->rc = rdmad_connect(c->session, c->to, c->kind, c->timeout_ms, &c->channel);
    if (c->rc)
        snprintf(c->why, sizeof(c->why), "%s", rdmad_last_error(c->session));
    return NULL;
}

static void call(struct caller *c, int timeout_ms) {
    *c = (struct caller){.session = client_open(da), .to = uri, .timeout_ms = timeout_ms};
    CHECK(!pthread_create(&c->thread, NULL, calling, c), "no thread");
}

static void called(struct caller *c) {
    pthread_join(c->thread, NULL);
}

static void expect_refused(struct caller *c, int code, const char *words) {
    called(c);
    CHECK(c->rc == code && strstr(c->why, words), "%s: %s", rdmad_errname(c->rc), c->why);
    rdmad_close(c->session);
}

static struct rdmad_incoming incoming(void) {
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    CHECK(!rdmad_next_incoming(service, (int)TEST_PATIENCE_MS, &who), "%s", rdmad_last_error(b));
    return who;
}

static rdmad_channel *accept_next(void) {
    rdmad_channel *ch;
    CHECK(!rdmad_accept(service, NULL, (int)TEST_PATIENCE_MS, &ch), "%s", rdmad_last_error(b));
    return ch;
}

/* A channel, whose ends are told in at and returned. */
static rdmad_channel *open_channel(struct caller *c) {
    call(c, 0);
    rdmad_channel *at_b = accept_next();
    called(c);
    CHECK(!c->rc, "%s", c->why);
    return at_b;
}

/* ---- how they come about ----------------------------------------------------------------------
 */

static json_t *only_row(struct tdaemon *d, const char *method, const char *list, size_t rows) {
    json_t *answer = tdaemon_call(d, method, NULL), *found = json_object_get(answer, list);
    CHECK(json_array_size(found) == rows, "%zu rows of %s", json_array_size(found), method);
    json_t *row = json_incref(json_array_get(found, 0));
    json_decref(answer);
    return row;
}

static const char *text_of(const json_t *row, const char *key) {
    const char *text = json_string_value(json_object_get(row, key));
    CHECK(text, "no %s is shown", key);
    return text;
}

static void await_waiting(json_int_t want) {
    json_int_t n;
    do {
        sleep_ms(2);
        json_t *row = only_row(db, "service.show", "services", 1);
        n = json_integer_value(json_object_get(row, "waiting"));
        json_decref(row);
    } while (n != want);
}

static void see_each_other(void) {
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    struct caller c;
    call(&c, 0);
    struct rdmad_incoming who = incoming();
    bool far = da != db;
    CHECK(who.uid == getuid() && who.kind == RDMAD_CHANNEL_RELIABLE && who.node[0], "not so");
    CHECK(far ? !strcmp(who.address, tdaemon_listen(da)) : !who.address[0], "it is at %s",
          who.address);

    rdmad_channel *at_b;
    CHECK(!rdmad_accept(service, &who, 0, &at_b), "%s", rdmad_last_error(b));
    called(&c);
    CHECK(!c.rc, "%s", c.why);
    rdmad_channel_get_info(c.channel, &info);
    CHECK(info.flags == who.flags && info.flags == (far ? 0 : RDMAD_PEER_PROVEN),
          "a name that no certificate proves: %u and %u", info.flags, (unsigned)who.flags);
    CHECK(info.peer_uid == getuid() && info.kind == RDMAD_CHANNEL_RELIABLE, "not so");
    CHECK(!strcmp(info.fabric, far ? test_fabric() : "local"), "by %s", info.fabric);
    CHECK(far ? !strcmp(info.peer_address, tdaemon_listen(db)) : !info.peer_address[0],
          "the service is at %s", info.peer_address);

    json_t *row = only_row(db, "channel.show", "channels", far ? 1 : 2);
    CHECK(!strcmp(text_of(row, "service"), "here") && !strcmp(text_of(row, "state"), "open") &&
              !strcmp(text_of(row, "route"), far ? "link" : "local"),
          "not so");
    json_decref(row);
    row = only_row(db, "service.show", "services", 1);
    CHECK(!strcmp(text_of(row, "name"), "here") &&
              json_integer_value(json_object_get(row, "accepted")) == 1,
          "not so");
    json_decref(row);
    rdmad_channel_close(c.channel);
    rdmad_channel_close(at_b);
    rdmad_close(c.session);
}

static void who_connects_and_who_accepts_see_each_other(void) {
    both(see_each_other);
}

/* A kind that the fabric has not is told, not pretended. */
static void other_kinds(void) {
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    for (unsigned kind = RDMAD_CHANNEL_DATAGRAM; kind <= RDMAD_CHANNEL_UNACKED; kind++) {
        struct caller c = {.session = client_open(da), .to = uri, .kind = kind};
        CHECK(!pthread_create(&c.thread, NULL, calling, &c), "no thread");
        rdmad_channel *at_b = accept_next();
        called(&c);
        CHECK(!c.rc, "%s", c.why);
        rdmad_channel_get_info(c.channel, &info);
        bool has = da != db && !strcmp(test_fabric(), "verbs");
        CHECK(info.kind == (has ? kind : RDMAD_CHANNEL_RELIABLE), "it is of kind %u", info.kind);
        rdmad_channel_abort(at_b);
        rdmad_channel_abort(c.channel);
        rdmad_close(c.session);
    }
}

static void a_kind_that_is_not_there_becomes_reliable_and_says_so(void) {
    both(other_kinds);
}

/* ---- how they do not --------------------------------------------------------------------------
 */

static void reject(void) {
    struct caller c;
    call(&c, 0);
    struct rdmad_incoming who = incoming();
    CHECK(!rdmad_reject(service, &who, "come back on Monday"), "%s", rdmad_last_error(b));
    expect_refused(&c, RDMAD_E_REFUSED, "come back on Monday");
    CHECK(rdmad_reject(service, &who, NULL) == RDMAD_E_HANDLE, "it was answered");
}

static void a_rejected_one_reads_why(void) {
    both(reject);
}

static void mistakes(void) {
    static char other[RDMAD_URI_MAX + 16];
    struct caller c = {.session = client_open(da)};
    snprintf(other, sizeof(other), "%sx", uri);
    c.to = other;
    calling(&c);
    CHECK(c.rc == RDMAD_E_NO_SERVICE && strstr(c.why, "\"herex\""), "%s", c.why);

    rdmad_lease *lease;
    int rc = rdmad_lease_attach(c.session, uri, 0, &lease);
    CHECK(rc == RDMAD_E_NO_LEASE && strstr(rdmad_last_error(c.session), "connect to it"), "%s",
          rdmad_last_error(c.session));
    rdmad_service *again;
    CHECK(rdmad_listen(b, "here", NULL, &again) == RDMAD_E_EXISTS, "the name is taken");
    rdmad_close(c.session);
}

static void names_that_are_something_else_say_so(void) {
    both(mistakes);
}

static void closed_service(void) {
    struct caller c;
    call(&c, 0);
    incoming();
    rdmad_service_close(service);
    expect_refused(&c, RDMAD_E_NO_SERVICE, "closed");
}

static void a_service_that_closes_refuses_who_waits(void) {
    both(closed_service);
}

static void impatient(void) {
    struct caller c;
    call(&c, 200);
    struct rdmad_incoming who = incoming();
    expect_refused(&c, RDMAD_E_TIMEOUT, "200 ms");
    rdmad_channel *ch;
    await_waiting(0); /* it has given up at the service, too */
    CHECK(rdmad_accept(service, &who, 1000, &ch) == RDMAD_E_HANDLE, "nobody waits any more");
}

static void nobody_waits_longer_than_he_said(void) {
    both(impatient);
}

static void the_backlog_is_a_bound(void) {
    for (int two = 0; two < 2; two++) {
        struct caller c[3];
        up(two, 2);
        call(&c[0], 0);
        call(&c[1], 0);
        await_waiting(2);
        call(&c[2], 0);
        expect_refused(&c[2], RDMAD_E_LIMIT, "backlog");
        for (int i = 0; i < 2; i++)
            rdmad_channel_abort(accept_next());
        for (int i = 0; i < 2; i++) {
            called(&c[i]);
            rdmad_close(c[i].session);
        }
        down();
    }
}

/* ---- how they end -----------------------------------------------------------------------------
 */

static void expect_closed(rdmad_session *s, int reason) {
    struct rdmad_event ev = RDMAD_EVENT_INIT;
    CHECK(!rdmad_next_event(s, (int)TEST_PATIENCE_MS, &ev), "%s", rdmad_last_error(s));
    CHECK(ev.type == RDMAD_EVENT_CHANNEL_CLOSED && ev.reason == reason, "event %u: %s: %s", ev.type,
          rdmad_errname(ev.reason), ev.text);
}

static void *sending(void *arg) {
    struct caller *c = arg;
    char *buffer = buffer_of(c->session);
    for (int i = 0; i < 100; i++) {
        memcpy(buffer, &i, sizeof(i));
        if ((c->rc = rdmad_send(c->channel, buffer, i % 2 ? 64 : 100000)))
            snprintf(c->why, sizeof(c->why), "%s", rdmad_last_error(c->session));
    }
    rdmad_channel_close(c->channel);
    return NULL;
}

static void graceful(void) {
    struct caller c;
    rdmad_channel *at_b = open_channel(&c);
    char *buffer = buffer_of(b);
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    CHECK(!pthread_create(&c.thread, NULL, sending, &c), "no thread");
    for (int i = 0; i < 100; i++) {
        int is;
        CHECK(!rdmad_recv(at_b, buffer, POOL, (int)TEST_PATIENCE_MS, &m), "%s",
              rdmad_last_error(b));
        memcpy(&is, buffer, sizeof(is));
        CHECK(is == i && m.length == (i % 2 ? 64 : 100000), "message %d is %d", i, is);
    }
    called(&c);
    CHECK(!c.rc, "%s", c.why);
    CHECK(rdmad_recv(at_b, buffer, POOL, (int)TEST_PATIENCE_MS, &m) == RDMAD_E_CLOSED, "more?");
    expect_closed(b, RDMAD_E_CLOSED);
    CHECK(rdmad_send(at_b, buffer, 1) == RDMAD_E_CLOSED, "nobody is there");
    rdmad_channel_close(at_b);
    rdmad_close(c.session);
}

static void a_graceful_close_loses_nothing(void) {
    both(graceful);
}

struct receiver {
    rdmad_session *session;
    rdmad_channel *channel;
    void *buffer;
    pthread_t thread;
    int rc;
    char why[RDMAD_TEXT_MAX + 1];
};

static void *hear_of_the_end(void *arg) {
    struct receiver *r = arg;
    r->rc = rdmad_recv(r->channel, r->buffer, POOL, -1, NULL);
    snprintf(r->why, sizeof(r->why), "%s", rdmad_last_error(r->session));
    return NULL;
}

/* As often as it takes to meet what overtakes what. */
static void session_closed(void) {
    void *buffer = buffer_of(b);

    for (unsigned i = 0; i < 10; i++) {
        struct caller c;
        struct receiver r = {.session = b, .channel = open_channel(&c), .buffer = buffer};
        CHECK(!pthread_create(&r.thread, NULL, hear_of_the_end, &r), "no thread");
        sleep_ms(20);
        rdmad_close(c.session);
        pthread_join(r.thread, NULL);
        CHECK(r.rc == RDMAD_E_CLOSED, "the receive ended with %s: %s", rdmad_errname(r.rc), r.why);
        expect_closed(b, RDMAD_E_CLOSED);
        rdmad_channel_close(r.channel);
    }
}

static void who_closes_the_session_has_closed_its_channels(void) {
    both(session_closed);
}

/* The daemon hears that they are closed, too, when the client that said so takes no answers. */
static void many_closed(void) {
    enum { MANY = 250 };
    struct caller c;
    rdmad_channel *at_b[MANY];
    at_b[0] = open_channel(&c);
    for (unsigned i = 1; i < MANY; i++) {
        CHECK(!pthread_create(&c.thread, NULL, calling, &c), "no thread");
        at_b[i] = accept_next();
        called(&c);
        CHECK(!c.rc, "%s", c.why);
    }
    rdmad_close(c.session);
    for (unsigned i = 0; i < MANY; i++)
        expect_closed(b, RDMAD_E_CLOSED);
    for (unsigned i = 0; i < MANY; i++)
        rdmad_channel_close(at_b[i]);
}

static void who_closes_a_session_of_many_channels_has_closed_each(void) {
    both(many_closed);
}

static void abrupt(void) {
    struct caller c;
    rdmad_channel *at_b = open_channel(&c);
    rdmad_channel_abort(at_b);
    expect_closed(c.session, RDMAD_E_CANCELED);
    rdmad_channel_close(c.channel);
    rdmad_close(c.session);
}

static void an_abrupt_close_is_told(void) {
    both(abrupt);
}

/* A client in a process of its own that connects, says so by a message, and then stays. */
static void stay_connected(void *arg) {
    struct caller c = {.session = client_open(arg), .to = uri};
    char *buffer = buffer_of(c.session);
    calling(&c);
    CHECK(!c.rc, "%s", c.why);
    rdmad_send(c.channel, buffer, 1);
    rdmad_recv(c.channel, buffer, POOL, -1, NULL);
}

static void killed_caller(void) {
    char *buffer = buffer_of(b);
    for (unsigned i = 0; i < test_count(100); i++) {
        pid_t pid = client_fork(stay_connected, da);
        rdmad_channel *at_b = accept_next();
        CHECK(!rdmad_recv(at_b, buffer, POOL, (int)TEST_PATIENCE_MS, NULL), "%s",
              rdmad_last_error(b));
        sleep_ms((unsigned)(test_random() % 3));
        client_kill(pid);
        expect_closed(b, RDMAD_E_CANCELED);
        int rc = rdmad_recv(at_b, buffer, POOL, 1000, NULL);
        CHECK(rc == RDMAD_E_CANCELED, "%s", rdmad_errname(rc));
        rdmad_channel_close(at_b);
    }
}

static void who_connected_may_be_killed(void) {
    both(killed_caller);
}

/* The service's client is a process of its own, who tells its URI by way of the page. */
static char *page;

static void serve_forever(void *arg) {
    rdmad_session *s = client_open(arg);
    rdmad_service *sv;
    rdmad_channel *ch;
    CHECK(!rdmad_listen(s, "there", NULL, &sv), "%s", rdmad_last_error(s));
    snprintf(page, 4096, "%s", rdmad_service_uri(sv));
    for (;;)
        rdmad_accept(sv, NULL, -1, &ch);
}

static pid_t serve_apart(void) {
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = client_fork(serve_forever, db);
    for (const volatile char *p = page; !*p;)
        sleep_ms(1);
    return pid;
}

static void killed_service(void) {
    for (unsigned i = 0; i < test_count(100); i++) {
        pid_t pid = serve_apart();
        struct caller c = {.session = client_open(da), .to = page};
        calling(&c);
        CHECK(!c.rc, "%s", c.why);
        sleep_ms((unsigned)(test_random() % 3));
        client_kill(pid);
        expect_closed(c.session, RDMAD_E_CANCELED);
        rdmad_channel_close(c.channel);
        rdmad_close(c.session);
        munmap(page, 4096);
    }
}

static void who_accepted_may_be_killed(void) {
    both(killed_service);
}

static void a_killed_daemon_ends_the_channels_of_the_other(void) {
    for (int whose = 0; whose < 2; whose++) {
        struct caller c;
        up(true, 0);
        rdmad_channel *at_b = open_channel(&c);
        if (whose == 0) {
            tdaemon_kill(da);
            expect_closed(b, RDMAD_E_PEER_LOST);
            rdmad_channel_close(at_b);
            rdmad_close(b);
            b = NULL;
            tdaemon_expect_objects(db, before_b);
            json_decref(before_a);
            rdmad_close(c.session);
        } else {
            tdaemon_kill(db);
            expect_closed(c.session, RDMAD_E_PEER_LOST);
            rdmad_channel_close(c.channel);
            rdmad_close(c.session);
            tdaemon_expect_objects(da, before_a);
            json_decref(before_b);
            rdmad_close(b);
            b = NULL;
        }
        tdaemon_restart(whose ? db : da);
        tdaemon_stop(da);
        tdaemon_stop(db);
    }
}

static void *receiving(void *arg) {
    struct caller *c = arg;
    c->rc = rdmad_recv(c->channel, buffer_of(c->session), POOL, -1, NULL);
    return NULL;
}

/* The daemon waits for long, and the session but shortly for the next one. */
static void up_to_be_stopped(void) {
    char path[128];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/patient.json", tmp ? tmp : "/tmp");
    FILE *f = fopen(path, "we");
    CHECK(f && fputs("{\"drain_timeout_ms\": 60000, \"peer\": {\"return_ms\": 5000}}\n", f) >= 0 &&
              !fclose(f),
          "%s", path);
    up_with(path, 3000, true, 0);
    unlink(path);
}

/* Receives that wait for something are nothing that a daemon waits for. */
static void a_daemon_that_stops_ends_its_channels_at_once(void) {
    struct caller c;
    up_to_be_stopped();
    struct caller at_b = {.session = b, .channel = open_channel(&c)};
    CHECK(!pthread_create(&c.thread, NULL, receiving, &c), "no thread");
    CHECK(!pthread_create(&at_b.thread, NULL, receiving, &at_b), "no thread");
    json_t *row;
    do {
        sleep_ms(2);
        row = only_row(db, "channel.show", "channels", 1);
    } while (json_integer_value(json_object_get(row, "receives_posted")) == 0 &&
             (json_decref(row), true));
    json_decref(row);
    uint64_t start = now_ms();
    tdaemon_stop(db);
    uint64_t took = now_ms() - start;
    CHECK(took < 20000, "stopping took %lu ms", (unsigned long)took);
    called(&c);
    called(&at_b);
    CHECK(c.rc == RDMAD_E_CANCELED || c.rc == RDMAD_E_PEER_LOST, "%s", rdmad_errname(c.rc));
    CHECK(at_b.rc == RDMAD_E_DAEMON_LOST || at_b.rc == RDMAD_E_SHUTDOWN ||
              at_b.rc == RDMAD_E_CANCELED,
          "%s", rdmad_errname(at_b.rc));
    expect_closed(c.session, c.rc);
    rdmad_channel_close(c.channel);
    rdmad_close(c.session);
    rdmad_close(b);
    tdaemon_expect_objects(da, before_a);
    json_decref(before_b);
    tdaemon_stop(da);
}

TEST_MAIN(CASE(who_connects_and_who_accepts_see_each_other),
          CASE(a_kind_that_is_not_there_becomes_reliable_and_says_so),
          CASE(a_rejected_one_reads_why), CASE(names_that_are_something_else_say_so),
          CASE(a_service_that_closes_refuses_who_waits), CASE(nobody_waits_longer_than_he_said),
          CASE(the_backlog_is_a_bound), CASE(a_graceful_close_loses_nothing),
          CASE(an_abrupt_close_is_told), CASE(who_closes_the_session_has_closed_its_channels),
          CASE(who_closes_a_session_of_many_channels_has_closed_each),
          CASE(who_connected_may_be_killed), CASE(who_accepted_may_be_killed),
          CASE(a_killed_daemon_ends_the_channels_of_the_other),
          CASE(a_daemon_that_stops_ends_its_channels_at_once))
