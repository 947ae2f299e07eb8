/* SPDX-License-Identifier: MIT */
/*
 * frame.c - which frames are well-formed.
 *
 * Everything here looks at one frame alone; whether it fits the state of its connection is for
 * target.c and answer.c to say. Fields that a type does not use must be zero, so that a later
 * version may give them a meaning.
 */
#include "daemon/fabric/tcp/frame.h"

#define HELLO_MAGIC 0x31544452u   /* "RDT1" */
#define WELCOME_MAGIC 0x31574452u /* "RDW1" */

static bool names_window(const struct frame *f) {
    return f->slot != 0 || f->key != 0 || f->offset != 0;
}

static unsigned flags_of(uint8_t request) {
    if (request == FRAME_END)
        return FRAME_WHOLE;
    return request == FRAME_SEND ? FRAME_ASKS : 0;
}

const char *frame_check_request(const struct frame *f) {
    uint32_t most = FRAME_MAX_PAYLOAD, least = 0;
    bool window = true;
    switch (f->type) {
    case FRAME_READ:
    case FRAME_WRITE:
        break;
    case FRAME_VOID:
        window = false;
        break;
    case FRAME_SEND:
        most = FRAME_MAX_SEND;
        window = false;
        break;
    case FRAME_LONG:
        if (f->slot > FRAME_MAX_HEAD || f->slot >= f->length || f->key != 0 || f->offset != 0)
            return "a long message whose head is none";
        most = FRAME_MAX_LONG;
        break;
    case FRAME_END:
        most = 0;
        window = false;
        break;
    case FRAME_CAS:
        most = least = 2 * FRAME_WORD;
        break;
    case FRAME_FADD:
        most = least = FRAME_WORD;
        break;
    default:
        return "a frame that is not a request";
    }
    if ((f->flags & ~flags_of(f->type)) != 0 || f->status != 0)
        return "a request with flags or a status";
    if (f->length > most)
        return "a request longer than the largest of its kind";
    if (f->length < least)
        return "an atomic request without its words";
    if (!window && names_window(f))
        return "a request that names a window for nothing";
    return NULL;
}

/* What a target may say of an op. Anything else (a timeout, a lost daemon) is not its to know, and
 * a hostile one must not make the lessee's daemon believe it. */
static bool frame_status_ok(int status) {
    switch (status) {
    case RDMAD_OK:
    case RDMAD_E_RANGE:
    case RDMAD_E_RIGHTS:
    case RDMAD_E_NO_LEASE:
    case RDMAD_E_LEASE_EXPIRED:
    case RDMAD_E_LEASE_REVOKED:
    case RDMAD_E_LEASE_RELEASED:
    case RDMAD_E_LEASE_ORPHANED:
    case RDMAD_E_LEASE_ADMIN:
    case RDMAD_E_FAULT:
    case RDMAD_E_ALIGN:
    case RDMAD_E_UNSUPPORTED:
        return true;
    default:
        return false;
    }
}

const char *frame_check_answer(const struct frame *f) {
    unsigned allowed = 0;
    switch (f->type) {
    case FRAME_DATA:
        if (f->length > FRAME_MAX_PAYLOAD)
            return "data longer than the largest message";
        if (f->status != 0)
            return "data with a status";
        allowed = FRAME_FINAL;
        break;
    case FRAME_STATUS:
        if (f->length != 0)
            return "a status with a length";
        if (!frame_status_ok(f->status))
            return "a status that is not a target's to give";
        allowed = FRAME_TOUCHED;
        break;
    case FRAME_ACK:
        if (f->length == 0)
            return "an acknowledgement of nothing";
        if (f->status != 0)
            return "an acknowledgement with a status";
        break;
    default:
        return "a frame that is not an answer";
    }
    if ((f->flags & ~allowed) != 0)
        return "an answer with unknown flags";
    if (names_window(f))
        return "an answer that names a window";
    return NULL;
}

/* magic, version, reserved; then the token. */
static void preamble_put(uint8_t *to, uint32_t magic) {
    uint32_t m = htole32(magic);
    uint16_t version = htole16(FRAME_VERSION), reserved = 0;
    memcpy(to, &m, 4);
    memcpy(to + 4, &version, 2);
    memcpy(to + 6, &reserved, 2);
}

static const char *preamble_check(const uint8_t *from, uint32_t magic) {
    uint32_t m;
    uint16_t version, reserved;
    memcpy(&m, from, 4);
    memcpy(&version, from + 4, 2);
    memcpy(&reserved, from + 6, 2);
    if (le32toh(m) != magic)
        return "it does not speak this protocol";
    if (le16toh(version) != FRAME_VERSION)
        return "it speaks another version of this protocol";
    if (reserved != 0)
        return "its greeting has a reserved field set";
    return NULL;
}

void hello_put(uint8_t to[HELLO_BYTES], const uint8_t token[FRAME_TOKEN_BYTES]) {
    preamble_put(to, HELLO_MAGIC);
    memcpy(to + 8, token, FRAME_TOKEN_BYTES);
}

const char *hello_get(const uint8_t from[HELLO_BYTES], uint8_t token[FRAME_TOKEN_BYTES]) {
    memcpy(token, from + 8, FRAME_TOKEN_BYTES);
    return preamble_check(from, HELLO_MAGIC);
}

void welcome_put(uint8_t to[WELCOME_BYTES]) {
    preamble_put(to, WELCOME_MAGIC);
}

const char *welcome_check(const uint8_t from[WELCOME_BYTES]) {
    return preamble_check(from, WELCOME_MAGIC);
}
