/* SPDX-License-Identifier: MIT */
/*
 * attach.c - what a lessee asks: attach and release.
 *
 * The happy path: parse the URI, make a handle, attach it to a lease of this daemon or, by way of
 * its daemon, to one of a peer, and answer when the data plane has taken it up. The session is held
 * meanwhile; if it closes, the attach is given up and the answer goes nowhere.
 */
#include "daemon/serve/attach.h"
#include "daemon/base/clock.h"
#include "daemon/peer/peer.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/later.h"
#include "daemon/serve/reach.h"
#include "daemon/state/handle.h"
#include "daemon/state/lessee_told.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void released_unused(void *arg, const struct error *result) {
    (void)arg, (void)result;
}

void attach_done(void *arg, const struct error *result) {
    struct attach_call *call = arg;
    struct session *s = call->rq.session;

    struct handle *h = call->handle;
    struct error none;
    if (result && result->code) {
        struct error why = *result;
        if (attach_waits(&call->again, result))
            return;
        attach_is_early(&call->again, &why);
        serve_fail(&call->rq, &why);
    } else if (!h->rights && policy_check_attach(&s->policy, RDMAD_RIGHTS_ALL, &none)) {
        serve_fail(&call->rq, &none); /* the policy has left nothing of the lease's rights */
        handle_release(h, released_unused, NULL);
    } else {
        struct rdmad_lease_attach_rep rep = {
            .handle = h->number,
            .lease = h->lease_id,
            .length = h->length,
            .ttl_ns = clock_left(state_now(s->state), h->deadline_ns),
            .rights = h->rights,
            .route = h->remote ? RDMAD_ROUTE_LINK : RDMAD_ROUTE_LOCAL,
        };
        snprintf(rep.fabric, sizeof(rep.fabric), "%s", h->fabric);
        lessee_told(s, h->lease_id, h->remote ? h->uri : NULL);
        serve_reply(&call->rq, &rep, sizeof(rep), NULL, 0);
    }
    free(call);
    session_release(s);
}

uint64_t attach_timeout(const struct state *st, uint64_t asked_ns) {
    return asked_ns ? asked_ns : st->config->attach_timeout_ms * NSEC_PER_MSEC;
}

/* The URI without its secret, for show. */
static void note_uri(struct handle *h, const struct rdmad_uri *uri) {
    struct rdmad_uri shown = *uri;
    for (size_t i = 0; i < sizeof(shown.key); i++)
        shown.key[i] = 0;
    if (rdmad_uri_print(&shown, h->uri, sizeof(h->uri)) < 0)
        h->uri[0] = '\0';
    char *query = h->uri[0] ? strchr(h->uri, '?') : NULL;
    if (query)
        *query = '\0';
}

int attach_parse_uri(const char *field, const char *what, struct rdmad_uri *uri,
                     struct error *err) {
    if (!serve_text_ok(field, RDMAD_URI_MAX + 1))
        return error_set(err, RDMAD_E_PROTOCOL, "the URI of a %s must be a zero-filled text", what);
    const char *wrong = rdmad_uri_parse(field, uri);
    if (wrong)
        return error_set(err, RDMAD_E_URI, "malformed %s URI: %s", what, wrong);
    return 0;
}

/* number 0: any. */
static struct attach_call *attach_call_make(const struct request *rq, const struct rdmad_uri *uri,
                                            uint64_t number) {
    struct attach_call *call;
    struct error err;
    struct handle *h;
    int rc = number ? handle_new_again(rq->session, number, &h, &err)
                    : handle_new(rq->session, &h, &err);

    if (rc) {
        serve_fail(rq, &err);
        return NULL;
    }
    call = malloc(sizeof(*call));
    if (!call) {
        handle_free(h);
        error_set(&err, RDMAD_E_NOMEM, "out of memory for an attach");
        serve_fail(rq, &err);
        return NULL;
    }
    *call = (struct attach_call){.rq = *rq, .handle = h};
    note_uri(h, uri);
    session_hold(rq->session);
    return call;
}

struct attach_call *attach_call_new(const struct request *rq, const struct rdmad_uri *uri) {
    return attach_call_make(rq, uri, 0);
}

void attach_failed(struct attach_call *call, const struct error *why) {
    assert(call->handle && call->handle->stage == HANDLE_NEW && why->code);
    handle_free(call->handle);
    attach_done(call, why);
}

/* Begins the attach of a handle that call has already. */
static void attach_begin(struct attach_call *call, const struct rdmad_uri *uri,
                         uint64_t timeout_ns) {
    struct state *st = call->rq.session->state;
    bool here = peers_is_self(st->peers, uri);
    struct lease *l = NULL;
    struct error err;

    int rc = serve_check_reach(call->rq.session, uri, here, &err);
    if (!rc && here)
        rc = lease_find(st->leases, uri, &l, &err);

    if (!rc && (!l || handle_goes_by_link(st, l->terms.rights))) {
        call->again.uri = *uri;
        peer_attach(st->peers, call->handle, uri, attach_timeout(st, timeout_ns), attach_done,
                    call);
        return;
    }
    if (!rc)
        rc = handle_attach_local(call->handle, l, attach_done, call, &err);
    if (rc)
        attach_failed(call, &err);
}

/* It was waited for the other daemon. */
static void attach_due(struct attach_again *again, const struct error *why) {
    struct attach_call *call = container_of(again, struct attach_call, again);
    const struct rdmad_uri uri = again->uri;
    struct error err;
    if (!why && handle_new(again->session, &call->handle, &err))
        why = &err;
    if (why) {
        attach_done(call, why);
        return;
    }
    note_uri(call->handle, &uri);
    uint64_t left_ns = clock_left(state_now(again->session->state), again->until_ns);
    attach_begin(call, &uri, left_ns ? left_ns : 1); /* 0 would be the default */
}

void attach_by_number(const struct request *rq, const struct rdmad_lease_attach_req *req,
                      uint64_t number) {
    struct attach_call *call;
    struct rdmad_uri uri;
    struct error err;

    if (req->reserved) {
        error_set(&err, RDMAD_E_RESERVED, "the reserved field of an attach is not zero");
        serve_fail(rq, &err);
    } else if (attach_parse_uri(req->uri, "lease", &uri, &err)) {
        serve_fail(rq, &err);
    } else if ((call = attach_call_make(rq, &uri, number))) {
        call->again = (struct attach_again){
            .session = rq->session, .due = attach_due, .resumed = number != 0};
        if (!number) /* the library asks for those with a number again itself */
            call->again.until_ns = clock_after(state_now(rq->session->state),
                                               attach_timeout(rq->session->state, req->timeout_ns));
        attach_begin(call, &uri, req->timeout_ns);
    }
}

void serve_lease_attach(const struct request *rq, const void *body) {
    attach_by_number(rq, body, 0);
}

void serve_lease_release(const struct request *rq, const void *body) {
    const struct rdmad_lease_release_req *req = body;
    struct error err;

    struct handle *h = handle_find(rq->session, req->handle);
    if (!h || h->returned) {
        handle_give_up(rq->session, req->handle);
        error_set(&err, RDMAD_E_HANDLE,
                  "this session has no lease handle %" PRIu64 ", or released it already",
                  req->handle);
        serve_fail(rq, &err);
        return;
    }
    struct request *later = later_new(rq);
    if (later)
        handle_release(h, later_answer, later);
}
