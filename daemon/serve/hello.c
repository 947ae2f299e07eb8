/* SPDX-License-Identifier: MIT */
/*
 * hello.c - the first message: the client says its name, the daemon says how things are here. And
 * the lifeline, which a client asks for next.
 */
#include "daemon/base/lifeline.h"
#include "daemon/base/log.h"
#include "daemon/serve/handlers.h"
#include "daemon/state/closing.h"
#include "daemon/state/pause.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* abi.h says what a session's name may be; empty is allowed here. */
static bool name_ok(const char *name) {
    if (*name == '.')
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
            return false;
    return true;
}

static int hello_check(const struct rdmad_hello_req *req, struct error *err) {
    if (req->reserved)
        return error_set(err, RDMAD_E_RESERVED, "the reserved field of HELLO is not zero");
    if (!serve_text_ok(req->name, sizeof(req->name)))
        return error_set(err, RDMAD_E_PROTOCOL,
                         "the name in HELLO must be a text, zero-filled to its field's end");
    if (!name_ok(req->name))
        return error_set(err, RDMAD_E_NAME,
                         "a session's name has letters, digits, '.', '_' and '-' only and does not "
                         "start with a dot");
    return 0;
}

static uint64_t max_pool_bytes(const struct session *s) {
    const struct quota_limits *all = &s->state->quota.limits;
    const struct quota_limits *l = quota_limits_of(&s->state->quota, s->uid_account);
    uint64_t least = l->session[QUOTA_BYTES];
    if (l->uid[QUOTA_BYTES] < least)
        least = l->uid[QUOTA_BYTES];
    return all->total[QUOTA_BYTES] < least ? all->total[QUOTA_BYTES] : least;
}

void serve_hello(const struct request *rq, const void *body) {
    const struct rdmad_hello_req *req = body;
    struct session *s = rq->session;
    const struct config *c = s->state->config;
    struct error err;
    if (hello_check(req, &err)) {
        serve_fail(rq, &err);
        return;
    }
    memcpy(s->name, req->name, sizeof(s->name));
    s->greeted = true;

    struct rdmad_hello_rep rep = {
        .session = s->id,
        .max_pool_bytes = max_pool_bytes(s),
        .default_timeout_ns = c->op_default_timeout_ms * NSEC_PER_MSEC,
        .spin_ns = c->client_spin_us * NSEC_PER_USEC,
    };
    snprintf(rep.node, sizeof(rep.node), "%s", s->state->node_name);
    snprintf(rep.fabric, sizeof(rep.fabric), "%s", plane_fabric(s->state->plane, 0)->name);
    LOG_LIMITED_OF(log_of_user(session_user_id(s)), DEBUG,
                   ("session %" PRIu64 " is %s", s->id, *s->name ? s->name : "without a name"),
                   FIELD_U64("SESSION", s->id), FIELD_U64("UID", s->uid), FIELD_U64("PID", s->pid));
    serve_reply(rq, &rep, sizeof(rep), NULL, 0);
    session_pause_greeted(s);
}

void serve_lifeline(const struct request *rq, const void *body) {
    const struct rdmad_lifeline_req *req = body;
    struct session *s = rq->session;
    struct error err = {.code = 0};
    if (req->reserved)
        error_set(&err, RDMAD_E_RESERVED, "the reserved field of LIFELINE is not zero");
    else if (s->has_lifeline)
        error_set(&err, RDMAD_E_EXISTS, "the session was given the daemon's lifeline before");
    if (err.code) {
        serve_fail(rq, &err);
        return;
    }
    int fd = lifeline_open_another(s->state->lifeline, &err);
    if (fd < 0) {
        serve_fail(rq, &err);
        return;
    }
    s->has_lifeline = true;
    if (serve_reply(rq, NULL, 0, &fd, 1))
        session_close_one_fd(s, fd);
    else
        close(fd);
}
