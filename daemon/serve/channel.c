/* SPDX-License-Identifier: MIT */
/*
 * channel.c - connect, accept, reject, count, keep alive and close.
 *
 * The happy path: parse the URI, make an end, let the way to the other end be made (on this daemon,
 * or by its peer), and answer when the channel is open. The session is held meanwhile; if it
 * closes, the answer goes nowhere.
 */
#include "daemon/state/channel.h"
#include "daemon/base/clock.h"
#include "daemon/peer/peer.h"
#include "daemon/serve/channel_open.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/later.h"
#include "daemon/serve/reach.h"
#include "daemon/state/keepalive.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t timeout_of(const struct request *rq, uint64_t asked_ns) {
    return asked_ns ? asked_ns : rq->session->state->config->attach_timeout_ms * NSEC_PER_MSEC;
}

/* ---- who connects ------------------------------------------------------------------------ */

static int check_connect(const struct rdmad_channel_connect_req *req, struct rdmad_uri *uri,
                         struct error *err) {
    if (req->reserved)
        return error_set(err, RDMAD_E_RESERVED, "the reserved field of a connect is not zero");
    if (req->kind > RDMAD_CHANNEL_UNACKED)
        return error_set(err, RDMAD_E_INVAL,
                         "there is no kind %" PRIu32
                         " of channel: use reliable (0), datagram (1) or unacked (2)",
                         req->kind);
    if (!serve_text_ok(req->uri, sizeof(req->uri)))
        return error_set(err, RDMAD_E_PROTOCOL, "the URI of a connect must be a zero-filled text");
    const char *wrong = rdmad_uri_parse(req->uri, uri);
    if (wrong)
        return error_set(err, RDMAD_E_URI, "malformed URI of a service: %s", wrong);
    if (!uri->name[0])
        return error_set(err, RDMAD_E_URI,
                         "the URI names lease %" PRIu64
                         ", which one attaches to; one connects to a "
                         "service, rdmad://HOST:PORT/NAME",
                         uri->lease);
    return 0;
}

void serve_channel_connect(const struct request *rq, const void *body) {
    const struct rdmad_channel_connect_req *req = body;
    struct peers *peers = rq->session->state->peers;
    struct rdmad_uri uri;
    struct error err;

    if (check_connect(req, &uri, &err)) {
        serve_fail(rq, &err);
        return;
    }
    bool here = peers_is_self(peers, &uri);
    if (serve_check_reach(rq->session, &uri, here, &err)) {
        serve_fail(rq, &err);
        return;
    }
    struct channel *ch = channel_open_new(rq, req->kind, 0);
    if (!ch)
        return;
    if (here)
        channel_connect_local(ch, uri.name, timeout_of(rq, req->timeout_ns));
    else
        peer_connect(peers, ch, &uri, timeout_of(rq, req->timeout_ns));
}

/* ---- who is connected to ------------------------------------------------------------------ */

/* NULL: the request has been failed. */
static struct incoming *find_incoming(const struct request *rq, uint64_t service, uint64_t number) {
    struct service *sv = serve_own_service(rq, service);
    struct incoming *in = sv ? service_incoming(sv, number) : NULL;
    struct error err;
    if (in || !sv)
        return in;
    error_set(&err, RDMAD_E_HANDLE,
              "no connection %" PRIu64 " waits for service \"%s\": it was answered or has given up",
              number, sv->terms.name);
    serve_fail(rq, &err);
    return NULL;
}

void serve_channel_accept(const struct request *rq, const void *body) {
    const struct rdmad_channel_accept_req *req = body;
    struct incoming *in = find_incoming(rq, req->service, req->incoming);
    if (!in)
        return;
    incoming_give_place(in);
    struct channel *ch = channel_open_new(rq, in->kind, 0);
    if (!ch)
        return;
    ch->accepted = true;
    memcpy(ch->service, in->service->terms.name, sizeof(ch->service));
    incoming_accept(in, ch, timeout_of(rq, req->timeout_ns));
}

void serve_channel_reject(const struct request *rq, const void *body) {
    const struct rdmad_channel_reject_req *req = body;
    struct error why;

    if (!serve_text_ok(req->text, sizeof(req->text))) {
        error_set(&why, RDMAD_E_PROTOCOL, "the text of a reject must be a zero-filled text");
        serve_fail(rq, &why);
        return;
    }
    struct incoming *in = find_incoming(rq, req->service, req->incoming);
    if (!in)
        return;
    error_set(&why, RDMAD_E_REFUSED, "%s",
              req->text[0] ? req->text : "the service refused the connection");
    incoming_refuse(in, &why);
    serve_reply(rq, NULL, 0, NULL, 0);
}

/* ---- both ---- */

void serve_channel_stat(const struct request *rq, const void *body) {
    const struct rdmad_channel_stat_req *req = body;
    const struct channel *ch = channel_open_find(rq, req->channel);
    if (!ch)
        return;
    const struct plane_channel_stats stats = channel_stats(ch);
    struct rdmad_channel_stat_rep rep = {
        .channel = req->channel,
        .messages_sent = stats.messages_sent,
        .bytes_sent = stats.bytes_sent,
        .messages_received = stats.messages_received,
        .bytes_received = stats.bytes_received,
        .lost = stats.lost,
    };
    serve_reply(rq, &rep, sizeof(rep), NULL, 0);
}

void serve_channel_close(const struct request *rq, const void *body) {
    const struct rdmad_channel_close_req *req = body;
    struct error err = {0};

    if (req->reserved)
        error_set(&err, RDMAD_E_RESERVED, "the reserved field of a close is not zero");
    else if (req->abrupt > 1)
        error_set(&err, RDMAD_E_INVAL, "abrupt is neither 0 nor 1");
    if (err.code) {
        serve_fail(rq, &err);
        return;
    }
    struct channel *ch = channel_open_find(rq, req->channel);
    struct request *later = ch ? later_new(rq) : NULL;
    if (later)
        channel_close(ch, !req->abrupt, later_answer, later);
}

void serve_channel_keepalive(const struct request *rq, const void *body) {
    const struct rdmad_channel_keepalive_req *req = body;
    struct keepalive_terms terms = {.silent_ns = req->silent_ns, .ends = req->ends};
    struct error err = {0};

    if (req->reserved)
        error_set(&err, RDMAD_E_RESERVED, "the reserved field of a keep-alive is not zero");
    else if (req->ends > 1)
        error_set(&err, RDMAD_E_INVAL, "ends is neither 0 nor 1");
    else if (req->silent_ns && (req->silent_ns < RDMAD_CHANNEL_KEEPALIVE_MIN_NS ||
                                req->silent_ns > RDMAD_CHANNEL_KEEPALIVE_MAX_NS))
        error_set(&err, RDMAD_E_RANGE,
                  "a keep-alive of %" PRIu64 " ms: it has at least %" PRIu64
                  " ms and at most %" PRIu64 " ms, or 0 for none",
                  req->silent_ns / NSEC_PER_MSEC, RDMAD_CHANNEL_KEEPALIVE_MIN_NS / NSEC_PER_MSEC,
                  RDMAD_CHANNEL_KEEPALIVE_MAX_NS / NSEC_PER_MSEC);
    struct channel *ch = err.code ? NULL : channel_open_find(rq, req->channel);
    if (ch && keepalive_set(ch, &terms, &err) == 0)
        serve_reply(rq, NULL, 0, NULL, 0);
    else if (err.code)
        serve_fail(rq, &err);
}
