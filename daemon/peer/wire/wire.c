/* SPDX-License-Identifier: MIT */
/*
 * wire.c - frames to structs and back.
 *
 * Every message is described once (wire_lease.c, wire_channel.c), by a walk over its fields that a
 * cursor turns into writing or reading: the two cannot disagree. A check follows for what only
 * makes sense in some values. The bytes come from outside: the cursor never leaves its frame, texts
 * are terminated and printable when they come out, numbers that we use as codes are codes we know.
 */
#include "daemon/peer/wire/wire.h"
#include "daemon/peer/wire/wire_form.h"
#include <string.h>

/* The next n bytes of the frame, NULL when it is too short. */
static uint8_t *step(struct cursor *c, size_t n) {
    uint8_t *p = c->at;
    if (c->bad || (size_t)(c->end - p) < n) {
        c->bad = true;
        return NULL;
    }
    c->at += n;
    return p;
}

static uint64_t walk_number(struct cursor *c, uint64_t value, size_t n) {
    uint8_t *p = step(c, n);
    if (!p)
        return 0;
    if (!c->reading) {
        for (size_t i = 0; i < n; i++)
            p[i] = (uint8_t)(value >> (8 * i));
        return value;
    }
    value = 0;
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

void wire_u16(struct cursor *c, uint16_t *v) {
    *v = (uint16_t)walk_number(c, *v, 2);
}
void wire_u32(struct cursor *c, uint32_t *v) {
    *v = (uint32_t)walk_number(c, *v, 4);
}
void wire_i32(struct cursor *c, int32_t *v) {
    *v = (int32_t)(uint32_t)walk_number(c, (uint32_t)*v, 4);
}
void wire_u64(struct cursor *c, uint64_t *v) {
    *v = walk_number(c, *v, 8);
}

void wire_bytes(struct cursor *c, uint8_t *v, size_t n) {
    uint8_t *p = step(c, n);
    if (p && c->reading)
        memcpy(v, p, n);
    else if (p)
        memcpy(p, v, n);
}

void wire_text(struct cursor *c, char *v, size_t size) {
    if (!c->reading) {
        size_t n = strnlen(v, size - 1);
        uint8_t *p = step(c, size);
        if (p) {
            memset(p, 0, size);
            memcpy(p, v, n);
        }
        return;
    }
    wire_bytes(c, (uint8_t *)v, size);
    size_t n = strnlen(v, size);
    for (size_t i = n; i < size; i++)
        c->bad |= v[i] != 0;
    c->bad |= n == size;
    v[size - 1] = '\0';
    for (size_t i = 0; i < n; i++)
        if ((uint8_t)v[i] < 0x20 || v[i] == 0x7f)
            v[i] = '?';
}

void wire_blob(struct cursor *c, struct fabric_blob *v) {
    wire_bytes(c, &v->size, 1);
    c->bad |= v->size > sizeof(v->bytes);
    if (c->bad)
        return;
    if (!c->reading)
        memset(v->bytes + v->size, 0, sizeof(v->bytes) - v->size);
    wire_bytes(c, v->bytes, sizeof(v->bytes));
    for (size_t i = v->size; i < sizeof(v->bytes); i++)
        c->bad |= v->bytes[i] != 0;
}

/* ---- frames ------------------------------------------------------------------------------ */

/* NULL: there is no such type. */
static const struct peer_form *form_of(uint16_t type) {
    if (type >= PEER_MSG_COUNT)
        return NULL;
    if (peer_lease_forms[type].walk)
        return &peer_lease_forms[type];
    return peer_channel_forms[type].walk ? &peer_channel_forms[type] : NULL;
}

const char *peer_wire_name(uint16_t type) {
    const struct peer_form *f = form_of(type);
    return f ? f->name : "?";
}

static void walk_head(struct cursor *c, uint16_t head[4]) {
    for (int i = 0; i < 4; i++)
        wire_u16(c, &head[i]);
}

size_t peer_wire_encode(const struct peer_msg *m, uint8_t frame[PEER_WIRE_MAX]) {
    struct peer_msg copy = *m;
    const struct peer_form *f = form_of(m->type);
    size_t length = PEER_WIRE_HEAD + f->size;
    uint16_t head[4] = {(uint16_t)length, m->type, PEER_WIRE_VERSION, 0};
    struct cursor c = {.at = frame, .end = frame + length};
    walk_head(&c, head);
    f->walk(&c, &copy);
    return length;
}

int peer_wire_length(const uint8_t head[PEER_WIRE_HEAD], bool from_dialler, size_t *length,
                     struct error *err) {
    uint8_t copy[PEER_WIRE_HEAD];
    uint16_t h[4] = {0};
    struct cursor c = {.at = copy, .end = copy + sizeof(copy), .reading = true};
    memcpy(copy, head, sizeof(copy));
    walk_head(&c, h);

    if (h[3] != 0)
        return error_set(err, RDMAD_E_PROTOCOL, "this is no frame of rdmad's peer protocol");
    if (h[2] != PEER_WIRE_VERSION && h[1] != PEER_MSG_BYE)
        return error_set(
            err, RDMAD_E_VERSION,
            "peer protocol version %u is spoken there, version %u here; update the older "
            "of the two daemons",
            h[2], PEER_WIRE_VERSION);
    const struct peer_form *f = form_of(h[1]);
    if (!f)
        return error_set(err, RDMAD_E_PROTOCOL, "message type %u is unknown", h[1]);
    if (h[0] != PEER_WIRE_HEAD + f->size)
        return error_set(err, RDMAD_E_PROTOCOL, "a %s has %u bytes instead of %u", f->name, h[0],
                         PEER_WIRE_HEAD + f->size);
    if (!(f->from & (from_dialler ? DIALLER : ACCEPTOR)))
        return error_set(err, RDMAD_E_PROTOCOL, "a %s comes from the wrong side", f->name);
    *length = h[0];
    return RDMAD_OK;
}

int peer_wire_decode(const uint8_t *frame, size_t length, struct peer_msg *out, struct error *err) {
    uint8_t copy[PEER_WIRE_MAX];
    uint16_t h[4] = {0};
    if (length < PEER_WIRE_HEAD || length > sizeof(copy))
        return error_set(err, RDMAD_E_PROTOCOL, "a frame of %zu bytes", length);
    memcpy(copy, frame, length);
    struct cursor c = {.at = copy, .end = copy + length, .reading = true};
    walk_head(&c, h);
    const struct peer_form *f = form_of(h[1]);
    if (h[0] != length || !f)
        return error_set(err, RDMAD_E_PROTOCOL, "message type %u of %u bytes is unknown", h[1],
                         h[0]);

    memset(out, 0, sizeof(*out));
    out->type = h[1];
    f->walk(&c, out);
    if (c.bad || c.at != c.end)
        return error_set(err, RDMAD_E_PROTOCOL, "a %s is malformed", f->name);
    const char *wrong = f->check ? f->check(out) : NULL;
    if (wrong)
        return error_set(err, RDMAD_E_PROTOCOL, "a %s is malformed: %s", f->name, wrong);
    return RDMAD_OK;
}
