/* SPDX-License-Identifier: MIT */
/*
 * hostile.c - see hostile.h. Sockets are blocking until the flood, which polls.
 */
#include "tests/integration/hostile.h"

#include "daemon/fabric/tcp/blob.h"
#include "daemon/fabric/tcp/frame.h"
#include "tests/support/harness.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 64 << 10, BATCH = 4 };

static void send_all(int fd, const void *data, size_t size) {
    CHECK(send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size, "send: %s", strerror(errno));
}
static void recv_all(int fd, void *data, size_t size) {
    CHECK(recv(fd, data, size, MSG_WAITALL) == (ssize_t)size, "receive: %s", strerror(errno));
}

/* ---- the control connection ---------------------------------------------------------------- */

void hostile_connect(struct hostile *h, const char *listen) {
    *h = (struct hostile){.data = -1};
    false_peer_connect(&h->control, listen, "tcp");
}

static void dial(struct hostile *h) {
    struct invitation i;
    uint8_t hello[HELLO_BYTES], welcome[WELCOME_BYTES];
    struct peer_msg m = {.type = PEER_MSG_LINK_REQ, .link_req.ref = 9}; /* an empty hello: tcp's */
    false_peer_say(&h->control, &m);
    false_peer_await(&h->control, PEER_MSG_LINK_REP, &m);
    CHECK(m.link_rep.status == 0, "link: %s", m.link_rep.text);
    CHECK(offer_read(&m.link_rep.offer, &i) && !i.encrypt,
          "not an offer of the tcp engine for a connection in clear");
    h->number = i.number;
    h->data = false_peer_dial("127.0.0.1", i.port);
    hello_put(hello, i.token);
    send_all(h->data, hello, sizeof(hello));
    recv_all(h->data, welcome, sizeof(welcome));
    CHECK(welcome_check(welcome) == NULL, "no welcome");
    h->next_op = 0;
}

void hostile_attach(struct hostile *h, const char *uri) {
    struct peer_attach_rep rep;
    false_peer_attach(&h->control, uri, 7, 0, &rep);
    h->length = rep.length;
    h->owner_ref = rep.owner_ref;
    dial(h);
    struct peer_msg m = {.type = PEER_MSG_KEY_REQ,
                         .key_req = {.owner_ref = rep.owner_ref, .via = h->number}};
    false_peer_say(&h->control, &m);
    false_peer_await(&h->control, PEER_MSG_KEY_REP, &m);
    CHECK(m.key_rep.status == 0, "key: %s", m.key_rep.text);
    CHECK(key_read(&m.key_rep.key, &h->slot, &h->key), "not a key of the tcp engine");
}

/* ---- one op -----------------------------------------------------------------------------------
 */

/* All frames of the answer; a READ's come in pieces. */
static int hear_answer(struct hostile *h) {
    uint8_t head[FRAME_BYTES], piece[PIECE];
    struct frame answer;
    do {
        recv_all(h->data, head, sizeof(head));
        frame_get(&answer, head);
        uint32_t size = frame_payload(&answer);
        CHECK(size <= sizeof(piece), "an answer of %u bytes", size);
        if (size)
            recv_all(h->data, piece, size);
        for (uint32_t i = 0; i < size; i++)
            h->secrets += piece[i] == h->secret;
    } while (answer.type == FRAME_DATA && !(answer.flags & FRAME_FINAL));
    return answer.type == FRAME_STATUS ? answer.status : 0;
}

static void say_frame(struct hostile *h, uint8_t type, uint64_t offset, uint32_t length) {
    uint8_t head[FRAME_BYTES];
    const struct frame f = {.type = type,
                            .length = length,
                            .op = h->next_op++,
                            .slot = h->slot,
                            .key = h->key,
                            .offset = offset};
    frame_put(head, &f);
    send_all(h->data, head, sizeof(head));
}

int hostile_read(struct hostile *h, uint64_t offset, uint32_t length) {
    say_frame(h, FRAME_READ, offset, length);
    return hear_answer(h);
}

int hostile_write(struct hostile *h, uint64_t offset, uint32_t length, uint8_t value) {
    uint8_t piece[PIECE];
    CHECK(length <= sizeof(piece), "a write of %u bytes", length);
    memset(piece, value, length);
    say_frame(h, FRAME_WRITE, offset, length);
    send_all(h->data, piece, length);
    return hear_answer(h);
}

/* ---- the flood ----------------------------------------------------------------------------- */

static bool flag(const bool *b) {
    return __atomic_load_n(b, __ATOMIC_ACQUIRE);
}
static void raise_flag(bool *b) {
    __atomic_store_n(b, true, __ATOMIC_RELEASE);
}
static void count(uint64_t *n, uint64_t by) {
    __atomic_fetch_add(n, by, __ATOMIC_RELAXED);
}

struct flood {
    struct hostile *h;
    uint8_t out[BATCH * (FRAME_BYTES + PIECE)];
    size_t out_size, out_sent;
    uint8_t in[FRAME_BYTES];
    size_t in_got;
    uint32_t payload; /* of the answer under way, still to come */
    uint8_t value;
};

/* Fills the buffer with writes all over the window, every turn with another byte, and a read. */
static void refill(struct flood *f) {
    struct hostile *h = f->h;
    f->out_size = f->out_sent = 0;
    f->value = (uint8_t)(f->value % 100 + 1);
    for (unsigned i = 0; i < BATCH - 1; i++) {
        uint64_t pieces = h->length / PIECE;
        struct frame w = {.type = FRAME_WRITE,
                          .length = PIECE,
                          .op = h->next_op++,
                          .slot = h->slot,
                          .key = h->key,
                          .offset = (h->next_op % pieces) * PIECE};
        frame_put(f->out + f->out_size, &w);
        memset(f->out + f->out_size + FRAME_BYTES, f->value, PIECE);
        f->out_size += FRAME_BYTES + PIECE;
    }
    struct frame r = {
        .type = FRAME_READ, .length = PIECE, .op = h->next_op++, .slot = h->slot, .key = h->key};
    frame_put(f->out + f->out_size, &r);
    f->out_size += FRAME_BYTES;
}

/* Where sending must pause: in the middle of the first payload, while stalled. */
static size_t send_limit(struct flood *f) {
    struct hostile *h = f->h;
    if (h->habit != HOSTILE_STALLS || flag(&h->resume) ||
        __atomic_load_n(&h->written, __ATOMIC_RELAXED) < h->length)
        return f->out_size;
    size_t middle = FRAME_BYTES + PIECE / 2;
    if (f->out_sent > middle)
        return f->out_size;
    if (f->out_sent == middle)
        raise_flag(&h->stalled);
    return middle;
}

static void note_end(struct hostile *h, ssize_t n) {
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        raise_flag(&h->lost);
}

static void push(struct flood *f) {
    size_t limit = send_limit(f);
    ssize_t n =
        send(f->h->data, f->out + f->out_sent, limit - f->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    note_end(f->h, n);
    if (n > 0) {
        f->out_sent += (size_t)n;
        count(&f->h->written, (uint64_t)n);
    }
    if (f->out_sent == f->out_size)
        refill(f);
}

/* A piece of what was read; none of it may be the secret. */
static void pull_payload(struct flood *f) {
    uint8_t buf[PIECE];
    struct hostile *h = f->h;
    uint64_t found = 0;
    ssize_t n = recv(h->data, buf, f->payload < PIECE ? f->payload : PIECE, MSG_DONTWAIT);
    note_end(h, n);
    for (ssize_t i = 0; i < n; i++)
        found += buf[i] == h->secret;
    if (n > 0)
        f->payload -= (uint32_t)n;
    count(&h->secrets, found);
}

/* Answers must be taken, or the owner stops reading us. */
static void pull(struct flood *f) {
    struct hostile *h = f->h;
    if (f->payload) {
        pull_payload(f);
        return;
    }
    ssize_t n = recv(h->data, f->in + f->in_got, FRAME_BYTES - f->in_got, MSG_DONTWAIT);
    note_end(h, n);
    if (n > 0)
        f->in_got += (size_t)n;
    if (f->in_got < FRAME_BYTES)
        return;
    struct frame answer;
    frame_get(&answer, f->in);
    f->in_got = 0;
    f->payload = frame_payload(&answer);
    if (answer.type == FRAME_STATUS && answer.status)
        count(&h->refused, 1);
}

static void listen_to_owner(struct flood *f) {
    struct hostile *h = f->h;
    struct peer_msg m;
    if (!false_peer_hear(&h->control, 0, &m) || m.type != PEER_MSG_REVOKED)
        return;
    raise_flag(&h->revoke_heard);
    if (h->habit != HOSTILE_LIAR)
        return;
    m = (struct peer_msg){.type = PEER_MSG_STOPPED, .stopped.owner_ref = h->owner_ref};
    false_peer_say(&h->control, &m);
}

static void *flood(void *arg) {
    struct flood *f = calloc(1, sizeof(*f));
    CHECK(f, "out of memory");
    f->h = arg;
    refill(f);
    while (!flag(&f->h->stop) && !flag(&f->h->lost)) {
        bool waiting = f->out_sent >= send_limit(f);
        struct pollfd p[2] = {
            {.fd = f->h->data, .events = (short)(waiting ? POLLIN : POLLIN | POLLOUT)},
            {.fd = f->h->control.fd, .events = POLLIN},
        };
        poll(p, 2, 1);
        if (p[0].revents & POLLOUT)
            push(f);
        if (p[0].revents & (POLLIN | POLLHUP | POLLERR))
            pull(f);
        if (p[1].revents & POLLIN)
            listen_to_owner(f);
    }
    free(f);
    return NULL;
}

void hostile_start(struct hostile *h, enum hostile_habit habit) {
    h->habit = habit;
    h->stop = h->revoke_heard = h->resume = h->stalled = h->lost = false;
    h->written = h->refused = h->secrets = 0;
    CHECK(pthread_create(&h->thread, NULL, flood, h) == 0, "thread");
}

void hostile_stop(struct hostile *h) {
    raise_flag(&h->stop);
    pthread_join(h->thread, NULL);
    close(h->data); /* a half-sent frame ends the connection anyway */
    h->data = -1;
}

void hostile_close(struct hostile *h) {
    if (h->data >= 0)
        close(h->data);
    false_peer_close(&h->control);
}
