/* SPDX-License-Identifier: MIT */
/*
 * frame.h - what two engines say to each other on a data connection.
 *
 * First the dialler sends a hello with the token it was given over the control plane, the acceptor
 * answers with a welcome; both have a fixed size. From then on only frames travel: a fixed header,
 * little-endian, and behind all but READ, STATUS and ACK `length` bytes of payload.
 *
 *   dialler                           acceptor
 *   WRITE op window offset payload    ACK first-op count     the next `count` ops are done
 *                                     STATUS op status       or: this one failed
 *   READ op window offset length      DATA op payload        then STATUS, unless marked FINAL
 *   CAS op window offset payload      DATA op payload        FINAL: what was there; or STATUS
 *   FADD op window offset payload     the same
 *   SEND op payload                   ACK                    its user has had it; or STATUS
 *   SEND, ASKS                        DATA op payload        FINAL: its user's answer; or STATUS
 *   LONG op head-size head payload    nothing yet
 *   END op                            ACK                    the LONG before, if marked WHOLE
 *   VOID op payload                   ACK                    a canceled request: nothing is done
 *
 * Some payloads are words of 8 bytes, little-endian: for CAS what to compare with and what to put
 * there, for FADD what to add. The DATA that answers a CAS or FADD has what was there before, and
 * the one that answers a SEND with ASKS has its user's answer.
 *
 * A SEND that is long enough goes as LONG: its payload is sent from where it lies and received
 * where it belongs, as a WRITE's is. END follows at once and has the same number. Until END is sent
 * the payload can still be let go of: END without WHOLE says that there was no message.
 *
 * Ops are numbered from 0 as they are sent and answered strictly in that order, so an answer needs
 * no table to find its op and one ACK speaks for many. A number out of order means that the other
 * side is broken or hostile, and the connection ends.
 */
#ifndef RDMAD_FABRIC_TCP_FRAME_H
#define RDMAD_FABRIC_TCP_FRAME_H

#include <endian.h>
#include <rdmad/abi.h>
#include <stdbool.h>
#include <string.h>

#define FRAME_MAX_PAYLOAD (256u << 10)
/* Bytes of a SEND. It is copied whole into the send queue, and its target waits until all of it is
 * in the receive buffer; so it needs no memory of its own. */
#define FRAME_MAX_SEND ((16u << 10) + FRAME_MAX_HEAD)
#define FRAME_MAX_HEAD 256u
/* Bytes of a LONG, head and payload together. It can become a VOID together with the END that
 * follows it. A longer message would gain nothing by landing: the other side READs it as fast, and
 * then it holds up nothing behind it. */
#define FRAME_MAX_LONG ((64u << 10) + FRAME_MAX_HEAD)
#define FRAME_WORD 8u /* of an atomic, and an answer */
#define FRAME_VERSION 4u
#define FRAME_TOKEN_BYTES 16u

enum frame_type {
    FRAME_READ = 1,
    FRAME_WRITE = 2,
    FRAME_VOID = 3,
    FRAME_DATA = 4,
    FRAME_STATUS = 5,
    FRAME_ACK = 6,
    FRAME_SEND = 7,
    FRAME_CAS = 8,
    FRAME_FADD = 9,
    FRAME_LONG = 10,
    FRAME_END = 11,
};

#define FRAME_FINAL 1u   /* DATA: the op succeeded, no STATUS follows */
#define FRAME_TOUCHED 2u /* STATUS of a WRITE: some of its bytes may be in the target's memory */
#define FRAME_WHOLE 1u   /* END: what came before it is a message */
#define FRAME_ASKS 1u    /* SEND: its user's answer is wanted */

struct frame {
    uint8_t type;
    uint8_t flags;
    int16_t status;  /* STATUS: RDMAD_E_*, else 0 */
    uint32_t length; /* bytes of payload; READ: bytes wanted; ACK: how many ops; LONG: with head */
    uint32_t op;
    uint32_t slot; /* what names a window: its place in the target's table; LONG: size of head */
    uint64_t key;  /* and its random key: so nobody can guess a place, or use one that was given to
                      another window */
    uint64_t offset; /* into the window */
};
#define FRAME_BYTES 32u
_Static_assert(sizeof(struct frame) == FRAME_BYTES, "a header has no padding");

static inline void frame_put(uint8_t *to, const struct frame *f) {
    struct frame wire = {.type = f->type,
                         .flags = f->flags,
                         .status = (int16_t)htole16((uint16_t)f->status),
                         .length = htole32(f->length),
                         .op = htole32(f->op),
                         .slot = htole32(f->slot),
                         .key = htole64(f->key),
                         .offset = htole64(f->offset)};
    memcpy(to, &wire, sizeof wire);
}

static inline void frame_get(struct frame *f, const uint8_t *from) {
    memcpy(f, from, sizeof *f);
    f->status = (int16_t)le16toh((uint16_t)f->status);
    f->length = le32toh(f->length);
    f->op = le32toh(f->op);
    f->slot = le32toh(f->slot);
    f->key = le64toh(f->key);
    f->offset = le64toh(f->offset);
}

/* Bytes that follow the header. */
static inline uint32_t frame_payload(const struct frame *f) {
    return f->type == FRAME_READ || f->type == FRAME_STATUS || f->type == FRAME_ACK ? 0 : f->length;
}

/* Of these bytes, those that must be there before role.begin. */
static inline uint32_t frame_head(const struct frame *f) {
    return f->type == FRAME_LONG ? f->slot : 0;
}

static inline bool frame_is_atomic(uint8_t type) {
    return type == FRAME_CAS || type == FRAME_FADD;
}

static inline void word_put(uint8_t *to, uint64_t value) {
    value = htole64(value);
    memcpy(to, &value, sizeof value);
}

static inline uint64_t word_get(const uint8_t *from) {
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return le64toh(value);
}

/* Whether f is well-formed as a request (what an acceptor may receive) or as an answer (what a
 * dialler may). NULL, or what is wrong with it. */
const char *frame_check_request(const struct frame *f);
const char *frame_check_answer(const struct frame *f);

#define HELLO_BYTES 24u
#define WELCOME_BYTES 8u
void hello_put(uint8_t to[HELLO_BYTES], const uint8_t token[FRAME_TOKEN_BYTES]);
/* NULL, or what is wrong with it. */
const char *hello_get(const uint8_t from[HELLO_BYTES], uint8_t token[FRAME_TOKEN_BYTES]);
void welcome_put(uint8_t to[WELCOME_BYTES]);
const char *welcome_check(const uint8_t from[WELCOME_BYTES]);

#endif
