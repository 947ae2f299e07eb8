/* SPDX-License-Identifier: MIT */
/*
 * blob.h - what two engines tell one another over the control plane: offers and keys.
 *
 * A hello is empty, or says that its link is to be encrypted. An offer says where to dial, which
 * token to show, the number by which both will know the connection, and, if it is to be encrypted,
 * the key that proves who is there. A key names a window. What a peer's blob says is judged here.
 */
#ifndef RDMAD_FABRIC_TCP_BLOB_H
#define RDMAD_FABRIC_TCP_BLOB_H

#include "daemon/fabric/fabric.h"
#include "daemon/fabric/tcp/frame.h"
#include "daemon/fabric/tcp/handshake.h"

void wish_put(struct fabric_blob *b, bool encrypt);
/* Reads a hello. False: it is none of this fabric. */
bool wish_read(const struct fabric_blob *b, bool *encrypt);

struct invitation {
    uint16_t port;
    uint8_t token[FRAME_TOKEN_BYTES];
    uint64_t number;
    bool encrypt;
    uint8_t secret[HANDSHAKE_KEY_BYTES]; /* if encrypt */
};
void offer_put(struct fabric_blob *b, const struct invitation *i);
/* Reads an offer. False: it is no offer of this version. */
bool offer_read(const struct fabric_blob *b, struct invitation *i);

void key_put(struct fabric_blob *b, uint32_t slot, uint64_t key);
bool key_read(const struct fabric_blob *b, uint32_t *slot, uint64_t *key);

#endif
