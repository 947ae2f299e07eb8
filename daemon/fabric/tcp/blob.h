/* SPDX-License-Identifier: MIT */
/*
 * blob.h - what two engines tell one another over the control plane: offers and keys.
 *
 * An offer says where to dial, which token to show, and the number by which both will know the
 * connection. A key names a window. What a peer's blob says is judged here.
 */
#ifndef RDMAD_FABRIC_TCP_BLOB_H
#define RDMAD_FABRIC_TCP_BLOB_H

#include "daemon/fabric/fabric.h"
#include "daemon/fabric/tcp/frame.h"

void offer_put(struct fabric_blob *b, uint16_t port, const uint8_t token[FRAME_TOKEN_BYTES],
               uint64_t number);
/* Reads an offer. False: it is no offer of this version. */
bool offer_read(const struct fabric_blob *b, uint16_t *port, uint8_t token[FRAME_TOKEN_BYTES],
                uint64_t *number);

void key_put(struct fabric_blob *b, uint32_t slot, uint64_t key);
bool key_read(const struct fabric_blob *b, uint32_t *slot, uint64_t *key);

#endif
