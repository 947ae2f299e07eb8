/* SPDX-License-Identifier: MIT */
/*
 * state.c - what every file of host/ may do to the host: wake its thread.
 */
#include "daemon/fabric/verbs/host/state.h"
#include <errno.h>
#include <unistd.h>

void host_wake(struct fabric_host *h) {
    uint64_t one = 1;
    ssize_t n;
    do {
        n = write(h->wake_fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
}
