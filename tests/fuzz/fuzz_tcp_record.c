/* SPDX-License-Identifier: MIT */
/*
 * The stream of an encrypted data connection: what the peer sealed comes out whole and in its
 * order, and nothing comes after the first record that somebody on the way changed, repeated, left
 * out or made up, or that no engine sends.
 *
 * The first byte says in what pieces the stream comes and by which cipher. Then steps: a byte, two
 * of length, and so many bytes, which are sealed with the peer's keys unless the step says else.
 */
#include "daemon/base/log.h"
#include "daemon/fabric/tcp/secure.h"
#include "tests/fuzz/must.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAM_MAX (1u << 17)
#define INPUT_MAX (1u << 16)
#define KEY_LIFE 4u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum step { SEALED, TYPED, CHANGED, REPEATED, LEFT_OUT, IN_CLEAR, NEW_KEYS, CUT, STEPS };

static const uint8_t key_update[] = {24, 0, 0, 1, 0};

struct sender {
    struct record_keys keys;
    uint8_t stream[STREAM_MAX + RECORD_MAX];
    uint32_t used, last; /* where the last record begins */
    bool broken;         /* what comes now cannot be taken */
    bool refused;        /* and what has come has to be refused, whatever follows */
    uint8_t said[INPUT_MAX];
    uint32_t length[INPUT_MAX / 3], n, bytes; /* of the records that have to come out */
};

static void expect(struct sender *s, const uint8_t *content, uint32_t n) {
    memcpy(s->said + s->bytes, content, n);
    s->bytes += n;
    s->length[s->n++] = n;
}

static void seal(struct sender *s, const uint8_t *content, uint32_t n, unsigned type) {
    uint8_t *at = s->stream + s->used;
    memcpy(at + RECORD_HEADER, content, n);
    uint32_t made = record_seal(&s->keys, (enum record_type)type, at, n);
    must(made == RECORD_HEADER + n + 1 + RECORD_TAG);
    s->last = s->used;
    s->used += made;
}

/* What a receiver has to make of content and the type behind it, which padding may follow. */
static void judge(struct sender *s, const uint8_t *inner, uint32_t n) {
    while (n > 0 && inner[n - 1] == 0)
        n--;
    if (s->broken)
        return;
    if (n > 1 && inner[n - 1] == RECORD_DATA)
        expect(s, inner, n - 1);
    else if (n == sizeof(key_update) + 1 && inner[n - 1] == RECORD_HANDSHAKE &&
             !memcmp(inner, key_update, sizeof(key_update)) && s->keys.number > KEY_LIFE / 2)
        must(record_keys_next(&s->keys));
    else
        s->broken = s->refused = true;
}

/* What no key has sealed. Its header alone may be reason enough. */
static void put(struct sender *s, const uint8_t *bytes, uint32_t n) {
    if (!s->broken && n >= RECORD_HEADER) {
        unsigned size = (unsigned)bytes[3] << 8 | bytes[4];
        s->refused = bytes[0] != RECORD_DATA || bytes[1] != 3 || bytes[2] != 3 ||
                     size < 1 + RECORD_TAG || size > RECORD_CONTENT_MAX + 1 + RECORD_TAG ||
                     n >= RECORD_HEADER + size;
    }
    memcpy(s->stream + s->used, bytes, n);
    s->used += n;
    s->broken |= n > 0;
}

static void sealed(struct sender *s, const uint8_t *bytes, uint32_t n, unsigned type) {
    uint8_t inner[RECORD_INNER_MAX];
    memcpy(inner, bytes, n);
    inner[n] = (uint8_t)type;
    seal(s, bytes, n, type);
    judge(s, inner, n + 1);
}

/* One bit of the last record, header and tag included, is turned. */
static void change(struct sender *s, const uint8_t *bytes, uint32_t n) {
    seal(s, bytes, n, RECORD_DATA);
    uint32_t bit = n > 1 ? (uint32_t)(bytes[0] | bytes[1] << 8) : n;
    bit %= 8 * (s->used - s->last);
    s->stream[s->last + bit / 8] ^= (uint8_t)(1u << bit % 8);
    s->broken = true;
}

static void step(struct sender *s, unsigned what, const uint8_t *bytes, uint32_t n) {
    uint32_t size = s->used - s->last;
    switch ((enum step)(what % STEPS)) {
    case SEALED:
        sealed(s, bytes, n, RECORD_DATA);
        break;
    case TYPED: /* the last byte of the content is the type, or is padding */
        sealed(s, bytes, n ? n - 1 : 0, n ? bytes[n - 1] : 0);
        break;
    case CHANGED:
        change(s, bytes, n);
        break;
    case REPEATED:
        put(s, s->stream + s->last, size);
        break;
    case LEFT_OUT:
        seal(s, bytes, n, RECORD_DATA);
        s->used = s->last;
        s->broken = true;
        break;
    case IN_CLEAR:
        put(s, bytes, n);
        break;
    case NEW_KEYS:
        sealed(s, key_update, sizeof(key_update), RECORD_HANDSHAKE);
        break;
    default: /* CUT: its end is missing */
        seal(s, bytes, n, RECORD_DATA);
        s->used -= 1 + n % (s->used - s->last);
        s->broken = true;
    }
}

struct ear {
    struct secure *in;
    int fd;
    uint32_t n, bytes; /* that came out */
    bool refused;
};

/* Reads all there is. False: the stream has ended. */
static bool hear(struct ear *e, const struct sender *s) {
    static uint8_t to[RECORD_INNER_MAX];
    size_t asked;
    ssize_t got;
    while ((got = secure_read(e->in, e->fd, to, &asked)) > 0) {
        must(e->n < s->n && s->length[e->n] == (uint32_t)got);
        must(!memcmp(to, s->said + e->bytes, (size_t)got));
        e->bytes += s->length[e->n++];
    }
    if (got < 0 && errno == EAGAIN)
        return true;
    e->refused = got < 0;
    if (e->refused)
        must(s->broken && errno == EBADMSG && e->in->wrong && *e->in->wrong);
    return false;
}

static void read_in_pieces(const struct sender *s, struct secure *in, uint32_t piece) {
    bool goes_on = true;
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    struct ear e = {.in = in, .fd = pair[1]};
    for (uint32_t at = 0; goes_on && at < s->used;) {
        uint32_t size = s->used - at < piece ? s->used - at : piece;
        ssize_t sent = send(pair[0], s->stream + at, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        must(sent > 0);
        at += (uint32_t)sent;
        goes_on = hear(&e, s);
    }
    close(pair[0]);
    if (goes_on)
        must(!hear(&e, s));
    must(e.n == s->n && (e.refused || !s->refused));
    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t secret[RECORD_SECRET_BYTES] = {1, 2, 3};
    static struct sender s;
    static uint8_t coming[SECURE_IN_BYTES];
    struct secure in = {.coming = coming, .key_life = KEY_LIFE};
    if (size < 1 || size > INPUT_MAX)
        return -1;
    log_set_level(LOG_EMERG);
    enum aead_suite suite = data[0] & 1 ? AEAD_CHACHA20_POLY1305 : AEAD_AES_128_GCM;
    s.used = s.last = s.n = s.bytes = 0;
    s.broken = s.refused = false;
    must(record_keys_init(&s.keys, suite, secret, true));
    must(record_keys_init(&in.in, suite, secret, false));
    for (size_t at = 1; at + 3 <= size && s.used < STREAM_MAX && !s.refused;) {
        uint32_t n = (uint32_t)(data[at + 1] | data[at + 2] << 8);
        const uint8_t *bytes = data + at + 3;
        if (n > size - at - 3)
            n = (uint32_t)(size - at - 3);
        if (n > RECORD_CONTENT_MAX)
            n = RECORD_CONTENT_MAX;
        step(&s, data[at], bytes, n);
        at += 3 + n;
    }
    read_in_pieces(&s, &in, data[0] & 2 ? 1u + data[0] / 4 : 32768);
    record_keys_fini(&s.keys);
    record_keys_fini(&in.in);
    return 0;
}
