/* SPDX-License-Identifier: MIT */
/*
 * blob.c - the bytes of hellos, offers and keys: a version, then words in little-endian order.
 */
#include "daemon/fabric/tcp/blob.h"

#define HELLO_VERSION 1u
#define WISH_BYTES 2u                         /* version, one */
#define OFFER_CLEAR 2u                        /* version of one without a secret, */
#define OFFER_ENCRYPTED 3u                    /* and of one with it */
#define CLEAR_BYTES (12u + FRAME_TOKEN_BYTES) /* version, zero, port, token, number */
#define ENCRYPTED_BYTES (CLEAR_BYTES + HANDSHAKE_KEY_BYTES)
#define KEY_VERSION 1u
#define KEY_BYTES 16u /* version, three zeros, slot, key */

_Static_assert(ENCRYPTED_BYTES <= FABRIC_BLOB_MAX, "an offer fits its blob");

void wish_put(struct fabric_blob *b, bool encrypt) {
    *b = (struct fabric_blob){.size = encrypt ? WISH_BYTES : 0, .bytes = {HELLO_VERSION, 1}};
}

bool wish_read(const struct fabric_blob *b, bool *encrypt) {
    *encrypt = b->size == WISH_BYTES;
    return b->size == 0 || (*encrypt && b->bytes[0] == HELLO_VERSION && b->bytes[1] == 1);
}

void offer_put(struct fabric_blob *b, const struct invitation *i) {
    uint16_t wire = htole16(i->port);
    *b = (struct fabric_blob){.size = i->encrypt ? ENCRYPTED_BYTES : CLEAR_BYTES,
                              .bytes = {i->encrypt ? OFFER_ENCRYPTED : OFFER_CLEAR, 0}};
    memcpy(b->bytes + 2, &wire, sizeof wire);
    memcpy(b->bytes + 4, i->token, FRAME_TOKEN_BYTES);
    word_put(b->bytes + 4 + FRAME_TOKEN_BYTES, i->number);
    if (i->encrypt)
        memcpy(b->bytes + CLEAR_BYTES, i->secret, HANDSHAKE_KEY_BYTES);
}

bool offer_read(const struct fabric_blob *b, struct invitation *i) {
    *i = (struct invitation){.encrypt = b->size == ENCRYPTED_BYTES};
    if ((b->size != CLEAR_BYTES && !i->encrypt) ||
        b->bytes[0] != (i->encrypt ? OFFER_ENCRYPTED : OFFER_CLEAR) || b->bytes[1] != 0)
        return false;
    uint16_t port;
    memcpy(&port, b->bytes + 2, sizeof port);
    i->port = le16toh(port);
    memcpy(i->token, b->bytes + 4, FRAME_TOKEN_BYTES);
    i->number = word_get(b->bytes + 4 + FRAME_TOKEN_BYTES);
    if (i->encrypt)
        memcpy(i->secret, b->bytes + CLEAR_BYTES, HANDSHAKE_KEY_BYTES);
    return i->port != 0 && i->number != 0;
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
