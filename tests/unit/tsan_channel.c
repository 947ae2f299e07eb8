/* SPDX-License-Identifier: MIT */
/*
 * tsan_channel.c - a channel between clients of two workers: each worker copies from a buffer of
 * the other's client, and asks it back; sessions go in mid-copy.
 *
 * A plain main, because ThreadSanitizer does not start under Criterion. A buffer is written to
 * again as soon as its op has ended: a copy still running would be a race.
 */
#include "common/ringword.h"
#include "daemon/base/clock.h"
#include "daemon/base/guard.h"
#include "daemon/ipc/ring.h"
#include "daemon/plane/plane.h"
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

#define HANDLE (UINT64_C(1) << 32)
#define DEPTH 8u
#define BUFFER (64u * 1024u)
#define PATIENCE_MS 60000

struct client {
    struct plane_session *session;
    struct ring *ring;
    int fds[RING_FDS];
    struct rdmad_ring_client *words;
    struct rdmad_sqe *sqe;
    uint32_t sq_tail, cq_head;
    uint8_t *pool;
    struct plane_channel_stats stats;
    pthread_t thread;
    unsigned rounds, done, ended;
    bool gone; /* atomic: its session was dropped, what it put last is not answered */
};

static struct mailbox control;
static struct plane *plane;
static unsigned answers, closed;

static void on_done(void *arg, const struct error *result) {
    (void)arg;
    CHECK(result->code == 0);
    answers++;
}

static void on_violated(void *user, void *cookie, const struct error *why) {
    (void)user;
    (void)cookie;
    fprintf(stderr, "%s\n", why->text);
    abort();
}

static void on_closed(void *user, void *cookie, const struct error *why) {
    (void)user;
    (void)cookie;
    CHECK(why->code == RDMAD_E_CLOSED || why->code == RDMAD_E_CANCELED);
    closed++;
}

static void await(unsigned count) {
    while (answers < count) {
        struct pollfd p = {.fd = control.fd, .events = POLLIN};
        CHECK(poll(&p, 1, PATIENCE_MS) == 1);
        mailbox_drain(&control);
    }
}

/* ---- clients ----------------------------------------------------------------------------- */

static void put(struct client *c, uint8_t opcode, unsigned slot, uint64_t length) {
    c->sqe[c->sq_tail & (c->ring->sq_entries - 1)] =
        (struct rdmad_sqe){.opcode = opcode,
                           .pool = HANDLE,
                           .pool_offset = (uint64_t)slot * BUFFER,
                           .length = length,
                           .lease = HANDLE,
                           .user_data = slot};
    if (ringword_publish_and_ask(&c->words->sq_tail, ++c->sq_tail, &c->ring->daemon->sq_wait))
        eventfd_write(c->fds[3], 1);
}

static bool take(struct client *c, struct rdmad_cqe *out) {
    uint64_t limit = clock_now_ns() + PATIENCE_MS * NSEC_PER_MSEC;
    while (ringword_peek(&c->ring->daemon->cq_tail) == c->cq_head) {
        if (__atomic_load_n(&c->gone, __ATOMIC_ACQUIRE))
            return false;
        sched_yield();
        CHECK(clock_now_ns() < limit);
    }
    *out = c->ring->cqe[c->cq_head & (c->ring->cq_entries - 1)];
    ringword_publish(&c->words->cq_head, ++c->cq_head);
    return true;
}

static uint64_t length_of(unsigned n) {
    static const uint64_t lengths[] = {1, 100, 4000, BUFFER, 16000, 30000};
    return lengths[n % 6];
}

/* Keeps DEPTH ops of one kind going; each buffer is touched as soon as its op has ended. */
static void *client_main(void *arg, uint8_t opcode) {
    struct client *c = arg;
    unsigned put_in = 0;
    for (; put_in < DEPTH; put_in++) {
        memset(c->pool + (size_t)put_in * BUFFER, (int)put_in, BUFFER);
        put(c, opcode, put_in, opcode == RDMAD_OP_SEND ? length_of(put_in) : BUFFER);
    }
    struct rdmad_cqe cqe;
    for (unsigned ended = 0; ended < put_in && take(c, &cqe); ended++) {
        uint8_t *at = c->pool + cqe.user_data * BUFFER;
        CHECK(cqe.status == RDMAD_OK || cqe.status == RDMAD_E_CLOSED ||
              cqe.status == RDMAD_E_CANCELED || cqe.status == RDMAD_E_HANDLE);
        if (cqe.status) {
            c->ended++;
            continue;
        }
        CHECK(cqe.bytes == 0 || at[0] == at[cqe.bytes - 1]);
        c->done++;
        if (put_in == c->rounds)
            continue;
        memset(at, (int)put_in, BUFFER);
        put(c, opcode, (unsigned)cqe.user_data,
            opcode == RDMAD_OP_SEND ? length_of(put_in) : BUFFER);
        put_in++;
    }
    return NULL;
}

static void *sender(void *arg) {
    return client_main(arg, RDMAD_OP_SEND);
}
static void *receiver(void *arg) {
    return client_main(arg, RDMAD_OP_RECV);
}

/* ---- the control thread's side ----------------------------------------------------------- */

static void client_up(struct client *c, uint64_t number, unsigned rounds) {
    struct error err;
    *c = (struct client){.rounds = rounds};
    CHECK(ring_create(64, 64, &c->ring, c->fds, &err) == 0);
    c->words = (void *)(uintptr_t)c->ring->client;
    c->sqe = (void *)(uintptr_t)c->ring->sqe;
    CHECK(mprotect(c->words, c->ring->client_bytes, PROT_READ | PROT_WRITE) == 0);
    c->pool = calloc(DEPTH, BUFFER);
    c->session = plane_session_add(plane, number, (struct user_id){0}, c);
    const struct plane_channel_spec spec = {.number = number, .stats = &c->stats, .cookie = c};
    unsigned before = answers;
    plane_ring_add(c->session, HANDLE, c->ring, on_done, NULL);
    plane_pool_add(c->session, HANDLE, c->pool, DEPTH * BUFFER, NULL, on_done, NULL);
    plane_channel_add(c->session, HANDLE, &spec, on_done, NULL);
    await(before + 3);
}

static void client_drop(struct client *c) {
    unsigned before = answers;
    plane_session_drop(c->session, on_done, NULL);
    await(before + 1);
    memset(c->pool, 0xaa, DEPTH * BUFFER); /* ours again */
    c->session = NULL;
}

static void client_free(struct client *c) {
    if (c->session)
        client_drop(c);
    for (int i = 0; i < RING_FDS; i++)
        close(c->fds[i]);
    ring_destroy(c->ring);
    free(c->pool);
}

static void pair_up(struct client c[2], unsigned rounds) {
    client_up(&c[0], 1, rounds);
    client_up(&c[1], 2, rounds);
    CHECK(plane_worker_of_session(c[0].session) != plane_worker_of_session(c[1].session));
    for (unsigned i = 0; i < 2; i++)
        plane_channel_open(c[i].session, HANDLE, 2 - i, c[!i].session);
    CHECK(pthread_create(&c[0].thread, NULL, sender, &c[0]) == 0);
    CHECK(pthread_create(&c[1].thread, NULL, receiver, &c[1]) == 0);
}

static void every_message_arrives(unsigned rounds) {
    struct client c[2];
    pair_up(c, rounds);
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(c[i].thread, NULL);
        CHECK(c[i].done == rounds && c[i].ended == 0);
    }
    CHECK(__atomic_load_n(&c[1].stats.messages_received, __ATOMIC_RELAXED) == rounds);
    client_free(&c[0]);
    client_free(&c[1]);
}

/* The channel of one ends in order or abruptly, or its session goes, while both are at it. */
static void ends_in_mid_traffic(unsigned times) {
    for (unsigned n = 0; n < times; n++) {
        struct client c[2];
        unsigned which = n % 2, before = answers, told = closed;
        pair_up(c, UINT32_MAX);
        usleep(n * 37 % 3000);
        plane_channel_end(c[which].session, HANDLE, RDMAD_E_CLOSED, n % 3 == 0, on_done, NULL);
        if (n % 3 == 2) {
            plane_channel_forget(c[which].session, HANDLE);
            plane_session_drop(c[which].session, on_done, NULL);
            c[which].session = NULL;
        }
        pthread_join(c[!which].thread, NULL);
        if (c[which].session)
            pthread_join(c[which].thread, NULL);
        await(before + 7 + (n % 3 == 2));
        CHECK(closed == told + 1);
        if (n % 3 == 2) {
            __atomic_store_n(&c[which].gone, true, __ATOMIC_RELEASE);
            pthread_join(c[which].thread, NULL);
        }
        client_free(&c[0]);
        client_free(&c[1]);
    }
}

int main(void) {
    struct plane_settings settings = {.workers = 2,
                                      .spin_max_ns = 20000,
                                      .default_timeout_ns = 60 * NSEC_PER_SEC,
                                      .max_timeout_ns = 60 * NSEC_PER_SEC,
                                      .max_session_ops = 64,
                                      .max_uid_ops = 16384,
                                      .max_ops = 32768,
                                      .max_session_waits = 8192,
                                      .max_uid_waits = 16384,
                                      .max_waits = 32768,
                                      .fabrics = {&fabric_local}};
    struct plane_events events = {.session_violated = on_violated, .channel_closed = on_closed};
    struct error err;
    CHECK(guard_install() == 0);
    CHECK(mailbox_init(&control) == 0);
    CHECK(plane_start(&settings, &events, &control, &plane, &err) == 0);
    every_message_arrives(20000);
    ends_in_mid_traffic(120);
    mailbox_drain(&control);
    plane_stop(plane);
    mailbox_fini(&control);
    puts("channels between workers: no race seen");
    return 0;
}
