/* SPDX-License-Identifier: MIT */
/*
 * test_messages.c - what a program does with services and channels, call by call, on one daemon and
 * between two: messages, immediates, receives that are too small, time-outs, cancels, both ways to
 * close, deaths, leases in messages, and every way to wait.
 */
#include "tests/support/client.h"
#include "tests/support/pair.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { POOL = 4 << 20, LARGE = 1 << 20 };

#define OK(call, s) CHECK(!(call), "%s", rdmad_last_error(s))

static struct pair p;

static void post_recv(rdmad_ring *ring, rdmad_session *s, rdmad_channel *c, void *buf, size_t size,
                      uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    CHECK(sqe, "the ring is full");
    OK(rdmad_prep_recv(ring, sqe, c, buf, size, user_data), s);
    CHECK(rdmad_ring_submit(ring) == 1, "%s", rdmad_last_error(s));
}

static void post_send(rdmad_ring *ring, rdmad_session *s, rdmad_channel *c, const void *buf,
                      size_t size, uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    CHECK(sqe, "the ring is full");
    OK(rdmad_prep_send(ring, sqe, c, buf, size, user_data), s);
    CHECK(rdmad_ring_submit(ring) == 1, "%s", rdmad_last_error(s));
}

static struct rdmad_cqe reap(rdmad_ring *ring, rdmad_session *s) {
    const struct rdmad_cqe *cqe;
    OK(rdmad_ring_wait(ring, (int)TEST_PATIENCE_MS, &cqe), s);
    struct rdmad_cqe copy = *cqe;
    rdmad_ring_seen(ring, cqe);
    return copy;
}

static void expect_event(rdmad_session *s, uint32_t type, int reason, rdmad_channel *channel) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    do
        OK(rdmad_next_event(s, (int)TEST_PATIENCE_MS, &e), s);
    while (e.type != type);
    CHECK(e.reason == reason, "the reason is %s, not %s: %s", rdmad_errname(e.reason),
          rdmad_errname(reason), e.text);
    CHECK(e.channel == channel, "an event of another channel");
    CHECK(e.text[0], "an event without words");
}

/* ---- a thread that answers ----------------------------------------------------------------- */

/* Gives back, with its immediate, every message until the channel ends. */
static void *echo(void *unused) {
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    (void)unused;
    while (rdmad_recv(p.cb, p.far, POOL, -1, &m) == 0) {
        int rc = m.flags & RDMAD_CQE_IMM ? rdmad_send_imm(p.cb, p.far, m.length, m.imm)
                                         : rdmad_send(p.cb, p.far, m.length);
        if (rc)
            break;
    }
    return NULL;
}

static void blocking_calls(void) {
    static const size_t sizes[] = {0, 1, 100, 4096, 65536, LARGE, POOL / 2};
    pthread_t thread;
    pthread_create(&thread, NULL, echo, NULL);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct rdmad_message m = RDMAD_MESSAGE_INIT;
        uint8_t *back = p.near + POOL / 2;
        size_t at;
        fill_bytes(p.near, sizes[i], i);
        if (i % 2)
            OK(rdmad_send_imm(p.ca, p.near, sizes[i], 100 + i), p.a);
        else
            OK(rdmad_send(p.ca, p.near, sizes[i]), p.a);
        OK(rdmad_recv(p.ca, back, POOL / 2, -1, &m), p.a);
        CHECK(m.length == sizes[i], "%zu bytes came back of %zu", m.length, sizes[i]);
        CHECK(m.flags == (i % 2 ? RDMAD_CQE_IMM : 0), "flags are %u", m.flags);
        CHECK(!(i % 2) || m.imm == 100 + i, "the immediate is %u", m.imm);
        CHECK(bytes_are(back, sizes[i], i, &at), "byte %zu of %zu differs", at, sizes[i]);
    }
    OK(rdmad_channel_close(p.ca), p.a);
    p.ca = NULL;
    pthread_join(thread, NULL);
}

/* ---- receives ------------------------------------------------------------------------------ */

static void too_small(void) {
    rdmad_ring *here = client_ring(p.a, 16), *there = client_ring(p.b, 16);
    for (unsigned i = 0; i < 2; i++) {
        size_t size = i ? LARGE : 100;
        post_recv(there, p.b, p.cb, p.far, size - 1, 1);
        post_recv(there, p.b, p.cb, p.far + LARGE, size, 2);
        post_send(here, p.a, p.ca, p.near, size, 3);
        post_send(here, p.a, p.ca, p.near, size, 4);
        struct rdmad_cqe cqe = reap(there, p.b);
        CHECK(cqe.user_data == 1 && cqe.status == RDMAD_E_TOO_SMALL, "%s",
              rdmad_errname(cqe.status));
        cqe = reap(there, p.b);
        CHECK(cqe.user_data == 2 && cqe.status == 0 && cqe.bytes == size, "the channel goes on");
        cqe = reap(here, p.a);
        CHECK(cqe.user_data == 3 && cqe.status == RDMAD_E_TOO_SMALL, "%s",
              rdmad_errname(cqe.status));
        cqe = reap(here, p.a);
        CHECK(cqe.user_data == 4 && cqe.status == 0, "%s", rdmad_errname(cqe.status));
    }
}

/* A message that finds no receive in time is neither lost nor torn: the next receive has it. */
static void receives_that_time_out(void) {
    rdmad_ring *here = client_ring(p.a, 16);
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    uint64_t before = now_ms();
    CHECK(rdmad_recv(p.cb, p.far, 64, 50, NULL) == RDMAD_E_TIMEOUT, "nothing was sent");
    CHECK(now_ms() - before >= 49, "it did not wait");
    CHECK(now_ms() - before < TEST_PATIENCE_MS, "it waited too long");
    for (unsigned i = 0; i < 300; i++) {
        memcpy(p.near, &i, sizeof(i));
        post_send(here, p.a, p.ca, p.near, sizeof(i), i);
        int rc;
        do
            rc = rdmad_recv(p.cb, p.far, 64, (int)(i % 3), &m);
        while (rc == RDMAD_E_TIMEOUT);
        OK(rc, p.b);
        CHECK(m.length == sizeof(i) && memcmp(p.far, &i, sizeof(i)) == 0, "message %u is another",
              i);
        CHECK(reap(here, p.a).status == 0, "the sender thinks that message %u is lost", i);
    }
}

static void cancels(void) {
    rdmad_ring *here = client_ring(p.a, 16), *there = client_ring(p.b, 16);
    struct rdmad_cqe cqe;
    post_recv(there, p.b, p.cb, p.far, 64, 1);
    post_recv(there, p.b, p.cb, p.far + 64, 64, 2);
    OK(rdmad_ring_cancel(there, 1, &cqe), p.b);
    CHECK(cqe.status == RDMAD_E_CANCELED && cqe.outcome == RDMAD_FAILED_UNTOUCHED, "%s",
          rdmad_errname(cqe.status));
    memcpy(p.near, "first", 6);
    post_send(here, p.a, p.ca, p.near, 6, 3);
    cqe = reap(there, p.b);
    CHECK(cqe.user_data == 2 && cqe.status == 0, "the second receive has the first message");
    CHECK(!strcmp((char *)p.far + 64, "first"), "it says %s", (char *)p.far + 64);
    CHECK(reap(here, p.a).status == 0, "the first send");
    /* A send that waits for a receive; what comes after it is not held up. */
    post_send(here, p.a, p.ca, p.near, 6, 4);
    memcpy(p.near + 64, "third", 6);
    post_send(here, p.a, p.ca, p.near + 64, 6, 5);
    OK(rdmad_ring_cancel(here, 4, &cqe), p.a);
    CHECK(cqe.status == RDMAD_E_CANCELED, "%s", rdmad_errname(cqe.status));
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    OK(rdmad_recv(p.cb, p.far, 64, (int)TEST_PATIENCE_MS, &m), p.b);
    CHECK(!strcmp((char *)p.far, "third"), "it says %s", (char *)p.far);
    CHECK(reap(here, p.a).status == 0, "the third send");
}

/* ---- ends ---------------------------------------------------------------------------------- */

static void closing(void) {
    rdmad_ring *here = client_ring(p.a, 16), *there = client_ring(p.b, 16);
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    post_recv(there, p.b, p.cb, p.far, 64, 1);
    post_recv(there, p.b, p.cb, p.far + 64, 64, 2);
    memcpy(p.near, "last", 5);
    post_send(here, p.a, p.ca, p.near, 5, 3);
    OK(rdmad_channel_close(p.ca), p.a);
    p.ca = NULL;
    CHECK(reap(here, p.a).status == 0, "what was submitted is delivered");
    struct rdmad_cqe cqe = reap(there, p.b);
    CHECK(cqe.user_data == 1 && cqe.status == 0 && !strcmp((char *)p.far, "last"), "%s",
          rdmad_errname(cqe.status));
    CHECK(reap(there, p.b).status == RDMAD_E_CLOSED, "nothing more comes");
    expect_event(p.b, RDMAD_EVENT_CHANNEL_CLOSED, RDMAD_E_CLOSED, p.cb);
    rdmad_channel_get_info(p.cb, &info);
    CHECK(info.closed == RDMAD_E_CLOSED, "%s", rdmad_errname(info.closed));
    CHECK(rdmad_send(p.cb, p.far, 1) == RDMAD_E_CLOSED, "send on a closed channel");
    CHECK(strstr(rdmad_last_error(p.b), "closed"), "%s", rdmad_last_error(p.b));
    CHECK(rdmad_recv(p.cb, p.far, 1, -1, NULL) == RDMAD_E_CLOSED, "receive on a closed channel");
}

static void aborting(void) {
    rdmad_ring *here = client_ring(p.a, 16), *there = client_ring(p.b, 16);
    post_recv(here, p.a, p.ca, p.near, 64, 1);
    post_recv(there, p.b, p.cb, p.far, 64, 2);
    rdmad_channel_abort(p.ca);
    p.ca = NULL;
    CHECK(reap(here, p.a).status == RDMAD_E_CANCELED, "one's own receive");
    int status = reap(there, p.b).status;
    CHECK(status == RDMAD_E_CANCELED, "the other end's receive ends with %s",
          rdmad_errname(status));
    expect_event(p.b, RDMAD_EVENT_CHANNEL_CLOSED, RDMAD_E_CANCELED, p.cb);
}

static void the_other_session_ends(void) {
    rdmad_ring *there = client_ring(p.b, 16);
    post_recv(there, p.b, p.cb, p.far, 64, 2);
    rdmad_close(p.a);
    CHECK(reap(there, p.b).status < 0, "a receive that nobody can send to");
    struct rdmad_event e = RDMAD_EVENT_INIT;
    do
        OK(rdmad_next_event(p.b, (int)TEST_PATIENCE_MS, &e), p.b);
    while (e.type != RDMAD_EVENT_CHANNEL_CLOSED);
    CHECK(e.channel == p.cb && e.reason, "which ended, and why");
}

static void *receive_for_ever(void *status) {
    *(int *)status = rdmad_recv(p.cb, p.far, 64, -1, NULL);
    return NULL;
}

static json_int_t receives_posted(struct tdaemon *d) {
    json_t *reply = tdaemon_call(d, "channel.show", NULL), *row;
    json_int_t sum = 0;
    size_t i;
    json_array_foreach(json_object_get(reply, "channels"), i, row) {
        sum += json_integer_value(json_object_get(row, "receives_posted"));
    }
    json_decref(reply);
    return sum;
}

static void closing_under_a_receive(void) {
    pthread_t thread;
    int status = 0;
    pthread_create(&thread, NULL, receive_for_ever, &status);
    while (receives_posted(p.db) == 0)
        sleep_ms(1);
    OK(rdmad_channel_close(p.cb), p.b);
    p.cb = NULL;
    pthread_join(thread, NULL);
    CHECK(status == RDMAD_E_CLOSED, "%s", rdmad_errname(status));
}

/* ---- leases in messages -------------------------------------------------------------------- */

static void *take_lease(void *lease) {
    OK(rdmad_recv_lease(p.ca, -1, lease), p.a);
    return NULL;
}

static void leases(void) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *granted, *attached = NULL;
    pthread_t thread;
    terms.rights = RDMAD_RIGHT_READ;
    OK(rdmad_lease_grant(p.b, p.far, 4096, &terms, &granted), p.b);
    fill_bytes(p.far, 4096, 9);
    pthread_create(&thread, NULL, take_lease, &attached);
    OK(rdmad_send_lease(p.cb, rdmad_lease_uri(granted)), p.b);
    pthread_join(thread, NULL);
    size_t at;
    OK(rdmad_read(attached, 0, p.near, 4096), p.a);
    CHECK(bytes_are(p.near, 4096, 9, &at), "byte %zu differs", at);
    CHECK(rdmad_recv_lease(p.ca, 20, &attached) == RDMAD_E_TIMEOUT, "there is no other");
}

static void *send_words(void *unused) {
    (void)unused;
    OK(rdmad_send(p.cb, "no pool", 7) != RDMAD_E_RANGE, p.b);
    OK(rdmad_send(p.cb, p.far, 7), p.b);
    return NULL;
}

static void what_is_no_lease(void) {
    rdmad_lease *lease;
    pthread_t thread;
    pthread_create(&thread, NULL, send_words, NULL);
    CHECK(rdmad_recv_lease(p.ca, (int)TEST_PATIENCE_MS, &lease) == RDMAD_E_PROTOCOL, "%s",
          rdmad_last_error(p.a));
    CHECK(strstr(rdmad_last_error(p.a), "no lease"), "%s", rdmad_last_error(p.a));
    pthread_join(thread, NULL);
}

/* ---- ways to wait -------------------------------------------------------------------------- */

enum { MESSAGES = 500 };

static void *send_many(void *unused) {
    (void)unused;
    for (uint32_t i = 0; i < MESSAGES; i++)
        OK(rdmad_send_imm(p.ca, p.near, i % 100, i), p.a);
    return NULL;
}

struct taker {
    rdmad_ring *ring;
    uint32_t next;
};

static void take(struct taker *t, const struct rdmad_cqe *cqe) {
    CHECK(cqe->status == 0, "%s", rdmad_errname(cqe->status));
    CHECK(cqe->imm == t->next && cqe->bytes == t->next % 100, "message %lu of %lu bytes is not %u",
          (unsigned long)cqe->imm, (unsigned long)cqe->bytes, t->next);
    t->next++;
}

static void called(void *arg, const struct rdmad_cqe *cqe) {
    struct taker *t = arg;
    take(t, cqe);
    struct rdmad_sqe *sqe = rdmad_ring_reserve(t->ring);
    OK(rdmad_prep_recv(t->ring, sqe, p.cb, p.far + cqe->user_data * 128, 128, cqe->user_data), p.b);
    OK(rdmad_sqe_set_callback(t->ring, sqe, called, t), p.b);
    CHECK(rdmad_ring_submit(t->ring) == 1, "%s", rdmad_last_error(p.b));
}

static void post_all(struct taker *t, bool with_callback) {
    struct rdmad_sqe *sqe;
    for (unsigned i = 0; (sqe = rdmad_ring_reserve(t->ring)); i++) {
        OK(rdmad_prep_recv(t->ring, sqe, p.cb, p.far + i * 128, 128, i), p.b);
        if (with_callback)
            OK(rdmad_sqe_set_callback(t->ring, sqe, called, t), p.b);
    }
    CHECK(rdmad_ring_submit(t->ring) > 0, "%s", rdmad_last_error(p.b));
}

static void take_all_there(struct taker *t) {
    const struct rdmad_cqe *cqe;
    while (rdmad_ring_peek(t->ring, &cqe) == 0) {
        uint64_t i = cqe->user_data;
        take(t, cqe);
        rdmad_ring_seen(t->ring, cqe);
        post_recv(t->ring, p.b, p.cb, p.far + i * 128, 128, i);
    }
}

/* By a descriptor: the session's, or the ring's own. */
static void take_by_poll(struct taker *t, int fd) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (t->next < MESSAGES) {
        struct rdmad_event e = RDMAD_EVENT_INIT;
        while (rdmad_next_event(p.b, 0, &e) == 0)
            ;
        take_all_there(t);
        if (rdmad_ring_arm(t->ring) == 0 && t->next < MESSAGES)
            CHECK(poll(&ready, 1, (int)TEST_PATIENCE_MS) == 1, "nothing comes any more");
    }
}

static void waiting(unsigned way) {
    struct taker t = {.ring = client_ring(p.b, 8)};
    const struct rdmad_cqe *cqe;
    pthread_t thread;
    post_all(&t, way == 3);
    pthread_create(&thread, NULL, send_many, NULL);
    while (t.next < MESSAGES) {
        if (way == 0) {
            take_all_there(&t);
        } else if (way == 1) {
            OK(rdmad_ring_wait(t.ring, (int)TEST_PATIENCE_MS, &cqe), p.b);
            take_all_there(&t);
        } else if (way == 2) {
            take_by_poll(&t, rdmad_session_fd(p.b));
        } else if (way == 3) {
            CHECK(rdmad_ring_dispatch(t.ring, (int)TEST_PATIENCE_MS, 0) > 0, "%s",
                  rdmad_last_error(p.b));
        } else {
            take_by_poll(&t, rdmad_ring_fd(t.ring));
        }
    }
    pthread_join(thread, NULL);
    rdmad_ring_destroy(t.ring);
}

static void ways_to_wait(void) {
    for (unsigned way = 0; way < 5; way++)
        waiting(way);
}

/* ---- many threads -------------------------------------------------------------------------- */

enum { THREADS = 12, ROUNDS = 100 };

struct talk {
    rdmad_channel *here, *there;
    uint8_t *near, *far; /* 4096 bytes each, and as many behind them */
};

static void *ask_often(void *arg) {
    struct talk *t = arg;
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    size_t at;
    for (unsigned i = 0; i < ROUNDS; i++) {
        fill_bytes(t->near, 4096, i);
        OK(rdmad_send_imm(t->here, t->near, 4096, i), p.a);
        OK(rdmad_recv(t->here, t->near + 4096, 4096, -1, &m), p.a);
        CHECK(m.imm == i && bytes_are(t->near + 4096, 4096, i, &at), "round %u", i);
    }
    return NULL;
}

static void *answer_often(void *arg) {
    struct talk *t = arg;
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    for (unsigned i = 0; i < ROUNDS; i++) {
        OK(rdmad_recv(t->there, t->far, 4096, -1, &m), p.b);
        OK(rdmad_send_imm(t->there, t->far, 4096, m.imm), p.b);
    }
    return NULL;
}

/* Beside them, and never waiting for one of them. */
static void *write_often(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < 20 * ROUNDS; i++)
        OK(rdmad_write(p.lease, LARGE, p.near + LARGE, 512), p.a);
    return NULL;
}

static void threads(void) {
    struct talk talk[THREADS];
    pthread_t asking[THREADS], answering[THREADS], writing[2];
    for (unsigned i = 0; i < THREADS; i++) {
        talk[i].near = p.near + (size_t)i * 8192;
        talk[i].far = p.far + (size_t)i * 8192;
        pair_connect(&p, RDMAD_CHANNEL_RELIABLE, &talk[i].here, &talk[i].there);
        pthread_create(&answering[i], NULL, answer_often, &talk[i]);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&writing[i], NULL, write_often, NULL);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&asking[i], NULL, ask_often, &talk[i]);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(writing[i], NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(asking[i], NULL);
        pthread_join(answering[i], NULL);
        OK(rdmad_channel_close(talk[i].here), p.a);
        OK(rdmad_channel_close(talk[i].there), p.b);
    }
}

/* ---- services ------------------------------------------------------------------------------ */

static void *connect_again(void *status) {
    rdmad_channel *c;
    *(int *)status = rdmad_connect(p.a, rdmad_service_uri(p.service), 0, 0, &c);
    CHECK(*(int *)status == 0 || strstr(rdmad_last_error(p.a), "not today"), "%s",
          rdmad_last_error(p.a));
    return NULL;
}

static void rejecting(void) {
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    pthread_t thread;
    int status = 0;
    pthread_create(&thread, NULL, connect_again, &status);
    OK(rdmad_next_incoming(p.service, (int)TEST_PATIENCE_MS, &who), p.b);
    CHECK(who.uid == getuid() && who.node[0], "who is it?");
    CHECK(!who.address[0] == (p.da == p.db), "its daemon is at '%s'", who.address);
    OK(rdmad_reject(p.service, &who, "not today"), p.b);
    pthread_join(thread, NULL);
    CHECK(status == RDMAD_E_REFUSED, "%s", rdmad_errname(status));
    CHECK(rdmad_reject(p.service, &who, NULL) == RDMAD_E_HANDLE, "twice");
}

static void bad_addresses(void) {
    char uri[RDMAD_URI_MAX + 1];
    rdmad_service *service;
    rdmad_channel *c;
    int rc;
    CHECK(rdmad_listen(p.b, "pair", NULL, &service) == RDMAD_E_EXISTS, "the name is taken");
    CHECK(rdmad_listen(p.b, "p\xc3\xa4r", NULL, &service) == RDMAD_E_NAME, "odd bytes");
    snprintf(uri, sizeof(uri), "%s-not", rdmad_service_uri(p.service));
    rc = rdmad_connect(p.a, uri, 0, 0, &c);
    CHECK(rc == RDMAD_E_NO_SERVICE, "%s: %s", rdmad_errname(rc), rdmad_last_error(p.a));
    rc = rdmad_connect(p.a, "rdmad://", 0, 0, &c);
    CHECK(rc == RDMAD_E_URI, "%s: %s", rdmad_errname(rc), rdmad_last_error(p.a));
    rc = rdmad_connect(p.a, rdmad_service_uri(p.service), 99, 0, &c);
    CHECK(rc == RDMAD_E_INVAL, "%s: %s", rdmad_errname(rc), rdmad_last_error(p.a));
}

static void info_tells(void) {
    struct rdmad_channel_info near = RDMAD_CHANNEL_INFO_INIT, far = near;
    rdmad_channel_get_info(p.ca, &near);
    rdmad_channel_get_info(p.cb, &far);
    CHECK(near.kind == RDMAD_CHANNEL_RELIABLE && near.closed == 0, "near");
    CHECK(near.peer_uid == getuid() && far.peer_uid == getuid(), "uids");
    CHECK(near.max_message >= POOL, "at most %lu bytes", (unsigned long)near.max_message);
    CHECK(near.peer_node[0] && far.peer_node[0], "nodes");
    CHECK(!near.peer_address[0] == (p.da == p.db), "address '%s'", near.peer_address);
    CHECK(!strcmp(near.fabric, p.da == p.db ? "local" : test_fabric()), "fabric %s", near.fabric);
}

/* ---- all of it, by both routes ------------------------------------------------------------- */

static void by_both(void (*test)(void)) {
    static const enum pair_route routes[] = {PAIR_LOCAL, PAIR_LINK};
    for (unsigned i = pair_first_route(); i < 2; i++) {
        pair_open(&p, routes[i], POOL, RDMAD_RIGHTS_ALL);
        test();
        if (test == the_other_session_ends) {
            rdmad_close(p.b);
            if (p.db != p.da)
                tdaemon_stop(p.db);
            tdaemon_stop(p.da);
            continue;
        }
        pair_close(&p);
    }
}

#define BY_BOTH(test)               \
    static void both_##test(void) { \
        by_both(test);              \
    }
BY_BOTH(blocking_calls)
BY_BOTH(too_small)
BY_BOTH(receives_that_time_out)
BY_BOTH(cancels)
BY_BOTH(closing)
BY_BOTH(aborting)
BY_BOTH(the_other_session_ends)
BY_BOTH(closing_under_a_receive)
BY_BOTH(leases)
BY_BOTH(what_is_no_lease)
BY_BOTH(ways_to_wait)
BY_BOTH(threads)
BY_BOTH(rejecting)
BY_BOTH(bad_addresses)
BY_BOTH(info_tells)

TEST_MAIN(CASE(both_blocking_calls), CASE(both_too_small), CASE(both_receives_that_time_out),
          CASE(both_cancels), CASE(both_closing), CASE(both_aborting),
          CASE(both_the_other_session_ends), CASE(both_closing_under_a_receive), CASE(both_leases),
          CASE(both_what_is_no_lease), CASE(both_ways_to_wait), CASE(both_threads),
          CASE(both_rejecting), CASE(both_bad_addresses), CASE(both_info_tells))
