/* SPDX-License-Identifier: MIT */
/*
 * peer_seeds DIR: writes a good message of each type, as fuzz_peer_wire reads it, into a file of
 * its own: what a fuzzer that starts from nothing would never guess. coverage.sh --grow runs it.
 */
#include "daemon/peer/wire/wire.h"
#include "tests/unit/peer_samples.h"
#include <stdio.h>
#include <stdlib.h>

static int write_seed(const char *dir, const struct peer_msg *m, bool from_dialler) {
    uint8_t frame[1 + PEER_WIRE_MAX];
    char path[512];
    size_t length = peer_wire_encode(m, frame + 1);
    frame[0] = from_dialler;
    snprintf(path, sizeof(path), "%s/%s%s", dir, peer_wire_name(m->type),
             from_dialler ? "_of_the_dialler" : "");
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(frame, 1, 1 + length, f) != 1 + length || fclose(f)) {
        perror(path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    int rc = argc != 2;
    for (uint16_t type = 1; !rc && type < PEER_MSG_COUNT; type++) {
        struct peer_msg m = peer_sample(type);
        rc = write_seed(argv[1], &m, false) | write_seed(argv[1], &m, true);
    }
    return rc;
}
