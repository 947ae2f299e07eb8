/* SPDX-License-Identifier: MIT */
/*
 * The stream of a control connection: whatever a peer sends, each frame is taken or refused, and
 * one that is taken says the same when it is written and read again. Frames are of our version, so
 * that what is in the corpus stays good for the next one, unless the first byte says that they are
 * of the one that they tell.
 */
#include "daemon/peer/wire/wire.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct peer_msg *m) {
    uint8_t frame[PEER_WIRE_MAX];
    struct peer_msg again;
    size_t length = peer_wire_encode(m, frame);
    if (peer_wire_decode(frame, length, &again, NULL) || memcmp(m, &again, sizeof(again)))
        abort();
}

static uint8_t stream[1u << 16];

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    struct error err;
    struct peer_msg m;
    size_t length;
    uint8_t *data = stream;
    if (size < 1 || --size > sizeof(stream))
        return 0;
    bool from_dialler = input[0] & 1, any_version = input[0] & 2;
    memcpy(stream, input + 1, size);
    while (size >= PEER_WIRE_HEAD) {
        if (!any_version) {
            data[4] = PEER_WIRE_VERSION & 0xff;
            data[5] = PEER_WIRE_VERSION >> 8;
        }
        if (peer_wire_length(data, from_dialler, &length, &err))
            break;
        if (length < PEER_WIRE_HEAD || length > PEER_WIRE_MAX)
            abort();
        if (length > size || peer_wire_decode(data, length, &m, &err))
            break;
        round_trip(&m);
        data += length;
        size -= length;
    }
    return 0;
}
