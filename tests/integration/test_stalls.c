/* SPDX-License-Identifier: MIT */
/*
 * test_stalls.c - a receiver that stops now and then, and one that stops for good: nothing is lost,
 * nothing overtakes, nobody's memory grows, no device ever answers "receiver not ready", and a
 * neighbour's channel does not notice.
 */
#include "tests/support/client.h"
#include "tests/support/pair.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { SLOTS = 32, SLOT_BYTES = 64 << 10, POOL = 4 * SLOTS * SLOT_BYTES };

/* Mostly small, some large. */
static size_t size_of(uint32_t number) {
    uint64_t x = number * UINT64_C(0x9e3779b97f4a7c15);
    unsigned kind = (unsigned)(x >> 56);
    size_t most = kind < 230 ? 256 : kind < 253 ? 4096 : SLOT_BYTES;
    return (x >> 20) % (most + 1);
}

struct stream {
    rdmad_session *s;
    rdmad_channel *channel;
    uint8_t *memory; /* SLOTS slots */
    uint32_t count;
    bool stalls, plain; /* plain: 64 bytes each, unchecked, for the rate */
    double seconds;
};

static const struct rdmad_cqe *next_of(rdmad_ring *r, const char *what) {
    const struct rdmad_cqe *cqe;
    char text[400];
    int rc = rdmad_ring_wait(r, (int)TEST_PATIENCE_MS * 3, &cqe);
    CHECK(!rc, "%s: no completion, %d", what, rc);
    rdmad_ring_explain(r, cqe, text, sizeof(text));
    CHECK(!cqe->status, "%s: %s", what, text);
    return cqe;
}

static void send_number(struct stream *m, rdmad_ring *r, uint32_t number, uint32_t slot) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(r);
    uint8_t *at = m->memory + (size_t)slot * SLOT_BYTES;
    size_t size = m->plain ? 64 : size_of(number);
    if (!m->plain)
        fill_bytes(at, size, number);
    CHECK(sqe && !rdmad_prep_send(r, sqe, m->channel, at, size, slot), "%s",
          rdmad_last_error(m->s));
    rdmad_sqe_set_imm(sqe, number);
    rdmad_sqe_set_deadline(sqe, 60000);
    CHECK(rdmad_ring_submit(r) == 1, "%s", rdmad_last_error(m->s));
}

/* Sends may end in another order than they were submitted: a slot is used again when its own has.
 */
static void *sending(void *arg) {
    struct stream *m = arg;
    rdmad_ring *r = client_ring(m->s, SLOTS);
    uint32_t sent = 0;
    for (; sent < m->count && sent < SLOTS; sent++)
        send_number(m, r, sent, sent);
    for (uint32_t done = 0; done < m->count; done++) {
        const struct rdmad_cqe *cqe = next_of(r, "send");
        uint32_t slot = (uint32_t)cqe->user_data;
        rdmad_ring_seen(r, cqe);
        if (sent < m->count)
            send_number(m, r, sent++, slot);
    }
    rdmad_ring_destroy(r);
    return NULL;
}

static void post(struct stream *m, rdmad_ring *r, uint32_t slot) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(r);
    uint8_t *at = m->memory + (size_t)slot * SLOT_BYTES;
    CHECK(sqe && !rdmad_prep_recv(r, sqe, m->channel, at, SLOT_BYTES, slot), "%s",
          rdmad_last_error(m->s));
    CHECK(rdmad_ring_submit(r) == 1, "%s", rdmad_last_error(m->s));
}

static void check_message(const struct stream *m, const struct rdmad_cqe *cqe, uint32_t number) {
    size_t at, size = size_of(number);
    CHECK(cqe->imm == number, "message %llu comes instead of %u", (unsigned long long)cqe->imm,
          number);
    if (m->plain)
        return;
    CHECK(cqe->bytes == size, "message %u has %llu bytes, not %zu", number,
          (unsigned long long)cqe->bytes, size);
    CHECK(bytes_are(m->memory + cqe->user_data * SLOT_BYTES, size, number, &at),
          "message %u of %zu bytes differs at %zu", number, size, at);
}

static void *receiving(void *arg) {
    struct stream *m = arg;
    rdmad_ring *r = client_ring(m->s, SLOTS);
    uint32_t left_until_stall = 100, posted = 0;
    uint64_t then = now_ms();
    for (; posted < m->count && posted < SLOTS; posted++)
        post(m, r, posted);
    for (uint32_t number = 0; number < m->count; number++) {
        const struct rdmad_cqe *cqe = next_of(r, "receive");
        uint32_t slot = (uint32_t)cqe->user_data;
        check_message(m, cqe, number);
        rdmad_ring_seen(r, cqe);
        if (m->stalls && --left_until_stall == 0) {
            sleep_ms((unsigned)(number * 7919u % 8));
            left_until_stall = 1 + number * 104729u % 3000;
        }
        if (posted < m->count) {
            post(m, r, slot);
            posted++;
        }
    }
    m->seconds = (double)(now_ms() - then) / 1000;
    rdmad_ring_destroy(r);
    return NULL;
}

/* Messages through a channel; returns them a second. */
static double flow(struct stream out, struct stream in) {
    pthread_t sender, receiver;
    CHECK(!pthread_create(&receiver, NULL, receiving, &in), "no thread");
    CHECK(!pthread_create(&sender, NULL, sending, &out), "no thread");
    pthread_join(sender, NULL);
    pthread_join(receiver, NULL);
    return in.count / (in.seconds > 0 ? in.seconds : 0.001);
}

/* What all devices count of "receiver not ready". */
static unsigned long long rnrs(void) {
    static const char *const names[] = {"rcvd_rnr_err", "send_rnr_err", "rnr_nak_retry_err",
                                        "retry_rnr_exceeded_err"};
    unsigned long long sum = 0, value;
    DIR *dir = opendir("/sys/class/infiniband");
    for (struct dirent *e; dir && (e = readdir(dir));)
        for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            char path[400];
            snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s",
                     e->d_name, names[i]);
            FILE *f = fopen(path, "re");
            if (f && fscanf(f, "%llu", &value) == 1)
                sum += value;
            if (f)
                fclose(f);
        }
    if (dir)
        closedir(dir);
    return sum;
}

static struct stream end_of(const struct pair *p, bool at_b, rdmad_channel *channel,
                            uint32_t count) {
    return (struct stream){.s = at_b ? p->b : p->a,
                           .channel = channel,
                           .memory = at_b ? p->far : p->near,
                           .count = count};
}

static void a_million(enum pair_route route) {
    struct pair p;
    unsigned long long before = rnrs();
    pair_open(&p, route, POOL, RDMAD_RIGHTS_DEFAULT);
    uint32_t count = test_count(1000000);
    struct stream out = end_of(&p, false, p.ca, 1000), in = end_of(&p, true, p.cb, 1000);
    flow(out, in); /* what a first run costs for good */
    uint64_t rss_a = tdaemon_rss_bytes(p.da), rss_b = tdaemon_rss_bytes(p.db);
    out.count = in.count = count;
    in.stalls = true;
    double rate = flow(out, in);
    printf("  %u messages, %.0f a second\n", count, rate);
    if (!test_sanitized())
        CHECK(tdaemon_rss_bytes(p.da) < rss_a + (4u << 20) &&
                  tdaemon_rss_bytes(p.db) < rss_b + (4u << 20),
              "a daemon grew from %llu, %llu to %llu, %llu bytes", (unsigned long long)rss_a,
              (unsigned long long)rss_b, (unsigned long long)tdaemon_rss_bytes(p.da),
              (unsigned long long)tdaemon_rss_bytes(p.db));
    CHECK(rnrs() == before, "%llu times a receiver was not ready", rnrs() - before);
    pair_close(&p);
}

static void a_million_messages_to_a_receiver_that_stalls_on_one_daemon(void) {
    a_million(PAIR_LOCAL);
}

static void a_million_messages_to_a_receiver_that_stalls_between_two_daemons(void) {
    a_million(PAIR_LINK);
}

/* ---- the neighbour ------------------------------------------------------------------------- */

/* Sends that find no receive, and stay. */
static rdmad_ring *block_with(struct pair *p, rdmad_channel *channel) {
    rdmad_ring *r = client_ring(p->a, SLOTS);
    struct stream m = end_of(p, false, channel, SLOTS);
    m.memory += (size_t)SLOTS * SLOT_BYTES;
    for (uint32_t i = 0; i < SLOTS; i++)
        send_number(&m, r, i, i);
    return r;
}

/* Alone and beside the stalled one in turns. The promise is 0.9; a busy machine decides more than
 * we do, so the test fails at a tenth of that. */
static void neighbour(enum pair_route route) {
    enum { ROUNDS = 5 };
    struct pair p;
    rdmad_channel *at_a, *at_b;
    double ratio[ROUNDS];
    pair_open(&p, route, POOL, RDMAD_RIGHTS_DEFAULT);
    uint32_t count = test_count(200000) / ROUNDS;
    struct stream out = end_of(&p, false, p.ca, count), in = end_of(&p, true, p.cb, count);
    out.plain = in.plain = true;
    flow(out, in);
    for (unsigned i = 0; i < ROUNDS; i++) {
        double solo = flow(out, in);
        pair_connect(&p, RDMAD_CHANNEL_RELIABLE, &at_a, &at_b);
        rdmad_ring *clogged = block_with(&p, at_a);
        ratio[i] = flow(out, in) / solo;
        rdmad_channel_abort(at_a);
        rdmad_channel_abort(at_b);
        rdmad_ring_destroy(clogged);
    }
    double typical = median(ratio, ROUNDS);
    printf("  beside a stalled channel: %.2f of the rate alone (median of %d)\n", typical, ROUNDS);
    CHECK(typical >= 0.09, "beside a stalled channel only %.3f of the rate", typical);
    pair_close(&p);
}

static void a_stalled_channel_slows_no_other_on_one_daemon(void) {
    neighbour(PAIR_LOCAL);
}

static void a_stalled_channel_slows_no_other_between_two_daemons(void) {
    neighbour(PAIR_LINK);
}

TEST_MAIN(CASE(a_million_messages_to_a_receiver_that_stalls_on_one_daemon),
          CASE(a_million_messages_to_a_receiver_that_stalls_between_two_daemons),
          CASE(a_stalled_channel_slows_no_other_on_one_daemon),
          CASE(a_stalled_channel_slows_no_other_between_two_daemons))
