/* SPDX-License-Identifier: MIT */
/*
 * stranger.h - accepted connections that have not proven yet whose they are.
 */
#ifndef RDMAD_FABRIC_TCP_STRANGER_H
#define RDMAD_FABRIC_TCP_STRANGER_H

#include "daemon/fabric/tcp/instance.h"
#include <sys/socket.h>

/* Takes the accepted fd; false: it could not. */
bool stranger_add(struct tcp *t, int fd, const struct sockaddr_storage *address);
void strangers_expire(struct tcp *t);
/* Those that have shown a token of that peer; the number's alone, unless it is 0. */
void strangers_drop(struct tcp *t, uint64_t peer, uint64_t number);
void strangers_close(struct tcp *t);

#endif
