/* SPDX-License-Identifier: MIT */
/*
 * bench_messages.h - rdmactl bench send: messages over a channel, both sides.
 *
 * The server's head names a service. The client connects and sends a struct bench_greeting; from
 * then on the server answers every message by one of the same size (depth 1, a ping-pong), or only
 * takes them, with as many receives posted as the client has sends in flight. Closing the channel
 * ends it.
 */
#ifndef RDMACTL_BENCH_MESSAGES_H
#define RDMACTL_BENCH_MESSAGES_H

#include "rdmactl/bench_run.h"

struct bench_greeting {
    uint64_t magic; /* BENCH_MAGIC */
    uint64_t bytes; /* of a message, at most */
    uint32_t depth;
    uint32_t poll; /* enum bench_poll */
};

/* Returns 0, or RDMAD_E_* with why when the run could not go on. */
int bench_messages(struct bench_run *run, const char *service);

/* Accepts a connection that waits at the service, and serves it until its channel ends or over says
 * so. Complains on standard error about a client that makes no sense. */
void bench_messages_serve(rdmad_session *session, rdmad_service *service, uint64_t max_message,
                          bool (*over)(void *user), void *user);

#endif
