/* SPDX-License-Identifier: MIT */
/*
 * renewal_call.h - one question to the daemon of the cluster's CA, from a thread that may wait: for
 * this node's next certificate, or for the list of revoked ones. What it answers is kept in the
 * identity directory.
 */
#ifndef RDMAD_PEER_CONNECT_RENEWAL_CALL_H
#define RDMAD_PEER_CONNECT_RENEWAL_CALL_H

#include "daemon/base/error.h"
#include <stdbool.h>
#include <stdint.h>

#define RENEWAL_CALL_NS (UINT64_C(15) * 1000000000) /* all of it */

struct addrinfo;

struct renewal_call {
    char dir[1024];  /* the identity's */
    char where[280]; /* HOST:PORT, for sentences; the CA is here itself if there are no addresses */
    struct addrinfo *addresses;
    bool list_only;
    bool given_up; /* atomic, set by another thread: it returns within 0.1 s */
};

/* 0: what was asked for is in the directory. */
int renewal_call(struct renewal_call *c, struct error *err);

#endif
