/* SPDX-License-Identifier: MIT */
/*
 * cursor.h - a place in a frame, at which a field is written or read.
 *
 * The same steps write and read, so the two cannot disagree. A cursor never leaves its frame: at
 * the frame's end every further step does nothing and marks the frame as bad.
 */
#ifndef RDMAD_PEER_WIRE_CURSOR_H
#define RDMAD_PEER_WIRE_CURSOR_H

#include "daemon/fabric/fabric.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cursor {
    uint8_t *at;
    const uint8_t *end;
    bool reading;
    bool bad; /* ran out of frame, or a padding byte is not zero */
};

void cursor_u16(struct cursor *c, uint16_t *v);
void cursor_u32(struct cursor *c, uint32_t *v);
void cursor_i32(struct cursor *c, int32_t *v);
void cursor_u64(struct cursor *c, uint64_t *v);
void cursor_bytes(struct cursor *c, uint8_t *v, size_t n);
/* Zero-filled behind the NUL, both ways. A text that comes in is made printable, because it ends up
 * in messages. */
void cursor_text(struct cursor *c, char *v, size_t size);
/* Zero-filled behind its size, both ways. */
void cursor_blob(struct cursor *c, struct fabric_blob *v);

#endif
