/* SPDX-License-Identifier: MIT */
/*
 * blob.c - endpoints and keys, to bytes and back.
 *
 * Every blob begins with version, kind and a small number; each is described once, by a walk over
 * its fields that a cursor turns into writing or reading, so the two cannot disagree. A blob is
 * exactly as long as its fields. Then values that no honest end of a connection has are refused.
 */
#include "daemon/fabric/verbs/wire/blob.h"
#include <string.h>

/* Numbers of QPs and packets have 24 bits; QPs 0 and 1 are the subnet's. */
#define QP_NUM_MAX 0xffffffu
#define PSN_MAX 0xffffffu
#define MTU_MAX 5u        /* IBV_MTU_4096 */
#define LINK_LAYER_MAX 2u /* IBV_LINK_LAYER_ETHERNET */
#define INBOX_SIZE_MAX (1u << 20)

enum { KIND_HELLO = 1, KIND_OFFER, KIND_KEY };

struct blob_cursor {
    uint8_t *at;
    const uint8_t *end;
    bool reading, bad;
};

static uint64_t blob_number(struct blob_cursor *c, uint64_t value, size_t n) {
    if (c->bad || (size_t)(c->end - c->at) < n) {
        c->bad = true;
        return 0;
    }
    uint64_t read = 0;
    for (size_t i = 0; i < n; i++) {
        if (!c->reading)
            c->at[i] = (uint8_t)(value >> (8 * i));
        read |= (uint64_t)c->at[i] << (8 * i);
    }
    c->at += n;
    return read;
}

static void u8(struct blob_cursor *c, uint8_t *v) {
    *v = (uint8_t)blob_number(c, *v, 1);
}
static void u16(struct blob_cursor *c, uint16_t *v) {
    *v = (uint16_t)blob_number(c, *v, 2);
}
static void u32(struct blob_cursor *c, uint32_t *v) {
    *v = (uint32_t)blob_number(c, *v, 4);
}
static void u64(struct blob_cursor *c, uint64_t *v) {
    *v = blob_number(c, *v, 8);
}
static void bytes(struct blob_cursor *c, uint8_t *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        u8(c, &v[i]);
}

/* ---- the fields -------------------------------------------------------------------------- */

static void cursor_head(struct blob_cursor *c, uint8_t kind, uint8_t *small) {
    uint8_t version = VERBS_BLOB_VERSION, is = kind;
    u8(c, &version);
    u8(c, &is);
    u8(c, small);
    if (version != VERBS_BLOB_VERSION || is != kind)
        c->bad = true;
}

static void cursor_endpoint(struct blob_cursor *c, struct endpoint *e) {
    bytes(c, e->gid, sizeof e->gid);
    u16(c, &e->lid);
    u8(c, &e->link_layer);
    u8(c, &e->mtu);
    u8(c, &e->rd_atomic);
    u8(c, &e->dest_rd_atomic);
    u8(c, &e->lanes);
    u64(c, &e->max_message);
    if (e->lanes > VERBS_LANES_MAX)
        c->bad = true;
    for (unsigned i = 0; i < e->lanes && !c->bad; i++) {
        u32(c, &e->qp_num[i]);
        u32(c, &e->psn[i]);
    }
}

static void cursor_inbox(struct blob_cursor *c, struct inbox_place *p) {
    u64(c, &p->address);
    u32(c, &p->rkey);
    u32(c, &p->size);
    u16(c, &p->count);
    u8(c, &p->features);
}

static void cursor_hello(struct blob_cursor *c, struct verbs_hello *h) {
    uint8_t cm = h->cm;
    cursor_head(c, KIND_HELLO, &cm);
    if (cm > 1)
        c->bad = true;
    h->cm = cm == 1;
    if (!h->cm)
        cursor_endpoint(c, &h->end);
}

static void cursor_offer(struct blob_cursor *c, struct verbs_offer *o) {
    uint8_t cm = o->cm;
    cursor_head(c, KIND_OFFER, &cm);
    if (cm > 1)
        c->bad = true;
    o->cm = cm == 1;
    u64(c, &o->number);
    if (!o->cm) {
        cursor_endpoint(c, &o->end);
        cursor_inbox(c, &o->inbox);
        return;
    }
    bytes(c, o->address, sizeof o->address);
    u16(c, &o->port);
    bytes(c, o->token, sizeof o->token);
}

static void cursor_key(struct blob_cursor *c, struct verbs_key *k) {
    cursor_head(c, KIND_KEY, &k->count);
    u64(c, &k->address);
    if (k->count > VERBS_LANES_MAX)
        c->bad = true;
    for (unsigned i = 0; i < k->count && !c->bad; i++)
        u32(c, &k->rkey[i]);
}

/* ---- what is plausible ------------------------------------------------------------------- */

static bool endpoint_ok(const struct endpoint *e) {
    if (e->lanes == 0 || e->max_message == 0)
        return false;
    if (e->mtu == 0 || e->mtu > MTU_MAX || e->link_layer == 0 || e->link_layer > LINK_LAYER_MAX)
        return false;
    for (unsigned i = 0; i < e->lanes; i++) {
        if (e->qp_num[i] < 2 || e->qp_num[i] > QP_NUM_MAX || e->psn[i] > PSN_MAX)
            return false;
    }
    return true;
}

bool inbox_place_ok(const struct inbox_place *p) {
    return p->count > 0 && p->size >= FABRIC_SEND_MIN && p->size <= INBOX_SIZE_MAX;
}

/* ---- both ways --------------------------------------------------------------------------- */

static struct blob_cursor writing(struct fabric_blob *out) {
    return (struct blob_cursor){.at = out->bytes, .end = out->bytes + sizeof out->bytes};
}

static struct blob_cursor reading(const struct fabric_blob *b) {
    size_t size = b->size <= sizeof b->bytes ? b->size : 0;
    /* A reading cursor writes nothing. */
    return (struct blob_cursor){
        .at = (uint8_t *)(uintptr_t)b->bytes, .end = b->bytes + size, .reading = true};
}

static void written(const struct blob_cursor *c, struct fabric_blob *out) {
    out->size = c->bad ? 0 : (uint8_t)(c->at - out->bytes);
}

static bool all_read(const struct blob_cursor *c) {
    return !c->bad && c->at == c->end;
}

void blob_write_hello(const struct verbs_hello *h, struct fabric_blob *out) {
    struct blob_cursor c = writing(out);
    struct verbs_hello copy = *h;
    cursor_hello(&c, &copy);
    written(&c, out);
}

bool blob_read_hello(const struct fabric_blob *b, struct verbs_hello *out) {
    struct blob_cursor c = reading(b);
    *out = (struct verbs_hello){0};
    cursor_hello(&c, out);
    return all_read(&c) && (out->cm || endpoint_ok(&out->end));
}

void blob_write_offer(const struct verbs_offer *o, struct fabric_blob *out) {
    struct blob_cursor c = writing(out);
    struct verbs_offer copy = *o;
    cursor_offer(&c, &copy);
    written(&c, out);
}

bool blob_read_offer(const struct fabric_blob *b, struct verbs_offer *out) {
    struct blob_cursor c = reading(b);
    *out = (struct verbs_offer){0};
    cursor_offer(&c, out);
    if (!all_read(&c) || out->number == 0)
        return false;
    if (out->cm)
        return out->port != 0;
    /* Answers come by READs. */
    return endpoint_ok(&out->end) && out->end.dest_rd_atomic && inbox_place_ok(&out->inbox);
}

void blob_write_key(const struct verbs_key *k, struct fabric_blob *out) {
    struct blob_cursor c = writing(out);
    struct verbs_key copy = *k;
    cursor_key(&c, &copy);
    written(&c, out);
}

bool blob_read_key(const struct fabric_blob *b, struct verbs_key *out) {
    struct blob_cursor c = reading(b);
    *out = (struct verbs_key){0};
    cursor_key(&c, out);
    return all_read(&c) && out->count > 0;
}
