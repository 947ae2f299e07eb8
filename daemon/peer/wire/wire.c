/* SPDX-License-Identifier: MIT */
/*
 * wire.c - frames to structs and back.
 *
 * Every message is described once (form_lease.c, form_channel.c), by a walk over its fields that a
 * cursor turns into writing or reading: the two cannot disagree. Then fields in which not every
 * value makes sense are checked. The bytes come from outside: the cursor never leaves its frame,
 * texts are terminated and printable when they come out, numbers that we use as codes are codes we
 * know.
 */
#include "daemon/peer/wire/wire.h"
#include "daemon/peer/wire/form.h"
#include <assert.h>
#include <string.h>

/* NULL: there is no such type. */
static const struct form *wire_form_of(uint16_t type) {
    if (type >= PEER_MSG_COUNT)
        return NULL;
    if (form_lease_messages[type].walk)
        return &form_lease_messages[type];
    return form_channel_messages[type].walk ? &form_channel_messages[type] : NULL;
}

const char *peer_wire_name(uint16_t type) {
    const struct form *f = wire_form_of(type);
    return f ? f->name : "?";
}

static void wire_head(struct cursor *c, uint16_t head[4]) {
    for (int i = 0; i < 4; i++)
        cursor_u16(c, &head[i]);
}

size_t peer_wire_encode(const struct peer_msg *m, uint8_t frame[PEER_WIRE_MAX]) {
    struct peer_msg copy = *m;
    const struct form *f = wire_form_of(m->type);
    assert(f); /* whoever sends knows what */
    size_t length = PEER_WIRE_HEAD + f->size;
    uint16_t head[4] = {(uint16_t)length, m->type, peer_versions.highest, 0};
    struct cursor c = {.at = frame, .end = frame + length};
    wire_head(&c, head);
    f->walk(&c, &copy);
    return length;
}

/* All four numbers. */
static void wire_read_head(const uint8_t head[PEER_WIRE_HEAD], uint16_t h[4]) {
    uint8_t copy[PEER_WIRE_HEAD];
    struct cursor c = {.at = copy, .end = copy + sizeof(copy), .reading = true};
    memcpy(copy, head, sizeof(copy));
    wire_head(&c, h);
}

void peer_wire_set_version(uint8_t frame[PEER_WIRE_HEAD], uint16_t version) {
    uint16_t h[4];
    struct cursor c = {.at = frame, .end = frame + PEER_WIRE_HEAD};
    wire_read_head(frame, h);
    h[2] = version;
    wire_head(&c, h);
}

uint16_t peer_wire_version(const uint8_t head[PEER_WIRE_HEAD]) {
    uint16_t h[4];
    wire_read_head(head, h);
    return h[2];
}

int peer_wire_length(const uint8_t head[PEER_WIRE_HEAD], bool from_dialler, size_t *length,
                     struct error *err) {
    char words[RDMAD_VERSIONS_TEXT];
    uint16_t h[4];
    wire_read_head(head, h);

    if (h[3] != 0)
        return error_set(err, RDMAD_E_PROTOCOL, "this is no frame of rdmad's peer protocol");
    if (!rdmad_versions_have(peer_versions, h[2]) && h[1] != PEER_MSG_BYE && h[1] != PEER_MSG_HELLO)
        return error_set(err, RDMAD_E_VERSION,
                         "peer protocol version %u is spoken there, %s here; update the older "
                         "of the two daemons",
                         h[2], rdmad_versions_print(peer_versions, words));
    const struct form *f = wire_form_of(h[1]);
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
    wire_head(&c, h);
    const struct form *f = wire_form_of(h[1]);
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
