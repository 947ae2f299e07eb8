/* SPDX-License-Identifier: MIT */
/*
 * names.c - what is published, here or at a peer: listed, and watched.
 *
 * A watch is the session's until it is unwatched, or its peer is lost; then its last event says
 * why. A client that reads slowly gets what it missed when it reads again (serve_names_go_on).
 */
#include "daemon/state/names.h"
#include "common/uri.h"
#include "daemon/peer/peer.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/later.h"
#include "daemon/serve/reach.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WATCHES_MAX 16u /* of one session */

/* ---- where --------------------------------------------------------------------------------- */

/* "rdmad://HOST:PORT/" or "": host is then empty, as it is for every name of this daemon. */
static int parse_where(const struct session *s, const char *where, struct names_query *q,
                       struct error *err) {
    static const char scheme[] = "rdmad://";
    const char *from = where + strlen(scheme), *end;
    char hostport[RDMAD_URI_MAX + 1] = "";
    const char *wrong = NULL;

    if (!where[0])
        return 0;
    if (strncmp(where, scheme, strlen(scheme)) != 0)
        wrong = "it does not begin with rdmad://";
    else if (!(end = strchr(from, '/')) || end[1])
        wrong = "it is not of the form rdmad://HOST:PORT/";
    if (!wrong && end != from) {
        memcpy(hostport, from, (size_t)(end - from));
        wrong = rdmad_hostport_parse(hostport, q->host, &q->port);
        if (!wrong && !q->port)
            wrong = "its port is 0";
    }
    if (wrong)
        return error_set(err, RDMAD_E_URI, "malformed URI of a daemon: %s", wrong);
    struct rdmad_uri uri = {.port = q->port};
    memcpy(uri.host, q->host, sizeof(uri.host));
    if (q->host[0] && !peers_is_self(s->state->peers, &uri))
        return serve_check_peer(s, q->host, err);
    q->host[0] = '\0';
    return 0;
}

static int names_parse(const struct session *s, const char *where, const char *prefix,
                       const char *after, struct names_query *q, struct error *err) {
    int rc;
    if (!serve_text_ok(where, RDMAD_URI_MAX + 1) || !serve_text_ok(prefix, RDMAD_NAME_MAX + 1) ||
        !serve_text_ok(after, RDMAD_NAME_MAX + 1))
        return error_set(err, RDMAD_E_PROTOCOL,
                         "where, prefix and after must be zero-filled texts");
    if ((rc = names_check_prefix(prefix, err)) || (rc = names_check_prefix(after, err)) ||
        (rc = parse_where(s, where, q, err)))
        return rc;
    memcpy(q->prefix, prefix, sizeof(q->prefix));
    memcpy(q->after, after, sizeof(q->after));
    return 0;
}

/* ---- list ---------------------------------------------------------------------------------- */

static void listed(void *arg, const struct error *result, const struct rdmad_names_list_rep *rep) {
    later_reply(arg, result, rep, sizeof(*rep));
}

static void list_here(const struct request *rq, const struct names_query *q) {
    struct lessee who = {.session = rq->session};
    struct rdmad_names_list_rep rep = {0};
    bool more;
    rep.count = names_list(rq->session->state->names, &who, q->prefix, q->after, rep.entry,
                           RDMAD_NAMES_PER_REPLY, &more);
    rep.more = more;
    serve_reply(rq, &rep, sizeof(rep), NULL, 0);
}

void serve_names_list(const struct request *rq, const void *body) {
    const struct rdmad_names_list_req *req = body;
    struct names_query q = {.timeout_ns = req->timeout_ns};
    struct request *later;
    struct error err;

    if (names_parse(rq->session, req->where, req->prefix, req->after, &q, &err))
        serve_fail(rq, &err);
    else if (!q.host[0])
        list_here(rq, &q);
    else if ((later = later_new(rq)))
        peer_list(rq->session, &q, listed, later);
}

/* ---- watch --------------------------------------------------------------------------------- */

struct client_watch {
    struct watch watch;
    struct session *session; /* which ends it when it closes */
    uint64_t number;
    struct peer_ask *ask;  /* at a peer; NULL: of this daemon, or not yet */
    struct request *later; /* not answered yet */
};

static struct client_watch *client_watch_of(struct watch *w) {
    return container_of(w, struct client_watch, watch);
}

static bool client_watch_lags(struct watch *w) {
    return session_lags(client_watch_of(w)->session);
}

static void client_watch_tell(struct watch *w, const struct rdmad_name_entry *entry,
                              enum name_news what) {
    struct rdmad_ev_name ev = {.watch = client_watch_of(w)->number, .gone = what, .entry = *entry};
    session_send(client_watch_of(w)->session, RDMAD_EV_NAME, 0, &ev, sizeof(ev), NULL, 0);
}

static void client_watch_more(struct watch *w, unsigned count) {
    if (client_watch_of(w)->ask)
        peer_watch_more(client_watch_of(w)->ask, count);
}

static void client_watch_free(struct client_watch *cw) {
    watch_end(&cw->watch);
    list_remove(&cw->watch.of_session);
    assert(cw->session->nwatches);
    cw->session->nwatches--;
    if (cw->ask)
        peer_unwatch(cw->ask);
    if (cw->later)
        later_free(cw->later);
    free(cw);
}

static void client_watch_over(struct watch *w, int reason) {
    struct rdmad_ev_name ev = {.watch = client_watch_of(w)->number, .gone = 1, .reason = reason};
    session_send(client_watch_of(w)->session, RDMAD_EV_NAME, 0, &ev, sizeof(ev), NULL, 0);
    client_watch_free(client_watch_of(w));
}

static const struct watch_ops client_ops = {.lags = client_watch_lags,
                                            .tell = client_watch_tell,
                                            .more = client_watch_more,
                                            .over = client_watch_over};

void serve_names_go_on(struct session *s) {
    list_for_each_safe (node, &s->watches)
        watch_go_on(list_entry(node, struct watch, of_session));
}

static void answer_watch(struct client_watch *cw, const struct request *rq) {
    struct rdmad_names_watch_rep rep = {.watch = cw->number};
    serve_reply(rq, &rep, sizeof(rep), NULL, 0);
}

/* The peer tells. */
static void begun(void *arg, const struct error *result) {
    struct client_watch *cw = arg;
    struct request *later = cw->later;
    cw->later = NULL;
    if (result->code) {
        cw->ask = NULL;
        serve_fail(later, result);
        client_watch_free(cw);
    } else {
        answer_watch(cw, later);
    }
    later_free(later);
}

static struct client_watch *client_watch_new(const struct request *rq, struct error *err) {
    struct session *s = rq->session;
    struct client_watch *cw = NULL;
    if (s->nwatches >= WATCHES_MAX)
        error_set(err, RDMAD_E_LIMIT, "session %" PRIu64 " has %u watches, at most %u; end some",
                  s->id, s->nwatches, WATCHES_MAX);
    else if (!(cw = calloc(1, sizeof(*cw))))
        error_set(err, RDMAD_E_NOMEM, "out of memory for a watch");
    else
        *cw = (struct client_watch){.session = s, .number = ++s->watch_numbers};
    return cw;
}

void serve_names_watch(const struct request *rq, const void *body) {
    static const char nothing[RDMAD_NAME_MAX + 1];
    const struct rdmad_names_watch_req *req = body;
    struct session *s = rq->session;
    struct names_query q = {.timeout_ns = req->timeout_ns};
    struct lessee who = {.session = s};
    struct client_watch *cw;
    struct error err;

    if (names_parse(s, req->where, req->prefix, nothing, &q, &err) ||
        !(cw = client_watch_new(rq, &err))) {
        serve_fail(rq, &err);
        return;
    }
    s->nwatches++;
    if (!q.host[0])
        answer_watch(cw, rq);
    watch_begin(&cw->watch, q.host[0] ? NULL : s->state->names, &who, q.prefix, &client_ops);
    list_append(&s->watches, &cw->watch.of_session);
    if (!q.host[0])
        return;
    cw->later = later_new(rq);
    if (!cw->later) {
        client_watch_free(cw);
        return;
    }
    struct peer_ask *ask = peer_watch(s, &q, &cw->watch, begun, cw);
    if (ask) /* else cw is gone */
        cw->ask = ask;
}

void serve_names_unwatch(const struct request *rq, const void *body) {
    const struct rdmad_names_unwatch_req *req = body;
    struct error err;
    list_for_each (node, &rq->session->watches) {
        struct client_watch *cw = client_watch_of(list_entry(node, struct watch, of_session));
        if (cw->number != req->watch || cw->later)
            continue;
        client_watch_free(cw);
        serve_reply(rq, NULL, 0, NULL, 0);
        return;
    }
    error_set(&err, RDMAD_E_HANDLE,
              "this session has no watch %" PRIu64 ", or it has ended already", req->watch);
    serve_fail(rq, &err);
}
