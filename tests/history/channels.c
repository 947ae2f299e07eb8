/* SPDX-License-Identifier: MIT */
/*
 * channels.c - who sends numbered messages, and who receives them.
 *
 * A channel is used on after its daemon, too, until its sender has had enough of it, or a receive
 * on it has failed; then there is another, with another number. Each message says of which channel
 * it is and which of it, and is as long as its sender draws.
 */
#include "tests/history/scene.h"

#include "tests/support/harness.h"

#include <string.h>

enum { LONGEST = 16384, LIE_EVERY = 10, SERVICES = 2 };

/* ---- the receiver ---------------------------------------------------------------------------- */

/* Returns how many messages it was. */
static uint64_t receive_all(struct program *p, rdmad_channel *c) {
    uint32_t channel = 0; /* not known yet */
    uint64_t received = 0;
    int rc = 0;
    while (program_goes_on(p) && (rc == 0 || rc == RDMAD_E_TIMEOUT)) {
        struct rdmad_message m = RDMAD_MESSAGE_INIT;
        uint64_t whole = 0, number = 0;
        struct record *r = record_begin(&p->book, RECORD_RECEIVE, channel, 0, 0);
        rc = rdmad_recv(c, p->buffer, LONGEST, 100 + (int)program_draw(p, 400), &m);
        if (rc == 0) {
            uint64_t word;
            received++;
            __atomic_store_n(&p->board->heard[p->instance], true, __ATOMIC_SEQ_CST);
            memcpy(&word, p->buffer, 8);
            r->object = channel = (uint32_t)word;
            number = pattern_read(p->buffer, m.length, channel, &whole);
        }
        record_end(r, rc == 0 ? RECORD_DONE : record_outcome(), rc, number, whole);
        (void)program_events(p, 0, NULL);
    }
    rdmad_channel_abort(c);
    return received;
}

void receiver_run(void *program) {
    struct program *p = program;
    rdmad_service *service;
    uint64_t received = 0;
    char name[16];
    program_begin(p, LONGEST);
    snprintf(name, sizeof(name), "numbers%u", p->instance);
    CHECK(rdmad_listen(p->session, name, NULL, &service) == 0, "%s", rdmad_last_error(p->session));
    snprintf(p->board->service[p->instance], RDMAD_URI_MAX + 1, "%s", rdmad_service_uri(service));
    __atomic_store_n(&p->board->listening[p->instance], true, __ATOMIC_SEQ_CST);
    while (program_goes_on(p)) {
        rdmad_channel *c;
        if (rdmad_accept(service, NULL, 100, &c) == 0)
            received += receive_all(p, c);
        (void)program_events(p, 0, NULL);
    }
    CHECK(received, "client %u: nothing has come to %s", p->client, name);
    rdmad_service_close(service);
    program_end(p);
}

/* ---- the sender ------------------------------------------------------------------------------ */

static rdmad_channel *connect_anew(struct program *p) {
    char here[32], through[RDMAD_URI_MAX + 1];
    const char *uri = program_uri(p, p->board->service[p->instance], through);
    rdmad_channel *c;
    uint64_t since = now_ms();
    snprintf(here, sizeof(here), "rdmad:///numbers%u", p->instance);
    while (program_goes_on(p)) {
        if (rdmad_connect(p->session, p->daemon == 0 ? here : uri, RDMAD_CHANNEL_RELIABLE, 0, &c) ==
            0)
            return c;
        CHECK(now_ms() - since < 3 * TEST_PATIENCE_MS, "client %u cannot connect again: %s",
              p->client, rdmad_last_error(p->session));
        (void)program_events(p, 5, NULL);
    }
    return NULL;
}

/* After a send that failed: whether the channel is none any more. Where no send was done the other
 * program may never have had it: its daemon was killed before it was told that it had accepted. */
static bool is_over(struct program *p, rdmad_channel *c, uint64_t done) {
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    char said[512];
    snprintf(said, sizeof(said), "%s", rdmad_last_error(p->session));
    (void)program_events(p, 1, NULL);
    rdmad_channel_get_info(c, &info);
    bool lost = info.closed == RDMAD_E_PEER_LOST || info.closed == RDMAD_E_DAEMON_LOST;
    if (lost && done) {
        printf("  client %u: a channel ended with %s after %llu sends; the last: %s\n", p->client,
               rdmad_errname(info.closed), (unsigned long long)done, said);
        fflush(stdout);
    }
    if (lost)
        __atomic_fetch_add(done ? &p->board->channels_lost : &p->board->channels_unaccepted, 1,
                           __ATOMIC_SEQ_CST);
    return info.closed;
}

static int send_one(struct program *p, rdmad_channel *c, uint32_t channel, uint64_t n) {
    const enum lie lie = n % LIE_EVERY == 0 ? p->board->lie : LIE_NONE;
    size_t length = 64;
    int rc = 0;
    if (program_draw(p, 4) == 0)
        length = 8 * (8 + program_draw(p, LONGEST / 8 - 7));
    pattern_fill(p->buffer, length, channel, n);
    struct record *r = record_begin(&p->book, RECORD_SEND, channel, n, length);
    if (lie != LIE_SEND_LOST)
        rc = rdmad_send(c, p->buffer, length);
    if (rc == 0 && lie == LIE_SEND_TWICE)
        (void)rdmad_send(c, p->buffer, length);
    record_end(r, rc == 0 ? RECORD_DONE : record_outcome(), rc, 0, 0);
    return rc;
}

/* Messages of one channel until it ends, or is closed with all delivered. */
static void send_all(struct program *p, rdmad_channel *c, uint32_t channel) {
    const uint64_t most = 50 + program_draw(p, 2000);
    bool over = false, failed = false;
    uint64_t done = 0;
    for (uint64_t n = 1; !over && n <= most && program_goes_on(p); n++) {
        int rc = send_one(p, c, channel, n);
        done += !rc;
        over = rc && is_over(p, c, done);
        if (!rc && failed)
            __atomic_fetch_add(&p->board->channels_went_on, 1, __ATOMIC_SEQ_CST);
        failed = rc;
        (void)program_events(p, 0, NULL);
        program_pause(p, 1500);
    }
    if (over)
        rdmad_channel_abort(c);
    else
        (void)rdmad_channel_close(c);
}

void sender_run(void *program) {
    struct program *p = program;
    program_begin(p, LONGEST);
    while (program_goes_on(p) &&
           !__atomic_load_n(&p->board->listening[p->instance], __ATOMIC_SEQ_CST))
        (void)program_events(p, 5, NULL);
    for (uint32_t i = 1; program_goes_on(p); i++) {
        rdmad_channel *c = connect_anew(p);
        if (c)
            send_all(p, c, p->client << 16 | i);
    }
    program_end(p);
}
