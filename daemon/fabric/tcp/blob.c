/* SPDX-License-Identifier: MIT */
/*
 * blob.c - the bytes of offers and keys: a version, then words in little-endian order.
 */
#include "daemon/fabric/tcp/blob.h"

#define OFFER_VERSION 2u
#define OFFER_BYTES (12u + FRAME_TOKEN_BYTES) /* version, zero, port, token, number */
#define KEY_VERSION 1u
#define KEY_BYTES 16u /* version, three zeros, slot, key */

void offer_put(struct fabric_blob *b, uint16_t port, const uint8_t token[FRAME_TOKEN_BYTES],
               uint64_t number) {
    uint16_t wire = htole16(port);
    *b = (struct fabric_blob){.size = OFFER_BYTES, .bytes = {OFFER_VERSION, 0}};
    memcpy(b->bytes + 2, &wire, sizeof wire);
    memcpy(b->bytes + 4, token, FRAME_TOKEN_BYTES);
    word_put(b->bytes + 4 + FRAME_TOKEN_BYTES, number);
}

bool offer_read(const struct fabric_blob *b, uint16_t *port, uint8_t token[FRAME_TOKEN_BYTES],
                uint64_t *number) {
    if (b->size != OFFER_BYTES || b->bytes[0] != OFFER_VERSION || b->bytes[1] != 0)
        return false;
    uint16_t p;
    memcpy(&p, b->bytes + 2, sizeof p);
    *port = le16toh(p);
    memcpy(token, b->bytes + 4, FRAME_TOKEN_BYTES);
    *number = word_get(b->bytes + 4 + FRAME_TOKEN_BYTES);
    return *port != 0 && *number != 0;
}

void key_put(struct fabric_blob *b, uint32_t slot, uint64_t key) {
    uint32_t wire = htole32(slot);
    *b = (struct fabric_blob){.size = KEY_BYTES, .bytes = {KEY_VERSION}};
    memcpy(b->bytes + 4, &wire, sizeof wire);
    word_put(b->bytes + 8, key);
}

bool key_read(const struct fabric_blob *b, uint32_t *slot, uint64_t *key) {
    if (b->size != KEY_BYTES || b->bytes[0] != KEY_VERSION || b->bytes[1] || b->bytes[2] ||
        b->bytes[3])
        return false;
    memcpy(slot, b->bytes + 4, sizeof *slot);
    *slot = le32toh(*slot);
    *key = word_get(b->bytes + 8);
    return true;
}
