/* SPDX-License-Identifier: MIT */
/*
 * wire.c - messages between the ends of a channel, as bytes.
 *
 * Little-endian, at fixed places; what a message has no use for is zero.
 *
 *   0 u8 OP_MESSAGE_CHANNEL   1 u8 type   2 u16 flags   4 u32 imm   8 u64 channel
 *   16 u32 epoch   20 u32 echo   24 u32 refusals   28 u8 size of the key   29 three zeros
 *   32 u64 next   40 u64 limit   48 u64 small   56 u64 gone
 *   64 u64 expect   72 u64 heard   80 u64 seq   88 u64 length
 *   96 the payload of DATA and PIECE, or the key of OFFER and KEY
 *
 * PIECE and TOTAL have nothing at 16 to 79 but
 *
 *   32 u64 whole   40 u64 at          (PIECE)
 *   32 u64 total                      (TOTAL)
 *
 * A decoded message is one that an honest end could have sent at some time; whether at this time
 * is for sends.c and receives.c to say.
 */
#include "daemon/op/channel/wire.h"
#include "daemon/op/engine/message.h"
#include "daemon/op/engine/op.h"
#include <string.h>

static void put16(uint8_t *p, uint16_t v) {
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *p, uint32_t v) {
    put16(p, (uint16_t)v);
    put16(p + 2, (uint16_t)(v >> 16));
}

static void put64(uint8_t *p, uint64_t v) {
    put32(p, (uint32_t)v);
    put32(p + 4, (uint32_t)(v >> 32));
}

static uint16_t get16(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t get32(const uint8_t *p) {
    return get16(p) | (uint32_t)get16(p + 2) << 16;
}

static uint64_t get64(const uint8_t *p) {
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

static bool has_key(uint8_t type) {
    return type == CHANNEL_OFFER || type == CHANNEL_KEY;
}

static bool has_seq(uint8_t type) {
    return channel_has_payload(type) || type == CHANNEL_WITHDRAW || has_key(type);
}

static bool has_length(uint8_t type) {
    return channel_has_payload(type) || type == CHANNEL_OFFER;
}

static void put_state(uint8_t *head, const struct channel_state *st) {
    put32(head + 16, st->epoch);
    put32(head + 20, st->echo);
    put32(head + 24, st->refusals);
    put64(head + 32, st->next);
    put64(head + 40, st->limit);
    put64(head + 48, st->small);
    put64(head + 56, st->gone);
    put64(head + 64, st->expect);
    put64(head + 72, st->heard);
}

size_t channel_encode(const struct channel_message *m, uint8_t *head) {
    memset(head, 0, CHANNEL_HEAD);
    head[0] = OP_MESSAGE_CHANNEL;
    head[1] = m->type;
    put16(head + 2, m->flags);
    put32(head + 4, m->imm);
    put64(head + 8, m->channel);
    if (channel_has_state(m->type))
        put_state(head, &m->state);
    if (m->type == CHANNEL_PIECE) {
        put64(head + 32, m->piece.whole);
        put64(head + 40, m->piece.at);
    } else if (m->type == CHANNEL_TOTAL) {
        put64(head + 32, m->total);
    }
    put64(head + 80, m->seq);
    put64(head + 88, m->length);
    if (!has_key(m->type))
        return CHANNEL_HEAD;
    head[28] = m->key.size;
    memcpy(head + CHANNEL_HEAD, m->key.bytes, m->key.size);
    return CHANNEL_HEAD + m->key.size;
}

static bool all_zero(const uint8_t *bytes, size_t from, size_t to) {
    while (from < to && bytes[from] == 0)
        from++;
    return from == to;
}

static const char *check_state(const struct channel_state *st) {
    if (st->small & st->gone)
        return "a message that was both too long and withdrawn";
    if (st->expect < st->next || st->limit < st->expect)
        return "an acknowledgement that runs beyond the receives that are posted";
    return NULL;
}

static const char *check_piece(const struct channel_message *m) {
    const struct channel_piece *piece = &m->piece;
    if (piece->at > piece->whole || m->length > piece->whole - piece->at)
        return "a piece that is not within its message";
    if (m->length == 0 && piece->whole)
        return "a piece of no bytes";
    return NULL;
}

static const char *check_fields(const struct channel_message *m, const uint8_t *bytes) {
    if (m->type == 0 || m->type >= CHANNEL_TYPES)
        return "a message of an unknown kind";
    if (m->flags & ~CHANNEL_FLAGS)
        return "a message with an unknown flag";
    size_t used = m->type == CHANNEL_PIECE ? 48 : m->type == CHANNEL_TOTAL ? 40 : 80;
    if (!all_zero(bytes, used < 80 ? 16 : 29, 32) || !all_zero(bytes, used, 80))
        return "a message whose reserved bytes are not zero";
    bool last = m->type == CHANNEL_FIN || m->type == CHANNEL_TOTAL;
    uint16_t flags = has_length(m->type) ? CHANNEL_FLAG_IMM | CHANNEL_FLAG_LEASE
                     : last              ? CHANNEL_FLAG_ABRUPT
                                         : 0;
    if (m->flags & ~flags || (!has_length(m->type) && (m->imm || m->length)))
        return "a message with fields that it has no use for";
    if (m->imm && !(m->flags & CHANNEL_FLAG_IMM))
        return "immediate data without the flag for it";
    if (!has_seq(m->type) && m->seq)
        return "a number on a message that has none";
    if (!has_key(m->type) && m->key.size)
        return "a key on a message that has none";
    if (has_key(m->type) && (m->key.size == 0 || m->key.size > FABRIC_BLOB_MAX))
        return "a key of an impossible size";
    if (m->type == CHANNEL_OFFER && m->length == 0)
        return "an offer of no bytes";
    if (m->type == CHANNEL_PIECE)
        return check_piece(m);
    return channel_has_state(m->type) ? check_state(&m->state) : NULL;
}

static struct channel_state get_state(const uint8_t *bytes) {
    return (struct channel_state){
        .epoch = get32(bytes + 16),
        .echo = get32(bytes + 20),
        .refusals = get32(bytes + 24),
        .next = get64(bytes + 32),
        .limit = get64(bytes + 40),
        .small = get64(bytes + 48),
        .gone = get64(bytes + 56),
        .expect = get64(bytes + 64),
        .heard = get64(bytes + 72),
    };
}

const char *channel_decode(struct channel_message *m, const uint8_t *bytes, size_t size,
                           uint64_t to_come) {
    *m = (struct channel_message){0};
    if (size >= 16)
        m->channel = get64(bytes + 8);
    if (size < CHANNEL_HEAD || bytes[0] != OP_MESSAGE_CHANNEL)
        return "a message that is too short";
    m->type = bytes[1];
    m->flags = get16(bytes + 2);
    m->imm = get32(bytes + 4);
    if (m->type == CHANNEL_PIECE)
        m->piece = (struct channel_piece){get64(bytes + 32), get64(bytes + 40)};
    else if (m->type == CHANNEL_TOTAL)
        m->total = get64(bytes + 32);
    else
        m->state = get_state(bytes);
    m->key.size = bytes[28];
    m->seq = get64(bytes + 80);
    m->length = get64(bytes + 88);
    const char *wrong = check_fields(m, bytes);
    if (wrong)
        return wrong;
    const uint64_t behind = size - CHANNEL_HEAD;
    if (to_come && (behind || m->type != CHANNEL_DATA))
        return "a message in two pieces that should be one";
    if (behind + to_come != (channel_has_payload(m->type) ? m->length : m->key.size))
        return "a message whose length is not what it says";
    if (has_key(m->type))
        m->key.bytes = bytes + CHANNEL_HEAD;
    else if (channel_has_payload(m->type) && !to_come)
        m->payload = bytes + CHANNEL_HEAD;
    return NULL;
}
