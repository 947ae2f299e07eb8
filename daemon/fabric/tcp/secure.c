/* SPDX-License-Identifier: MIT */
/*
 * secure.c - records on a socket.
 *
 * Reading. A recv takes what fits; records are then opened one at a time, so that the content of
 * each is still in the nearest cache when it is copied to where it belongs. Only records of data
 * and changes of keys are heard. Anything else, or a record that does not open, ends the stream.
 *
 * A peer may make records as small as it likes, and each costs more than its bytes tell; so each
 * counts some bytes more (cost). Empty ones are nothing that an engine sends. Keys change no sooner
 * than half of their life.
 *
 * A stream that is cut says so no better than a socket: what a broken connection means for ops is
 * the same (fabric.h), so there is no closing alert.
 */
#include "daemon/fabric/tcp/secure.h"
#include "daemon/base/undumped.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define KEY_UPDATE_BYTES 5u /* type, length, "do not answer" */
#define RECORD_OVERHEAD (RECORD_HEADER + 1 + RECORD_TAG)
#define KEY_UPDATE_RECORD (RECORD_OVERHEAD + KEY_UPDATE_BYTES)
static const uint8_t key_update[KEY_UPDATE_BYTES] = {24, 0, 0, 1, 0};

static ssize_t broken(struct secure *s, const char *why) {
    s->wrong = why;
    errno = EBADMSG;
    return -1;
}

/* ---- coming and going -------------------------------------------------------------------- */

static struct secure *secure_new(void) {
    struct secure *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->key_life = RECORD_KEY_LIFE;
    s->coming = malloc(SECURE_IN_BYTES);
    s->going = undumped_new(SECURE_OUT_BYTES); /* in which it is in clear until it is sealed */
    if (s->coming && s->going)
        return s;
    secure_free(s);
    return NULL;
}

void secure_free(struct secure *s) {
    if (!s)
        return;
    handshake_free(s->handshake);
    record_keys_fini(&s->in);
    record_keys_fini(&s->out);
    free(s->coming);
    undumped_free(s->going, SECURE_OUT_BYTES);
    free(s);
}

/* The handshake is done. False: no memory. */
static bool take_keys(struct secure *s, struct handshake *h, bool dialled) {
    struct handshake_keys keys;
    s->head = 0;
    s->tail = (uint32_t)handshake_result(h, &keys, s->coming);
    bool good =
        record_keys_init(&s->in, keys.suite, dialled ? keys.acceptor : keys.dialler, false) &&
        record_keys_init(&s->out, keys.suite, dialled ? keys.dialler : keys.acceptor, true);
    explicit_bzero(&keys, sizeof keys);
    return good;
}

struct secure *secure_accept(struct handshake *h) {
    struct secure *s = secure_new();
    if (s && take_keys(s, h, false))
        return s;
    secure_free(s);
    return NULL;
}

struct secure *secure_dial(struct ssl_ctx_st *context, const uint8_t key[HANDSHAKE_KEY_BYTES]) {
    struct secure *s = secure_new();
    if (s && (s->handshake = handshake_new(context, true, key)))
        return s;
    secure_free(s);
    return NULL;
}

/* ---- the dialler's handshake ------------------------------------------------------------- */

/* Sends what the handshake has to say. A socket takes so little at once, or is broken. */
static bool handshake_send(struct handshake *h, int fd) {
    uint8_t bytes[HANDSHAKE_SEND];
    size_t n = handshake_take(h, bytes);
    if (n == 0)
        return true;
    ssize_t sent = send(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0 || errno == EAGAIN)
        errno = ENOBUFS;
    return sent == (ssize_t)n;
}

bool secure_begin(struct secure *s, int fd) {
    if (handshake_step(s->handshake, NULL, 0) != HANDSHAKE_FAILED)
        return handshake_send(s->handshake, fd);
    broken(s, handshake_why(s->handshake));
    return false;
}

/* Nothing for the caller comes of it; *asked says whether to go on. */
static ssize_t handshake_read(struct secure *s, int fd, size_t *asked) {
    uint8_t bytes[HANDSHAKE_READ];
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    *asked = sizeof bytes;
    if (n <= 0)
        return n;
    s->cost += SECURE_HANDSHAKE_COST;
    enum handshake_state state = handshake_step(s->handshake, bytes, (size_t)n);
    if (!handshake_send(s->handshake, fd) && state != HANDSHAKE_FAILED)
        return -1;
    if (state == HANDSHAKE_FAILED)
        return broken(s, handshake_why(s->handshake));
    if (state == HANDSHAKE_DONE) {
        bool good = take_keys(s, s->handshake, true);
        handshake_free(s->handshake);
        s->handshake = NULL;
        if (!good)
            return broken(s, "no memory for its keys");
    }
    errno = EINTR; /* there may be more */
    return -1;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Fills the buffer. Returns as recv does. */
static ssize_t secure_fill(struct secure *s, int fd) {
    uint32_t kept = s->tail - s->head;
    memmove(s->coming, s->coming + s->head, kept);
    s->head = 0;
    s->tail = kept;
    ssize_t n = recv(fd, s->coming + kept, SECURE_IN_BYTES - kept, MSG_DONTWAIT);
    s->drained = n < (ssize_t)(SECURE_IN_BYTES - kept);
    if (n > 0)
        s->tail += (uint32_t)n;
    return n;
}

/* The size of the record that is whole at head; 0: none is. What is none is whole, too. */
static uint32_t whole_record_size(const struct secure *s, const char **wrong) {
    uint32_t have = s->tail - s->head;
    uint32_t size = record_size(s->coming + s->head, have, wrong);
    return *wrong || size <= have ? size : 0;
}

/* False: it is not what an engine sends. */
static bool take_key_update(struct secure *s, const uint8_t *content, ssize_t n) {
    return n == KEY_UPDATE_BYTES && !memcmp(content, key_update, sizeof key_update) &&
           s->in.number > s->key_life / 2 && record_keys_next(&s->in);
}

/* Opens the record at head. Returns the bytes of its content; 0: it had none for the caller. */
static ssize_t take_record(struct secure *s, uint32_t size, uint8_t *to) {
    enum record_type type;
    ssize_t n = record_open(&s->in, s->coming + s->head, size, to, &type);
    s->head += size;
    s->cost += SECURE_RECORD_COST;
    if (n < 0)
        return broken(s, "a record was changed, lost or repeated on its way");
    if (type == RECORD_HANDSHAKE && take_key_update(s, to, n))
        return 0;
    if (type != RECORD_DATA)
        return broken(s, type == RECORD_ALERT ? "it ended the encrypted stream"
                                              : "it sent a record of a kind that is never sent");
    if (n == 0)
        return broken(s, "it sent an empty record");
    return n;
}

ssize_t secure_read(struct secure *s, int fd, uint8_t *to, size_t *asked) {
    if (s->handshake)
        return handshake_read(s, fd, asked);
    for (;;) {
        const char *wrong;
        uint32_t size = whole_record_size(s, &wrong);
        if (size == 0) {
            ssize_t got = secure_fill(s, fd);
            if (got <= 0)
                return got;
            size = whole_record_size(s, &wrong);
        }
        if (wrong)
            return broken(s, wrong);
        if (size == 0) {
            errno = EAGAIN;
            return -1;
        }
        ssize_t n = take_record(s, size, to);
        if (n == 0)
            continue;
        *asked = (size_t)n + (s->drained && whole_record_size(s, &wrong) == 0);
        return n;
    }
}

/* ---- writing ----------------------------------------------------------------------------- */

/* Adds a record to what is going. False: OpenSSL failed. */
static bool seal(struct secure *s, enum record_type type, uint32_t n) {
    uint32_t size = record_seal(&s->out, type, s->going + s->end, n);
    s->end += size;
    s->record[s->records].end = s->end;
    s->record[s->records++].content = type == RECORD_DATA ? n : 0;
    return size > 0;
}

static bool keys_renew(struct secure *s) {
    memcpy(s->going + s->end + RECORD_HEADER, key_update, sizeof key_update);
    return seal(s, RECORD_HANDSHAKE, sizeof key_update) && record_keys_next(&s->out);
}

/* How much the next record may hold, behind a change of keys; 0: nothing more fits. */
static size_t seal_room(const struct secure *s) {
    const size_t used = s->end + KEY_UPDATE_RECORD + RECORD_OVERHEAD;
    if (s->records + 2 > SECURE_RECORDS || used >= SECURE_OUT_BYTES)
        return 0;
    size_t room = SECURE_OUT_BYTES - used;
    return room < RECORD_CONTENT_MAX ? room : RECORD_CONTENT_MAX;
}

/* One record of what is queued. Returns how many bytes it has; 0: none, -1: errno. */
static ssize_t seal_next(struct secure *s, struct outq *q) {
    size_t room = seal_room(s);
    if (room == 0 || outq_empty(q))
        return 0;
    if (s->out.number >= s->key_life && !keys_renew(s))
        return broken(s, "no memory for new keys");
    ssize_t n = outq_take(q, s->going + s->end + RECORD_HEADER, room);
    if (n > 0 && !seal(s, RECORD_DATA, (uint32_t)n))
        return broken(s, "the cipher failed");
    return n;
}

/* Returns how much of the queue was sealed, or -1 and errno if that is nothing, or is not all that
 * was taken from it. */
static ssize_t seal_all(struct secure *s, struct outq *q) {
    ssize_t all = 0, n;
    s->sent = s->end = s->records = 0;
    while ((n = seal_next(s, q)) > 0)
        all += n;
    return n < 0 && (all == 0 || errno == EBADMSG) ? n : all;
}

uint64_t secure_kept(const struct secure *s) {
    uint64_t kept = 0;
    for (uint32_t i = 0; i < s->records; i++)
        kept += s->record[i].end > s->sent ? s->record[i].content : 0;
    return kept;
}

ssize_t secure_write(struct secure *s, int fd, struct outq *q, size_t *asked) {
    ssize_t taken = 0;
    if (!secure_unsent(s)) {
        taken = seal_all(s, q);
        if (taken < 0)
            return -1;
    }
    ssize_t n = send(fd, s->going + s->sent, s->end - s->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && taken == 0)
        return -1;
    if (n > 0)
        s->sent += (uint32_t)n;
    *asked = (size_t)taken + secure_unsent(s);
    return taken;
}
