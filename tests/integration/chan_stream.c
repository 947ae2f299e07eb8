/* SPDX-License-Identifier: MIT */
/*
 * chan_stream.c - who sends, who receives, and what came of each message.
 */
#include "tests/integration/chan_stream.h"
#include "tests/support/client.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 8, RECEIVES = 16, LONGEST = 192 << 10, MESSAGES = 1 << 22 };
enum outcome { NOT_SENT, UNDER_WAY, DONE, UNKNOWN, UNTOUCHED };

struct end {
    rdmad_session *session;
    rdmad_pool *pool;
    rdmad_ring *ring;
    rdmad_channel *channel;
    char *memory; /* a part for each op */
    pthread_t thread;
};

struct chan_stream {
    struct end sender, receiver;
    rdmad_service *service;
    bool stop, times_out;
    uint8_t *outcome, *came; /* of each message */
    uint64_t sent, received; /* atomic */
    uint64_t last_ns, longest_ns;
};

static uint64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Small ones are copied, those in the middle land, long ones are read. */
static size_t length_of(uint64_t number) {
    static const size_t lengths[] = {64, 64, 1000, 40 << 10, 64, LONGEST, 8, 3000};
    return lengths[number % (sizeof(lengths) / sizeof(lengths[0]))];
}

/* ---- who sends ------------------------------------------------------------------------------- */

static void send_one(struct chan_stream *s, uint32_t place) {
    struct end *e = &s->sender;
    uint64_t number = s->sent++;
    char *at = e->memory + (size_t)place * LONGEST;
    struct rdmad_sqe *sqe = rdmad_ring_reserve(e->ring);
    CHECK(sqe && number < MESSAGES, "no room for message %" PRIu64, number);
    memcpy(at, &number, sizeof(number));
    if (length_of(number) > sizeof(number))
        at[length_of(number) - 1] = (char)number;
    s->outcome[number] = UNDER_WAY;
    CHECK(rdmad_prep_send(e->ring, sqe, e->channel, at, length_of(number), number << 8 | place) ==
              0,
          "%s", rdmad_last_error(e->session));
    CHECK(rdmad_ring_submit(e->ring) == 1, "%s", rdmad_last_error(e->session));
}

/* Returns the place that is free. */
static uint32_t take_sent(struct chan_stream *s) {
    struct end *e = &s->sender;
    const struct rdmad_cqe *cqe;
    CHECK(rdmad_ring_wait(e->ring, 3 * (int)TEST_PATIENCE_MS, &cqe) == 0, "a send has no end");
    uint64_t number = cqe->user_data >> 8;
    uint32_t place = (uint32_t)(cqe->user_data & 0xff);
    CHECK(cqe->status == 0 || cqe->status == RDMAD_E_DAEMON_LOST ||
              cqe->status == RDMAD_E_PEER_LOST ||
              (cqe->status == RDMAD_E_TIMEOUT && __atomic_load_n(&s->times_out, __ATOMIC_RELAXED)),
          "send %" PRIu64 ": %s", number, rdmad_errname(cqe->status));
    s->outcome[number] = cqe->status == 0                         ? DONE
                         : cqe->outcome == RDMAD_FAILED_UNTOUCHED ? UNTOUCHED
                                                                  : UNKNOWN;
    rdmad_ring_seen(e->ring, cqe);
    return place;
}

static void *send_all(void *arg) {
    struct chan_stream *s = arg;
    uint32_t under_way = 0;
    while (under_way < DEPTH)
        send_one(s, under_way++);
    while (under_way > 0) {
        uint32_t place = take_sent(s);
        if (__atomic_load_n(&s->stop, __ATOMIC_RELAXED))
            under_way--;
        else
            send_one(s, place);
    }
    CHECK(rdmad_channel_close(s->sender.channel) == 0, "%s", rdmad_last_error(s->sender.session));
    return NULL;
}

/* ---- who receives ---------------------------------------------------------------------------- */

static void receive_one(struct chan_stream *s, uint64_t place) {
    struct end *e = &s->receiver;
    struct rdmad_sqe *sqe = rdmad_ring_reserve(e->ring);
    CHECK(sqe, "no room for a receive");
    CHECK(rdmad_prep_recv(e->ring, sqe, e->channel, e->memory + place * LONGEST, LONGEST, place) ==
              0,
          "%s", rdmad_last_error(e->session));
    CHECK(rdmad_ring_submit(e->ring) == 1, "%s", rdmad_last_error(e->session));
}

static void note_pause(struct chan_stream *s) {
    uint64_t now = now_ns(), pause = now - s->last_ns;
    if (pause > __atomic_load_n(&s->longest_ns, __ATOMIC_RELAXED))
        __atomic_store_n(&s->longest_ns, pause, __ATOMIC_RELAXED);
    s->last_ns = now;
}

static void take_message(struct chan_stream *s, const struct rdmad_cqe *cqe, uint64_t *next) {
    const char *at = s->receiver.memory + cqe->user_data * LONGEST;
    uint64_t number;
    memcpy(&number, at, sizeof(number));
    CHECK(number >= *next && number < MESSAGES, "message %" PRIu64 " comes as number %" PRIu64,
          number, *next);
    CHECK(cqe->bytes == length_of(number), "message %" PRIu64 " has %" PRIu64 " bytes", number,
          cqe->bytes);
    CHECK(cqe->bytes == 8 || at[cqe->bytes - 1] == (char)number, "message %" PRIu64 " is torn",
          number);
    *next = number + 1;
    s->came[number]++;
    __atomic_add_fetch(&s->received, 1, __ATOMIC_RELAXED);
    note_pause(s);
}

static void *receive_all(void *arg) {
    struct chan_stream *s = arg;
    const struct rdmad_cqe *cqe;
    uint64_t next = 0;
    s->last_ns = now_ns();
    for (uint64_t place = 0; place < RECEIVES; place++)
        receive_one(s, place);
    for (;;) {
        CHECK(rdmad_ring_wait(s->receiver.ring, 3 * (int)TEST_PATIENCE_MS, &cqe) == 0,
              "no message comes");
        if (cqe->status == RDMAD_E_CLOSED)
            return NULL;
        CHECK(cqe->status == 0, "a receive: %s", rdmad_errname(cqe->status));
        uint64_t place = cqe->user_data;
        take_message(s, cqe, &next);
        rdmad_ring_seen(s->receiver.ring, cqe);
        receive_one(s, place);
    }
}

/* ---- both --------------------------------------------------------------------------------------
 */

static void end_up(struct end *e, struct tdaemon *d, uint32_t parts) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    o.runtime_dir = tdaemon_dir(d);
    o.resume = 1;
    CHECK(rdmad_open(&o, &e->session) == 0, "%s", rdmad_last_error(NULL));
    CHECK(rdmad_pool_create(e->session, (size_t)(parts + 1) * LONGEST, 0, &e->pool) == 0, "%s",
          rdmad_last_error(e->session));
    e->memory = rdmad_alloc(e->pool, (size_t)parts * LONGEST);
    CHECK(e->memory, "%s", rdmad_last_error(e->session));
    e->ring = client_ring(e->session, 2 * parts);
}

struct connecting {
    struct end *end;
    const char *uri;
};

static void *connect_end(void *arg) {
    const struct connecting *c = arg;
    CHECK(rdmad_connect(c->end->session, c->uri, RDMAD_CHANNEL_RELIABLE, 0, &c->end->channel) == 0,
          "%s", rdmad_last_error(c->end->session));
    return NULL;
}

static void join_ends(struct chan_stream *s, struct end *connects, struct end *accepts) {
    struct connecting c = {.end = connects};
    pthread_t thread;
    CHECK(rdmad_listen(accepts->session, "numbers", NULL, &s->service) == 0, "%s",
          rdmad_last_error(accepts->session));
    c.uri = rdmad_service_uri(s->service);
    CHECK(pthread_create(&thread, NULL, connect_end, &c) == 0, "no thread");
    CHECK(rdmad_accept(s->service, NULL, (int)TEST_PATIENCE_MS, &accepts->channel) == 0, "%s",
          rdmad_last_error(accepts->session));
    pthread_join(thread, NULL);
}

struct chan_stream *chan_stream_start(struct tdaemon *sender, struct tdaemon *receiver,
                                      bool backwards) {
    struct chan_stream *s = calloc(1, sizeof(*s));
    CHECK(s && (s->outcome = calloc(1, MESSAGES)) && (s->came = calloc(1, MESSAGES)), "no memory");
    end_up(&s->sender, sender, DEPTH);
    end_up(&s->receiver, receiver, RECEIVES);
    join_ends(s, backwards ? &s->receiver : &s->sender, backwards ? &s->sender : &s->receiver);
    CHECK(pthread_create(&s->receiver.thread, NULL, receive_all, s) == 0 &&
              pthread_create(&s->sender.thread, NULL, send_all, s) == 0,
          "no thread");
    return s;
}

void chan_stream_may_time_out(struct chan_stream *s) {
    __atomic_store_n(&s->times_out, true, __ATOMIC_RELAXED);
}

uint64_t chan_stream_received(const struct chan_stream *s) {
    return __atomic_load_n(&s->received, __ATOMIC_RELAXED);
}

void chan_stream_expect_progress(const struct chan_stream *s, const char *when) {
    uint64_t before = chan_stream_received(s), since = now_ns();
    while (chan_stream_received(s) < before + 2 * DEPTH) {
        CHECK(now_ns() - since < UINT64_C(3000000) * TEST_PATIENCE_MS, "no message comes %s", when);
        sleep_ms(1);
    }
}

double chan_stream_longest_ms(struct chan_stream *s) {
    return (double)__atomic_exchange_n(&s->longest_ns, 0, __ATOMIC_RELAXED) / 1e6;
}

static void judge(const struct chan_stream *s, struct chan_stream_sum *sum) {
    for (uint64_t n = 0; n < s->sent; n++) {
        unsigned came = s->came[n];
        int outcome = s->outcome[n];
        sum->done += outcome == DONE;
        sum->unknown += outcome == UNKNOWN;
        sum->untouched += outcome == UNTOUCHED;
        CHECK(outcome != DONE || came == 1, "message %" PRIu64 " is done, and came %u times", n,
              came);
        CHECK(outcome != UNTOUCHED || came == 0, "message %" PRIu64 " was not sent, and came", n);
        CHECK(came <= 1, "message %" PRIu64 " came %u times", n, came);
    }
    sum->received = s->received;
}

static void end_down(struct end *e) {
    rdmad_close(e->session);
}

struct chan_stream_sum chan_stream_stop(struct chan_stream *s) {
    struct chan_stream_sum sum = {.done = 0};
    __atomic_store_n(&s->stop, true, __ATOMIC_RELAXED);
    pthread_join(s->sender.thread, NULL);
    pthread_join(s->receiver.thread, NULL);
    judge(s, &sum);
    printf("    %" PRIu64 " messages done, %" PRIu64 " unknown, %" PRIu64 " untouched, %" PRIu64
           " received\n",
           sum.done, sum.unknown, sum.untouched, sum.received);
    end_down(&s->sender);
    end_down(&s->receiver);
    free(s->outcome);
    free(s->came);
    free(s);
    return sum;
}
