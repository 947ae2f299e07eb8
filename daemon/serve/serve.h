/* SPDX-License-Identifier: MIT */
/*
 * serve.h - what clients ask over the socket: one table of messages, one file of handlers a noun.
 *
 * The happy path: serve_accept makes a session of a connection; serve_message checks everything
 * that all messages have in common (magic, version, length, type, seq, reserved, descriptors, hello
 * first) and then calls the handler of the type (handlers.h).
 */
#ifndef RDMAD_SERVE_SERVE_H
#define RDMAD_SERVE_SERVE_H

#include <stddef.h>

#include <stdint.h>

struct session; /* state/session.h */
struct state;   /* state/state.h */

/* A client connected: listener_new's accepted, with struct state * as user. Makes conn and session,
 * or answers RDMAD_EV_SESSION_ENDED with the reason (a limit, stopping) and closes. */
void serve_accept(void *state, int fd);
/* The same when there is no descriptor left for a session: says so and closes. */
void serve_refuse(void *state, int fd);

/* A tenant's socket: whoever comes by it is of that tenant, whatever its uid. Both functions are as
 * the ones above, with struct serve_door * as user. */
struct serve_door {
    struct state *state;
    const char *tenant;
    uint32_t number; /* of the tenant, from 1 */
};
void serve_accept_tenant(void *door, int fd);
void serve_refuse_tenant(void *door, int fd);

/* One packet as it came, with conn_events.packet's descriptor. */
void serve_message(struct session *s, const void *data, size_t size, int *fds, unsigned nfds);

#endif
