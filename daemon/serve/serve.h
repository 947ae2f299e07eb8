/* SPDX-License-Identifier: MIT */
/*
 * serve.h - what clients ask over the socket: one table, one handler file a noun.
 *
 * serve_message checks everything that all messages have in common (magic, version, length, type,
 * seq, reserved, descriptors, hello first) and then calls the handler of the type with a body of
 * exactly the right size. A handler replies once, now or later, with serve_reply or serve_fail.
 */
#ifndef RDMAD_SERVE_SERVE_H
#define RDMAD_SERVE_SERVE_H

#include "daemon/state/session.h"
#include <rdmad/wire.h>

struct request { /* small, copied by handlers that reply later (they also hold the session) */
    struct session *session;
    uint16_t type;
    uint32_t seq;
    int *fd; /* of a message that comes with a descriptor: who keeps it puts -1 there */
};

typedef void serve_handler(const struct request *rq, const void *body);

/* A client connected: listener_new's accepted, with struct state * as user. Makes conn and session,
 * or answers RDMAD_EV_SESSION_ENDED with the reason (a limit, stopping) and closes. */
void serve_accept(void *state, int fd);
/* The same when there is no descriptor left for a session: says so and closes. */
void serve_refuse(void *state, int fd);

/* One packet as it came, with conn_events.packet's descriptor. */
void serve_message(struct session *s, const void *data, size_t size, int *fds, unsigned nfds);

/* An answer that was sent with descriptors, which could not be passed on: gives back what was made
 * and fails the request. */
void serve_unsent(struct session *s, const void *answer, size_t size, const char *why);

void serve_reply(const struct request *rq, const void *body, size_t size, const int *fds,
                 unsigned nfds);
void serve_fail(const struct request *rq, const struct error *why);

/* Whether a fixed text field is NUL-terminated and zero-filled after that. */
bool serve_text_ok(const char *field, size_t size);

serve_handler serve_hello;                                 /* hello.c */
serve_handler serve_ring_create, serve_ring_destroy;       /* ring.c */
serve_handler serve_pool_create, serve_pool_destroy;       /* pool.c */
serve_handler serve_lease_grant, serve_lease_renew;        /* lease.c */
serve_handler serve_lease_revoke, serve_lease_stat;        /* lease.c */
serve_handler serve_lease_attach, serve_lease_release;     /* attach.c */
serve_handler serve_pool_import, serve_pool_ready;         /* pool.c */
serve_handler serve_ring_ready;                            /* ring.c */
serve_handler serve_lease_delegate, serve_lease_keep;      /* lend.c */
serve_handler serve_lease_request, serve_lease_hand_over;  /* request.c */
serve_handler serve_budget_free;                           /* request.c */
serve_handler serve_names_list, serve_names_watch;         /* names.c */
serve_handler serve_names_unwatch;                         /* names.c */
serve_handler serve_service_listen, serve_service_close;   /* service.c */
serve_handler serve_channel_connect, serve_channel_accept; /* channel.c */
serve_handler serve_channel_reject, serve_channel_close;   /* channel.c */
serve_handler serve_channel_stat;                          /* channel.c */

/* The client reads again: tells it the names that it missed. */
void serve_names_go_on(struct session *s);

/* The session's own service of that number. NULL: there is none, and the request has been failed.
 */
struct service;
struct service *serve_own_service(const struct request *rq, uint64_t number);

#endif
