/* SPDX-License-Identifier: MIT */
/*
 * reply.c - answers bear the type of their request, marked as a reply, and its seq.
 */
#include "daemon/serve/reply.h"
#include <string.h>

void serve_reply(const struct request *rq, const void *body, size_t size, const int *fds,
                 unsigned nfds) {
    session_send(rq->session, (uint16_t)(rq->type | RDMAD_MSG_REPLY), rq->seq, body, size, fds,
                 nfds);
}

void serve_fail(const struct request *rq, const struct error *why) {
    session_send_error(rq->session, (uint16_t)(rq->type | RDMAD_MSG_REPLY), rq->seq, why);
}

bool serve_text_ok(const char *field, size_t size) {
    size_t n = strnlen(field, size);
    if (n == size)
        return false;
    for (; n < size; n++)
        if (field[n])
            return false;
    return true;
}
