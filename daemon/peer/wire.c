/* SPDX-License-Identifier: MIT */
/*
 * wire.c - frames to structs and back.
 *
 * Every message is described once, by a walk over its fields that a cursor turns into writing or
 * reading: the two cannot disagree. A check follows for what only makes sense in some values. The
 * bytes come from outside: the cursor never leaves its frame, texts are terminated and printable
 * when they come out, numbers that we use as codes are codes we know.
 */
#include "daemon/peer/wire.h"
#include "common/uri.h"
#include <string.h>

struct cursor {
    uint8_t *at;
    const uint8_t *end;
    bool reading;
    bool bad; /* ran out of frame, or a padding byte is not zero */
};

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

static void u16(struct cursor *c, uint16_t *v) {
    *v = (uint16_t)walk_number(c, *v, 2);
}
static void u32(struct cursor *c, uint32_t *v) {
    *v = (uint32_t)walk_number(c, *v, 4);
}
static void i32(struct cursor *c, int32_t *v) {
    *v = (int32_t)(uint32_t)walk_number(c, (uint32_t)*v, 4);
}
static void u64(struct cursor *c, uint64_t *v) {
    *v = walk_number(c, *v, 8);
}

static void bytes(struct cursor *c, uint8_t *v, size_t n) {
    uint8_t *p = step(c, n);
    if (p && c->reading)
        memcpy(v, p, n);
    else if (p)
        memcpy(p, v, n);
}

/* Always zero-filled behind the NUL; what comes in is made printable, it ends up in messages. */
static void text(struct cursor *c, char *v, size_t size) {
    if (!c->reading) {
        size_t n = strnlen(v, size - 1);
        uint8_t *p = step(c, size);
        if (p) {
            memset(p, 0, size);
            memcpy(p, v, n);
        }
        return;
    }
    bytes(c, (uint8_t *)v, size);
    size_t n = strnlen(v, size);
    for (size_t i = n; i < size; i++)
        c->bad |= v[i] != 0;
    c->bad |= n == size;
    v[size - 1] = '\0';
    for (size_t i = 0; i < n; i++)
        if ((uint8_t)v[i] < 0x20 || v[i] == 0x7f)
            v[i] = '?';
}

/* Zero-filled behind its size, both ways. */
static void blob(struct cursor *c, struct fabric_blob *v) {
    bytes(c, &v->size, 1);
    c->bad |= v->size > sizeof(v->bytes);
    if (c->bad)
        return;
    if (!c->reading)
        memset(v->bytes + v->size, 0, sizeof(v->bytes) - v->size);
    bytes(c, v->bytes, sizeof(v->bytes));
    for (size_t i = v->size; i < sizeof(v->bytes); i++)
        c->bad |= v->bytes[i] != 0;
}

/* ---- the messages -------------------------------------------------------------------------- */

static void walk_hello(struct cursor *c, struct peer_msg *m) {
    u32(c, &m->hello.magic);
    bytes(c, m->hello.node_id, sizeof(m->hello.node_id));
    text(c, m->hello.node, sizeof(m->hello.node));
    text(c, m->hello.fabric, sizeof(m->hello.fabric));
    u16(c, &m->hello.listen_port);
}
static void walk_bye(struct cursor *c, struct peer_msg *m) {
    i32(c, &m->bye.code);
    text(c, m->bye.text, sizeof(m->bye.text));
}
static void walk_ping(struct cursor *c, struct peer_msg *m) {
    u64(c, &m->ping.seq);
}
static void walk_attach_req(struct cursor *c, struct peer_msg *m) {
    u64(c, &m->attach_req.lessee_ref);
    u64(c, &m->attach_req.lease);
    bytes(c, m->attach_req.key, sizeof(m->attach_req.key));
    text(c, m->attach_req.name, sizeof(m->attach_req.name));
    u32(c, &m->attach_req.uid);
    u64(c, &m->attach_req.via);
}
static void walk_attach_rep(struct cursor *c, struct peer_msg *m) {
    struct peer_attach_rep *r = &m->attach_rep;
    u64(c, &r->lessee_ref);
    u64(c, &r->owner_ref);
    i32(c, &r->status);
    u32(c, &r->rights);
    u64(c, &r->lease);
    u64(c, &r->length);
    u64(c, &r->ttl_ns);
    blob(c, &r->key);
    text(c, r->text, sizeof(r->text));
}
static void walk_release(struct cursor *c, struct peer_msg *m) {
    u64(c, &m->release.owner_ref);
    u32(c, &m->release.returned);
}
static void walk_revoked(struct cursor *c, struct peer_msg *m) {
    u64(c, &m->revoked.lessee_ref);
    i32(c, &m->revoked.reason);
    text(c, m->revoked.text, sizeof(m->revoked.text));
}
static void walk_stopped(struct cursor *c, struct peer_msg *m) {
    u64(c, &m->stopped.owner_ref);
}
static void walk_ttl(struct cursor *c, struct peer_msg *m) {
    u64(c, &m->ttl.ref);
    u64(c, &m->ttl.ttl_ns);
}
static void walk_link_req(struct cursor *c, struct peer_msg *m) {
    u64(c, &m->link_req.ref);
    blob(c, &m->link_req.hello);
}
static void walk_link_rep(struct cursor *c, struct peer_msg *m) {
    u64(c, &m->link_rep.ref);
    i32(c, &m->link_rep.status);
    blob(c, &m->link_rep.offer);
    text(c, m->link_rep.text, sizeof(m->link_rep.text));
}
static void walk_link_gone(struct cursor *c, struct peer_msg *m) {
    u64(c, &m->link_gone.via);
}
static void walk_key_req(struct cursor *c, struct peer_msg *m) {
    u64(c, &m->key_req.owner_ref);
    u64(c, &m->key_req.via);
}
static void walk_key_rep(struct cursor *c, struct peer_msg *m) {
    struct peer_key_rep *r = &m->key_rep;
    u64(c, &r->lessee_ref);
    u64(c, &r->via);
    i32(c, &r->status);
    blob(c, &r->key);
    text(c, r->text, sizeof(r->text));
}

/* ---- what the values must be; each returns NULL or what is wrong ---------------------------- */

static bool known_code(int32_t code) {
    return code <= RDMAD_OK && code >= RDMAD_E_INTERNAL;
}

static const char *check_hello(struct peer_msg *m) {
    if (m->hello.magic != PEER_WIRE_MAGIC)
        return "the magic number is not that of an rdmad";
    if (!m->hello.node[0])
        return "the node has no name";
    return m->hello.fabric[0] ? NULL : "no fabric is named";
}
static const char *check_bye(struct peer_msg *m) {
    if (!known_code(m->bye.code)) /* of a later version, perhaps */
        m->bye.code = RDMAD_E_PROTOCOL;
    return NULL;
}
static const char *check_attach_req(struct peer_msg *m) {
    const struct peer_attach_req *r = &m->attach_req;
    if (r->name[0] && r->lease)
        return "a lease is named both by number and by name";
    if (r->name[0] ? !rdmad_name_ok(r->name) : !r->lease)
        return "no lease is named";
    return NULL;
}
static const char *check_attach_rep(struct peer_msg *m) {
    const struct peer_attach_rep *r = &m->attach_rep;
    if (!known_code(r->status))
        return "the status is unknown";
    if (r->status != RDMAD_OK)
        return r->key.size ? "a refusal has a key" : NULL;
    if (!r->lease || !r->rights || (r->rights & ~RDMAD_RIGHTS_ALL))
        return "a lease without number or rights is granted";
    return NULL;
}
static const char *check_release(struct peer_msg *m) {
    return m->release.returned > 1 ? "returned is neither 0 nor 1" : NULL;
}
static const char *check_revoked(struct peer_msg *m) {
    int32_t r = m->revoked.reason;
    return r <= RDMAD_E_LEASE_EXPIRED && r >= RDMAD_E_LEASE_ORPHANED
               ? NULL
               : "the reason is none for which a lease ends";
}
static const char *check_link_rep(struct peer_msg *m) {
    if (!known_code(m->link_rep.status))
        return "the status is unknown";
    if (m->link_rep.status != RDMAD_OK)
        return m->link_rep.offer.size ? "a refusal has an offer" : NULL;
    return m->link_rep.offer.size ? NULL : "the offer is empty";
}
static const char *check_link_gone(struct peer_msg *m) {
    return m->link_gone.via ? NULL : "no link is named";
}
static const char *check_key_req(struct peer_msg *m) {
    return m->key_req.via ? NULL : "no link is named";
}
static const char *check_key_rep(struct peer_msg *m) {
    const struct peer_key_rep *r = &m->key_rep;
    if (!known_code(r->status))
        return "the status is unknown";
    if (!r->via)
        return "no link is named";
    if (r->status != RDMAD_OK)
        return r->key.size ? "a refusal has a key" : NULL;
    return r->key.size ? NULL : "the key is empty";
}

enum { DIALLER = 1, ACCEPTOR = 2, BOTH = 3 };

#define TEXT_BYTES (RDMAD_TEXT_MAX + 1)
#define BLOB_BYTES (1 + FABRIC_BLOB_MAX)

static const struct {
    const char *name;
    uint16_t size; /* of the body */
    uint8_t from;
    void (*walk)(struct cursor *c, struct peer_msg *m);
    const char *(*check)(struct peer_msg *m);
} messages[PEER_MSG_COUNT] = {
    [PEER_MSG_HELLO] = {"HELLO", 4 + 16 + 64 + 16 + 2, BOTH, walk_hello, check_hello},
    [PEER_MSG_BYE] = {"BYE", 4 + TEXT_BYTES, BOTH, walk_bye, check_bye},
    [PEER_MSG_PING] = {"PING", 8, BOTH, walk_ping, NULL},
    [PEER_MSG_PONG] = {"PONG", 8, BOTH, walk_ping, NULL},
    [PEER_MSG_ATTACH_REQ] = {"ATTACH_REQ", 8 + 8 + 16 + 64 + 4 + 8, DIALLER, walk_attach_req,
                             check_attach_req},
    [PEER_MSG_ATTACH_REP] = {"ATTACH_REP", 8 + 8 + 4 + 4 + 3 * 8 + BLOB_BYTES + TEXT_BYTES,
                             ACCEPTOR, walk_attach_rep, check_attach_rep},
    [PEER_MSG_RELEASE] = {"RELEASE", 8 + 4, DIALLER, walk_release, check_release},
    [PEER_MSG_REVOKED] = {"REVOKED", 8 + 4 + TEXT_BYTES, ACCEPTOR, walk_revoked, check_revoked},
    [PEER_MSG_STOPPED] = {"STOPPED", 8, DIALLER, walk_stopped, NULL},
    [PEER_MSG_RENEWED] = {"RENEWED", 16, ACCEPTOR, walk_ttl, NULL},
    [PEER_MSG_TTL_REQ] = {"TTL_REQ", 16, DIALLER, walk_ttl, NULL},
    [PEER_MSG_TTL_REP] = {"TTL_REP", 16, ACCEPTOR, walk_ttl, NULL},
    [PEER_MSG_LINK_REQ] = {"LINK_REQ", 8 + BLOB_BYTES, DIALLER, walk_link_req, NULL},
    [PEER_MSG_LINK_REP] = {"LINK_REP", 8 + 4 + BLOB_BYTES + TEXT_BYTES, ACCEPTOR, walk_link_rep,
                           check_link_rep},
    [PEER_MSG_LINK_GONE] = {"LINK_GONE", 8, DIALLER, walk_link_gone, check_link_gone},
    [PEER_MSG_KEY_REQ] = {"KEY_REQ", 8 + 8, DIALLER, walk_key_req, check_key_req},
    [PEER_MSG_KEY_REP] = {"KEY_REP", 8 + 8 + 4 + BLOB_BYTES + TEXT_BYTES, ACCEPTOR, walk_key_rep,
                          check_key_rep},
};

const char *peer_wire_name(uint16_t type) {
    return type < PEER_MSG_COUNT && messages[type].name ? messages[type].name : "?";
}

static void walk_head(struct cursor *c, uint16_t head[4]) {
    for (int i = 0; i < 4; i++)
        u16(c, &head[i]);
}

size_t peer_wire_encode(const struct peer_msg *m, uint8_t frame[PEER_WIRE_MAX]) {
    struct peer_msg copy = *m;
    size_t length = PEER_WIRE_HEAD + messages[m->type].size;
    uint16_t head[4] = {(uint16_t)length, m->type, PEER_WIRE_VERSION, 0};
    struct cursor c = {.at = frame, .end = frame + length};
    walk_head(&c, head);
    messages[m->type].walk(&c, &copy);
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
    if (h[1] >= PEER_MSG_COUNT || !messages[h[1]].walk)
        return error_set(err, RDMAD_E_PROTOCOL, "message type %u is unknown", h[1]);
    if (h[0] != PEER_WIRE_HEAD + messages[h[1]].size)
        return error_set(err, RDMAD_E_PROTOCOL, "a %s has %u bytes instead of %u",
                         messages[h[1]].name, h[0], PEER_WIRE_HEAD + messages[h[1]].size);
    if (!(messages[h[1]].from & (from_dialler ? DIALLER : ACCEPTOR)))
        return error_set(err, RDMAD_E_PROTOCOL, "a %s comes from the wrong side",
                         messages[h[1]].name);
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
    if (h[0] != length || h[1] >= PEER_MSG_COUNT || !messages[h[1]].walk)
        return error_set(err, RDMAD_E_PROTOCOL, "message type %u of %u bytes is unknown", h[1],
                         h[0]);

    memset(out, 0, sizeof(*out));
    out->type = h[1];
    messages[h[1]].walk(&c, out);
    if (c.bad || c.at != c.end)
        return error_set(err, RDMAD_E_PROTOCOL, "a %s is malformed", messages[h[1]].name);
    const char *wrong = messages[h[1]].check ? messages[h[1]].check(out) : NULL;
    if (wrong)
        return error_set(err, RDMAD_E_PROTOCOL, "a %s is malformed: %s", messages[h[1]].name,
                         wrong);
    return RDMAD_OK;
}
