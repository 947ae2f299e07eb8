/* SPDX-License-Identifier: MIT */
/*
 * copies.c - transfers of memory that is in no pool, by way of a small pool of the library's own,
 * and URIs as messages, which lie there, too.
 *
 * The happy path: the pool is made by the first such call. A copy takes one of its blocks, moves
 * the data piece by piece through it, and gives it back; when all blocks are taken it waits for
 * one. A URI has a place of its own size, because a receive may keep it for ever; a program that
 * has all of those waiting in receives is told so.
 */
#include "libclient/transfer/copies.h"
#include "common/uri.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/text.h"
#include "libclient/channel/channel.h"
#include "libclient/lease/lease.h"
#include "libclient/transfer/blocking.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 65536u
#define BLOCKS 16u
#define PLACE_BYTES 512u
#define PLACES 128u
#define POOL_BYTES (BLOCKS * BLOCK_BYTES + PLACES * PLACE_BYTES)

RDMAD_STATIC_ASSERT(PLACE_BYTES == RDMAD_URI_MAX + 1, "a place holds a URI and its NUL");

struct rdmad_copies {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    rdmad_pool *pool;
    char *base;
    char *free_block[BLOCKS], *free_place[PLACES];
    unsigned blocks, places; /* free */
};

void rdmad_copies_free(struct rdmad_copies *c) {
    if (!c)
        return;
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c); /* the pool is among the session's, and goes with them */
}

int rdmad_copies_new(struct rdmad_session *s) {
    struct rdmad_copies *c = calloc(1, sizeof(*c));
    if (!c)
        return rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a session");
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    s->copies = c;
    return 0;
}

/* The lock, and the blocks, may be those of threads that are the parent's. */
static bool copies_are_ours(struct rdmad_session *s) {
    if (!rdmad_is_inherited(s))
        return true;
    rdmad_fail_lost(s);
    return false;
}

/* With the lock. */
static int copies_make_pool(struct rdmad_session *s, struct rdmad_copies *c) {
    if (c->pool)
        return 0;
    int rc = rdmad_pool_create(s, POOL_BYTES, 0, &c->pool);
    if (rc)
        return rc;
    c->base = rdmad_pool_base(c->pool);
    for (c->blocks = 0; c->blocks < BLOCKS; c->blocks++)
        c->free_block[c->blocks] = c->base + (size_t)c->blocks * BLOCK_BYTES;
    for (c->places = 0; c->places < PLACES; c->places++)
        c->free_place[c->places] =
            c->base + (size_t)BLOCKS * BLOCK_BYTES + (size_t)c->places * PLACE_BYTES;
    return 0;
}

/* ---- copies -------------------------------------------------------------------------------- */

static int copies_take_block(struct rdmad_session *s, char **out) {
    struct rdmad_copies *c = s->copies;
    if (!copies_are_ours(s))
        return RDMAD_E_DAEMON_LOST;
    pthread_mutex_lock(&c->lock);
    int rc = copies_make_pool(s, c);
    if (!rc) {
        while (c->blocks == 0)
            pthread_cond_wait(&c->changed, &c->lock);
        *out = c->free_block[--c->blocks];
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

static void copies_give_block(struct rdmad_session *s, char *block) {
    struct rdmad_copies *c = s->copies;
    pthread_mutex_lock(&c->lock);
    c->free_block[c->blocks++] = block;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* In pieces, each by way of the same block: from data to the lease, or the other way. */
static int copies_move(rdmad_lease *lease, uint64_t offset, const char *from, char *to,
                       size_t length, bool writes) {
    size_t done = 0;
    char *block;
    int rc;

    rdmad_blocking_untouched();
    rc = copies_take_block(lease->session, &block);
    if (rc)
        return rc;
    do {
        size_t n = length - done < BLOCK_BYTES ? length - done : BLOCK_BYTES;
        if (writes && n)
            memcpy(block, from + done, n);
        rc = writes ? rdmad_write(lease, offset + done, block, n)
                    : rdmad_read(lease, offset + done, block, n);
        if (!rc && !writes && n)
            memcpy(to + done, block, n);
        else if (rc && done)
            rdmad_blocking_part_done();
        done += n;
    } while (!rc && done < length);
    copies_give_block(lease->session, block);
    return rc;
}

int rdmad_write_copy(rdmad_lease *lease, uint64_t offset, const void *data, size_t length) {
    RDMAD_LIVE(lease, LEASE);
    return copies_move(lease, offset, data, NULL, length, true);
}

int rdmad_read_copy(rdmad_lease *lease, uint64_t offset, void *data, size_t length) {
    RDMAD_LIVE(lease, LEASE);
    return copies_move(lease, offset, NULL, data, length, false);
}

/* ---- URIs as messages ---------------------------------------------------------------------- */

static int copies_take_place(struct rdmad_session *s, char **out) {
    struct rdmad_copies *c = s->copies;
    if (!copies_are_ours(s))
        return RDMAD_E_DAEMON_LOST;
    pthread_mutex_lock(&c->lock);
    int rc = copies_make_pool(s, c);
    if (!rc && c->places == 0)
        rc = rdmad_fail(s, RDMAD_E_LIMIT,
                        "%u leases are being sent or received on this session at once, and there "
                        "is no place for another: wait for one of them",
                        PLACES);
    if (!rc)
        *out = c->free_place[--c->places];
    pthread_mutex_unlock(&c->lock);
    return rc;
}

static void copies_give_place(struct rdmad_session *s, char *place) {
    pthread_mutex_lock(&s->copies->lock);
    s->copies->free_place[s->copies->places++] = place;
    pthread_mutex_unlock(&s->copies->lock);
}

int rdmad_send_lease(rdmad_channel *channel, const char *uri) {
    RDMAD_LIVE(channel, CHANNEL);
    struct rdmad_session *s = channel->session;
    struct rdmad_want want = {
        .opcode = RDMAD_OP_SEND, .flags = RDMAD_SQE_LEASE, .channel = channel->handle};
    char copy[PLACE_BYTES] = "", *place;
    struct rdmad_uri parsed;
    const char *why;
    rdmad_blocking_untouched();
    int rc = rdmad_copy_text(s, copy, sizeof(copy), uri, "lease URI", RDMAD_E_URI);
    if (!rc && (why = rdmad_uri_parse(copy, &parsed)))
        rc = rdmad_fail(s, RDMAD_E_URI, "malformed lease URI: %s", why);
    if (!rc)
        rc = copies_take_place(s, &place);
    if (rc)
        return rc;
    want.buffer = memcpy(place, copy, sizeof(copy));
    want.length = strlen(copy);
    rc = rdmad_blocking_do(s, &want, NULL);
    copies_give_place(s, place);
    return rc;
}

/* What the message is, as a string; a message is bytes of somebody else's. */
static int copies_read_uri(struct rdmad_session *s, const struct rdmad_cqe *cqe, const char *place,
                           char uri[PLACE_BYTES]) {
    if (!(cqe->flags & RDMAD_CQE_LEASE))
        return rdmad_fail(s, RDMAD_E_PROTOCOL,
                          "the message of %llu bytes is no lease (rdmad_send_lease sends one): "
                          "receive such with rdmad_recv",
                          (unsigned long long)cqe->bytes);
    if (cqe->bytes >= PLACE_BYTES)
        return rdmad_fail(s, RDMAD_E_PROTOCOL, "the message of %llu bytes is longer than any URI",
                          (unsigned long long)cqe->bytes);
    memcpy(uri, place, cqe->bytes);
    uri[cqe->bytes] = '\0';
    return 0;
}

/* RDMAD_E_TIMEOUT would say that nothing came; of a daemon that hangs it says that in any call. */
static int copies_attach(struct rdmad_session *s, const char *uri, rdmad_lease **out) {
    int rc = rdmad_lease_attach(s, uri, 0, out);
    if (rc != RDMAD_E_TIMEOUT || rdmad_is_lost(s))
        return rc;
    return rdmad_fail(s, RDMAD_E_UNREACHABLE,
                      "a lease came, and is lost unless it is sent again: %s", rdmad_error_said(s));
}

int rdmad_recv_lease(rdmad_channel *channel, int timeout_ms, rdmad_lease **out) {
    RDMAD_LIVE(channel, CHANNEL);
    struct rdmad_session *s = channel->session;
    struct rdmad_want want = {.opcode = RDMAD_OP_RECV,
                              .channel = channel->handle,
                              .length = PLACE_BYTES,
                              .timeout_ns = rdmad_blocking_timeout(timeout_ms)};
    struct rdmad_cqe cqe;
    char uri[PLACE_BYTES], *place;
    *out = NULL;
    rdmad_blocking_untouched();
    int rc = rdmad_check_wait(s, timeout_ms);
    if (!rc)
        rc = copies_take_place(s, &place);
    if (rc)
        return rc;
    want.buffer = place;
    rc = rdmad_blocking_do(s, &want, &cqe);
    if (!rc)
        rc = copies_read_uri(s, &cqe, place, uri);
    copies_give_place(s, place);
    return rc ? rc : copies_attach(s, uri, out);
}
