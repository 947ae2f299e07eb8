/* SPDX-License-Identifier: MIT */
/*
 * wakeup.c - any number of bytes that piled up are one wakeup.
 */
#include "libclient/ring/wakeup.h"
#include <errno.h>
#include <sys/socket.h>

bool rdmad_ring_drain(struct rdmad_ring *r) {
    char bytes[64];
    ssize_t n;
    do
        n = recv(r->wakeup, bytes, sizeof(bytes), MSG_DONTWAIT);
    while (n == (ssize_t)sizeof(bytes) || (n < 0 && errno == EINTR));
    return n > 0 || (n < 0 && errno == EAGAIN);
}
