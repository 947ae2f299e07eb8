/* SPDX-License-Identifier: MIT */
/*
 * channel_open.c - what every way to have a channel has in common.
 *
 * The session is held until the end is open; if it closes meanwhile, the answer goes nowhere.
 */
#include "daemon/serve/channel_open.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct channel_call {
    struct request rq;
    struct channel *channel; /* gone when it came to nothing */
};

static void channel_open_done(void *arg, const struct error *result) {
    struct channel_call *call = arg;
    struct session *s = call->rq.session;

    if (result && result->code) {
        serve_fail(&call->rq, result);
    } else {
        const struct channel *ch = call->channel;
        struct rdmad_channel_rep rep = {
            .channel = ch->handle,
            .max_message = channel_max_message(ch),
            .kind = ch->kind,
            .route = ch->remote ? RDMAD_ROUTE_LINK : RDMAD_ROUTE_LOCAL,
            .peer_uid = ch->peer_uid,
            .flags = ch->peer_proven ? RDMAD_CHANNEL_PEER_PROVEN : 0,
        };
        snprintf(rep.fabric, sizeof(rep.fabric), "%s", ch->fabric ? ch->fabric : "");
        memcpy(rep.peer_node, ch->peer_node, sizeof(rep.peer_node));
        memcpy(rep.peer_address, ch->peer_address, sizeof(rep.peer_address));
        serve_reply(&call->rq, &rep, sizeof(rep), NULL, 0);
    }
    free(call);
    session_release(s);
}

struct channel *channel_open_new(const struct request *rq, uint32_t kind, uint64_t again) {
    struct channel_call *call = malloc(sizeof(*call));
    struct session *s = rq->session;
    struct channel *ch;
    struct error err;
    int rc;
    if (!call)
        rc = error_set(&err, RDMAD_E_NOMEM, "out of memory for a channel");
    else if (again)
        rc = channel_new_again(s, again, channel_open_done, call, &ch, &err);
    else
        rc = channel_new(s, kind, channel_open_done, call, &ch, &err);
    if (rc) {
        free(call);
        serve_fail(rq, &err);
        return NULL;
    }
    *call = (struct channel_call){.rq = *rq, .channel = ch};
    session_hold(s);
    return ch;
}

struct channel *channel_open_find(const struct request *rq, uint64_t handle) {
    struct channel *ch = channel_by_handle(rq->session, handle);
    struct error err;
    if (ch)
        return ch;
    error_set(&err, RDMAD_E_HANDLE, "this session has no channel %" PRIu64 ", or closed it already",
              handle);
    serve_fail(rq, &err);
    return NULL;
}
