/* SPDX-License-Identifier: MIT */
/*
 * wire_form.h - how a message is described, of wire*.c only.
 *
 * A form has a walk over the message's fields, which a cursor turns into writing or reading, and a
 * check for what makes sense only in some values. The cursor never leaves its frame: once it ran
 * out of it, every step does nothing and the frame is bad.
 */
#ifndef RDMAD_PEER_WIRE_FORM_H
#define RDMAD_PEER_WIRE_FORM_H

#include "common/errors.h"
#include "daemon/peer/wire/wire.h"

struct cursor {
    uint8_t *at;
    const uint8_t *end;
    bool reading;
    bool bad; /* ran out of frame, or a padding byte is not zero */
};

void wire_u16(struct cursor *c, uint16_t *v);
void wire_u32(struct cursor *c, uint32_t *v);
void wire_i32(struct cursor *c, int32_t *v);
void wire_u64(struct cursor *c, uint64_t *v);
void wire_bytes(struct cursor *c, uint8_t *v, size_t n);
/* Always zero-filled behind the NUL; what comes in is made printable, it ends up in messages. */
void wire_text(struct cursor *c, char *v, size_t size);
/* Zero-filled behind its size, both ways. */
void wire_blob(struct cursor *c, struct fabric_blob *v);

enum { DIALLER = 1, ACCEPTOR = 2, BOTH = 3 };

struct peer_form {
    const char *name;
    uint16_t size; /* of the body */
    uint8_t from;
    void (*walk)(struct cursor *c, struct peer_msg *m);
    const char *(*check)(struct peer_msg *m); /* NULL, or what is wrong with it */
};

#define TEXT_BYTES (RDMAD_TEXT_MAX + 1)
#define FABRICS_BYTES (PEER_FABRICS_MAX * 16 + PEER_WHY_BYTES)
#define NAME_BYTES (RDMAD_NAME_MAX + 1)
#define BLOB_BYTES (1 + FABRIC_BLOB_MAX)

/* By type; each type has its form in one of them. */
extern const struct peer_form peer_lease_forms[PEER_MSG_COUNT];   /* and hello, links, liveness */
extern const struct peer_form peer_channel_forms[PEER_MSG_COUNT]; /* and names */

static inline bool wire_known_code(int32_t code) {
    return rdmad_error_known(code);
}

#endif
