/* SPDX-License-Identifier: MIT */
/*
 * reply.h - one request of a client, and the one answer that it gets.
 */
#ifndef RDMAD_SERVE_REPLY_H
#define RDMAD_SERVE_REPLY_H

#include "daemon/state/session.h"
#include <rdmad/wire.h>

struct request { /* small, copied by handlers that reply later (later.h) */
    struct session *session;
    uint16_t type;
    uint32_t seq;
    int *fd; /* of a message that comes with a descriptor: who keeps it puts -1 there */
};

/* Returns whether the client has it, or may (conn_send). */
bool serve_reply(const struct request *rq, const void *body, size_t size, const int *fds,
                 unsigned nfds);
/* Who could go on with the next daemon is refused nothing because this one stops: it gets no
 * answer, and asks there. */
void serve_fail(const struct request *rq, const struct error *why);
/* An error, too, but of who was refused nothing: no event, and the audit does not count it. */
void serve_error(const struct request *rq, const struct error *why);

/* Whether a fixed text field is NUL-terminated and zero-filled after that. */
bool serve_text_ok(const char *field, size_t size);

#endif
