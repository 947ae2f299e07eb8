/* SPDX-License-Identifier: MIT */
#include "pki/join_message.h"
#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "RDJN"
#define HEAD 12u /* length, magic, version, kind */

void join_bytes_free(struct join_bytes *bytes) {
    if (bytes->data)
        OPENSSL_cleanse(bytes->data, bytes->size);
    free(bytes->data);
    *bytes = (struct join_bytes){0};
}

/* ---- printing ------------------------------------------------------------------------------- */

static uint8_t *put(uint8_t *to, const void *from, size_t size) {
    if (size)
        memcpy(to, from, size);
    return to + size;
}

static uint8_t *put_be32(uint8_t *to, uint32_t n) {
    n = htonl(n);
    return put(to, &n, sizeof(n));
}

static uint8_t *put_be16(uint8_t *to, uint16_t n) {
    n = htons(n);
    return put(to, &n, sizeof(n));
}

static uint8_t *put_blob(uint8_t *to, const struct join_blob *blob) {
    return put(put_be32(to, (uint32_t)blob->size), blob->data, blob->size);
}

/* The blobs of a kind, in order. */
static unsigned blobs_of(const struct join_message *m, const struct join_blob *text,
                         const struct join_blob *out[3]) {
    switch (m->kind) {
    case JOIN_TOKEN:
    case JOIN_RENEW:
        out[0] = &m->request;
        return 1;
    case JOIN_GRANTED:
        out[0] = &m->cert;
        out[1] = &m->ca;
        out[2] = &m->list;
        return 3;
    case JOIN_LISTED:
        out[0] = &m->list;
        return 1;
    case JOIN_REFUSED:
        out[0] = text;
        return 1;
    case JOIN_LIST:
        break;
    }
    return 0;
}

int join_message_print(const struct join_message *m, struct join_bytes *out,
                       struct pki_error *err) {
    const struct join_blob text = {(const uint8_t *)m->text, strlen(m->text)}, *blobs[3];
    unsigned count = blobs_of(m, &text, blobs);
    size_t size = HEAD, max = m->kind < JOIN_GRANTED ? JOIN_REQUEST_MAX : JOIN_REPLY_MAX;
    if (m->kind == JOIN_TOKEN)
        size += sizeof(m->id) + sizeof(m->secret);
    if (m->kind == JOIN_REFUSED)
        size += 4;
    for (unsigned i = 0; i < count; i++)
        size += 4 + blobs[i]->size;
    if (size > max)
        return pki_fail(err, RDMAD_E_LENGTH, "a message of %zu bytes, at most %zu are sent", size,
                        max);
    uint8_t *at = malloc(size);
    if (!at)
        return pki_fail(err, RDMAD_E_NOMEM, "out of memory for a message");
    *out = (struct join_bytes){at, size};
    at = put(put_be32(at, (uint32_t)(size - 4)), MAGIC, 4);
    at = put_be16(put_be16(at, JOIN_VERSION), (uint16_t)m->kind);
    if (m->kind == JOIN_TOKEN)
        at = put(put(at, m->id, sizeof(m->id)), m->secret, sizeof(m->secret));
    if (m->kind == JOIN_REFUSED)
        at = put_be32(at, (uint32_t)m->code);
    for (unsigned i = 0; i < count; i++)
        at = put_blob(at, blobs[i]);
    return RDMAD_OK;
}

/* ---- parsing -------------------------------------------------------------------------------- */

struct cursor {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static const uint8_t *take(struct cursor *c, size_t size) {
    const uint8_t *from = c->at;
    if (c->bad || size > c->left) {
        c->bad = true;
        return NULL;
    }
    c->at += size;
    c->left -= size;
    return from;
}

static void take_into(struct cursor *c, void *to, size_t size) {
    const uint8_t *from = take(c, size);
    if (from)
        memcpy(to, from, size);
}

static uint32_t take_be32(struct cursor *c) {
    uint32_t n = 0;
    take_into(c, &n, sizeof(n));
    return ntohl(n);
}

static uint16_t take_be16(struct cursor *c) {
    uint16_t n = 0;
    take_into(c, &n, sizeof(n));
    return ntohs(n);
}

static void take_blob(struct cursor *c, struct join_blob *out) {
    size_t size = take_be32(c);
    out->data = take(c, size);
    out->size = out->data ? size : 0;
}

static void take_text(struct cursor *c, char out[RDMAD_TEXT_MAX + 1]) {
    struct join_blob blob;
    take_blob(c, &blob);
    size_t size = blob.size < RDMAD_TEXT_MAX ? blob.size : RDMAD_TEXT_MAX;
    for (size_t i = 0; i < size; i++)
        out[i] = (char)(blob.data[i] < ' ' || blob.data[i] >= 0x7f ? '?' : blob.data[i]);
    out[size] = '\0';
}

static int parse_body(struct cursor *c, struct join_message *m, struct pki_error *err) {
    switch (m->kind) {
    case JOIN_TOKEN:
        take_into(c, m->id, sizeof(m->id));
        take_into(c, m->secret, sizeof(m->secret));
        take_blob(c, &m->request);
        break;
    case JOIN_RENEW:
        take_blob(c, &m->request);
        break;
    case JOIN_LIST:
        break;
    case JOIN_GRANTED:
        take_blob(c, &m->cert);
        take_blob(c, &m->ca);
        take_blob(c, &m->list);
        break;
    case JOIN_LISTED:
        take_blob(c, &m->list);
        break;
    case JOIN_REFUSED:
        m->code = (int)take_be32(c);
        take_text(c, m->text);
        if (m->code >= 0)
            c->bad = true;
        break;
    default:
        return pki_fail(err, RDMAD_E_TYPE,
                        "a message of kind %u is not known to the joining "
                        "protocol's version %u",
                        (unsigned)m->kind, JOIN_VERSION);
    }
    if (c->bad || c->left)
        return pki_fail(err, RDMAD_E_PROTOCOL, "a message of the joining protocol is malformed");
    return RDMAD_OK;
}

int join_message_parse(const uint8_t *data, size_t size, struct join_message *out,
                       struct pki_error *err) {
    struct cursor c = {.at = data, .left = size};
    struct join_message m = {0};
    uint32_t length = take_be32(&c);
    const uint8_t *magic = take(&c, 4);
    unsigned version = take_be16(&c);
    m.kind = take_be16(&c);
    if (c.bad || length != size - 4 || memcmp(magic, MAGIC, 4) != 0)
        return pki_fail(err, RDMAD_E_PROTOCOL, "what came is no message of the joining protocol");
    if (version != JOIN_VERSION)
        return pki_fail(
            err, RDMAD_E_VERSION,
            "the other side speaks version %u of the joining protocol, this one %u; use "
            "the same rdmad on both",
            version, JOIN_VERSION);
    int rc = parse_body(&c, &m, err);
    if (!rc)
        *out = m;
    OPENSSL_cleanse(m.secret, sizeof(m.secret));
    return rc;
}

/* ---- collecting ----------------------------------------------------------------------------- */

void join_inbox_init(struct join_inbox *in, size_t max) {
    *in = (struct join_inbox){.room = sizeof(in->head), .max = max};
}

void join_inbox_fini(struct join_inbox *in) {
    struct join_bytes bytes = {in->data, in->data ? in->room : 0};
    join_bytes_free(&bytes);
    in->data = NULL;
}

/* The length is known: room for the whole. */
static int inbox_grow(struct join_inbox *in, struct pki_error *err) {
    uint32_t length;
    memcpy(&length, in->head, sizeof(length));
    size_t whole = (size_t)ntohl(length) + sizeof(length);
    if (whole > in->max || whole < HEAD)
        return pki_fail(err, RDMAD_E_LENGTH,
                        "a message of the joining protocol says that it has %zu bytes; %u to %zu "
                        "are taken",
                        whole, HEAD, in->max);
    in->data = malloc(whole);
    if (!in->data)
        return pki_fail(err, RDMAD_E_NOMEM, "out of memory for a message");
    memcpy(in->data, in->head, sizeof(in->head));
    in->room = whole;
    return RDMAD_OK;
}

int join_inbox_take(struct join_inbox *in, const uint8_t *bytes, size_t size,
                    struct pki_error *err) {
    while (size) {
        if (in->data && in->used == in->room)
            return pki_fail(err, RDMAD_E_LENGTH,
                            "something follows a message of the joining "
                            "protocol");
        size_t n = in->room - in->used < size ? in->room - in->used : size;
        memcpy((in->data ? in->data : in->head) + in->used, bytes, n);
        in->used += n;
        bytes += n;
        size -= n;
        if (!in->data && in->used == sizeof(in->head)) {
            int rc = inbox_grow(in, err);
            if (rc)
                return rc;
        }
    }
    return in->data && in->used == in->room ? RDMAD_OK : JOIN_MORE;
}
