/* SPDX-License-Identifier: MIT */
/*
 * wire.h - messages to frames and back.
 */
#ifndef RDMAD_PEER_WIRE_H
#define RDMAD_PEER_WIRE_H

#include "daemon/base/error.h"
#include "daemon/peer/wire/message.h"

/* Writes m as a frame of our highest version; returns its length. */
size_t peer_wire_encode(const struct peer_msg *m, uint8_t frame[PEER_WIRE_MAX]);
/* Has a frame be of another version. */
void peer_wire_set_version(uint8_t frame[PEER_WIRE_HEAD], uint16_t version);
uint16_t peer_wire_version(const uint8_t head[PEER_WIRE_HEAD]);

/* Tells the length of the frame that begins with head. Returns RDMAD_OK, or RDMAD_E_VERSION (no
 * version of ours, which HELLO and BYE may have) or RDMAD_E_PROTOCOL with a sentence in err. */
int peer_wire_length(const uint8_t head[PEER_WIRE_HEAD], bool from_dialler, size_t *length,
                     struct error *err);

/* Reads one whole frame of that length. RDMAD_OK, or RDMAD_E_PROTOCOL and a sentence. */
int peer_wire_decode(const uint8_t *frame, size_t length, struct peer_msg *out, struct error *err);

const char *peer_wire_name(uint16_t type);

#endif
