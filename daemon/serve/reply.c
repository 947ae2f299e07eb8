/* SPDX-License-Identifier: MIT */
/*
 * reply.c - answers bear the type of their request, marked as a reply, and its seq.
 */
#include "daemon/serve/reply.h"
#include "daemon/base/audit.h"
#include "daemon/base/audit_cause.h"
#include "daemon/state/origin.h"
#include <string.h>

bool serve_reply(const struct request *rq, const void *body, size_t size, const int *fds,
                 unsigned nfds) {
    return session_send(rq->session, (uint16_t)(rq->type | RDMAD_MSG_REPLY), rq->seq, body, size,
                        fds, nfds);
}

void serve_error(const struct request *rq, const struct error *why) {
    session_send_error(rq->session, (uint16_t)(rq->type | RDMAD_MSG_REPLY), rq->seq, why);
}

void serve_fail(const struct request *rq, const struct error *why) {
    const struct session *s = rq->session;
    const char *cause = audit_cause_of(why->code);
    if (why->code == RDMAD_E_SHUTDOWN && s->state->stopping && origin_is_set(s))
        return; /* its client asks the next daemon, as if this one had died over it */
    if (cause)
        AUDIT(REFUSED, cause, session_who(s), audit_object("session", s->id), ("%s", why->text));
    serve_error(rq, why);
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
