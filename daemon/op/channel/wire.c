/* SPDX-License-Identifier: MIT */
/*
 * wire.c - messages between the ends of a channel, as bytes.
 *
 * Little-endian, at fixed places; what a message has no use for is zero.
 *
 *   0 u8 OP_MESSAGE_CHANNEL   1 u8 say   2 u16 flags   4 u32 imm   8 u64 channel
 *   16 u32 epoch   20 u32 echo   24 u32 refusals   28 u8 size of the key   29 three zeros
 *   32 u64 next   40 u64 limit   48 u64 small   56 u64 gone
 *   64 u64 expect   72 u64 heard   80 u64 seq   88 u64 length
 *   96 the payload of DATA, or the key of OFFER and KEY
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

static bool has_key(uint8_t say) {
    return say == CHANNEL_OFFER || say == CHANNEL_KEY;
}

static bool has_seq(uint8_t say) {
    return say == CHANNEL_DATA || say == CHANNEL_WITHDRAW || has_key(say);
}

static bool has_length(uint8_t say) {
    return say == CHANNEL_DATA || say == CHANNEL_OFFER;
}

size_t channel_encode(const struct channel_message *m, uint8_t *head) {
    const struct channel_state *st = &m->state;
    memset(head, 0, CHANNEL_HEAD);
    head[0] = OP_MESSAGE_CHANNEL;
    head[1] = m->say;
    put16(head + 2, m->flags);
    put32(head + 4, m->imm);
    put64(head + 8, m->channel);
    put32(head + 16, st->epoch);
    put32(head + 20, st->echo);
    put32(head + 24, st->refusals);
    put64(head + 32, st->next);
    put64(head + 40, st->limit);
    put64(head + 48, st->small);
    put64(head + 56, st->gone);
    put64(head + 64, st->expect);
    put64(head + 72, st->heard);
    put64(head + 80, m->seq);
    put64(head + 88, m->length);
    if (!has_key(m->say))
        return CHANNEL_HEAD;
    head[28] = m->key.size;
    memcpy(head + CHANNEL_HEAD, m->key.bytes, m->key.size);
    return CHANNEL_HEAD + m->key.size;
}

static const char *check_fields(const struct channel_message *m, const uint8_t *bytes) {
    if (m->say == 0 || m->say >= CHANNEL_SAYS)
        return "a message of an unknown kind";
    if (m->flags & ~CHANNEL_FLAGS)
        return "a message with an unknown flag";
    if (bytes[29] || bytes[30] || bytes[31])
        return "a message whose reserved bytes are not zero";
    uint16_t flags = has_length(m->say)      ? CHANNEL_FLAG_IMM | CHANNEL_FLAG_LEASE
                     : m->say == CHANNEL_FIN ? CHANNEL_FLAG_ABRUPT
                                             : 0;
    if (m->flags & ~flags || (!has_length(m->say) && (m->imm || m->length)))
        return "a message with fields that it has no use for";
    if (m->imm && !(m->flags & CHANNEL_FLAG_IMM))
        return "immediate data without the flag for it";
    if (!has_seq(m->say) && m->seq)
        return "a number on a message that has none";
    if (!has_key(m->say) && m->key.size)
        return "a key on a message that has none";
    if (has_key(m->say) && (m->key.size == 0 || m->key.size > FABRIC_BLOB_MAX))
        return "a key of an impossible size";
    if (m->say == CHANNEL_OFFER && m->length == 0)
        return "an offer of no bytes";
    if (m->state.small & m->state.gone)
        return "a message that was both too long and withdrawn";
    if (m->state.expect < m->state.next || m->state.limit < m->state.expect)
        return "an acknowledgement that runs beyond the receives that are posted";
    return NULL;
}

const char *channel_decode(struct channel_message *m, const uint8_t *bytes, size_t size,
                           uint64_t to_come) {
    *m = (struct channel_message){0};
    if (size >= 16)
        m->channel = get64(bytes + 8);
    if (size < CHANNEL_HEAD || bytes[0] != OP_MESSAGE_CHANNEL)
        return "a message that is too short";
    m->say = bytes[1];
    m->flags = get16(bytes + 2);
    m->imm = get32(bytes + 4);
    m->state = (struct channel_state){
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
    m->key.size = bytes[28];
    m->seq = get64(bytes + 80);
    m->length = get64(bytes + 88);
    const char *wrong = check_fields(m, bytes);
    if (wrong)
        return wrong;
    const uint64_t behind = size - CHANNEL_HEAD;
    if (to_come && (behind || m->say != CHANNEL_DATA))
        return "a message in two pieces that should be one";
    if (behind + to_come != (m->say == CHANNEL_DATA ? m->length : m->key.size))
        return "a message whose length is not what it says";
    if (has_key(m->say))
        m->key.bytes = bytes + CHANNEL_HEAD;
    else if (m->say == CHANNEL_DATA && !to_come)
        m->payload = bytes + CHANNEL_HEAD;
    return NULL;
}
