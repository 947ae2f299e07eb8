/* SPDX-License-Identifier: MIT */
/*
 * notify.c - what peers' NOTIFYs bring.
 */
#include "daemon/op/worker.h"

void notify_received(struct worker *w, uint64_t peer, uint64_t number, const uint8_t *bytes,
                     size_t size) {
    (void)w;
    (void)peer;
    (void)number;
    (void)bytes;
    (void)size;
}
