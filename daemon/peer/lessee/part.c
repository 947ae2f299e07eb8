/* SPDX-License-Identifier: MIT */
/*
 * part.c - a narrower lease of one that we are attached to at a peer: asked of its owner's daemon.
 */
#include "daemon/peer/lessee/part.h"
#include "common/uri.h"
#include "daemon/peer/control/ask.h"
#include "daemon/peer/lessee/claim.h"
#include <stdlib.h>
#include <string.h>

struct part {
    struct peer_ask ask;
    peer_delegated *done;
    void *arg;
    struct rdmad_uri uri; /* names the daemon that owns the part */
};

static struct part *part_of_ask(struct peer_ask *a) {
    return container_of(a, struct part, ask);
}

static void part_failed(struct peer_ask *a, const struct error *why) {
    struct part part = *part_of_ask(a);
    free(part_of_ask(a));
    part.done(part.arg, why, NULL);
}

static const struct ask_ops part_ops = {.failed = part_failed};

void peer_delegate(struct handle *h, const struct lease_part *part, uint64_t timeout_ns,
                   peer_delegated *done, void *arg) {
    const struct claim *c = h->peer_record;
    struct peer_ask *a = NULL;
    struct error err;

    if (c->peer->stage != PEER_UP || !claim_is_known(c))
        error_set(&err, RDMAD_E_PEER_LOST, "the connection to %s was lost", c->peer->name);
    else
        a = ask_new(sizeof(struct part), &part_ops, c->peer, h->session, timeout_ns, &err);
    if (!a) {
        done(arg, &err, NULL);
        return;
    }
    part_of_ask(a)->uri.port = c->uri.port;
    memcpy(part_of_ask(a)->uri.host, c->uri.host, sizeof(c->uri.host));
    part_of_ask(a)->done = done;
    part_of_ask(a)->arg = arg;
    a->question.type = PEER_MSG_DELEGATE_REQ;
    a->question.delegate_req = (struct peer_delegate_req){.ref = a->ref,
                                                          .owner_ref = c->owner_ref,
                                                          .offset = part->offset,
                                                          .length = part->length,
                                                          .ttl_ns = part->ttl_ns,
                                                          .rights = part->rights,
                                                          .max_attaches = part->max_attaches};
    ask_begin(a);
}

void part_take_delegate_rep(struct peer *p, const struct peer_msg *msg) {
    const struct peer_delegate_rep *m = &msg->delegate_rep;
    struct peer_ask *a = ask_find(p, m->ref, &part_ops);
    struct rdmad_lease_grant_rep rep = {.lease = m->lease, .ttl_ns = m->ttl_ns};
    struct error why = {.code = m->status};

    if (!a)
        return;
    struct part *part = part_of_ask(a);
    memcpy(why.text, m->text, sizeof(why.text));
    if (m->status) {
        ask_fail(a, &why);
        return;
    }
    part->uri.lease = m->lease;
    memcpy(part->uri.key, m->key, sizeof(part->uri.key));
    if (rdmad_uri_print(&part->uri, rep.uri, sizeof(rep.uri)) < 0) {
        error_set(&why, RDMAD_E_URI, "the URI of the new lease is longer than %u characters",
                  RDMAD_URI_MAX);
        ask_fail(a, &why);
        return;
    }
    peer_delegated *done = part->done;
    void *arg = part->arg;
    ask_leave(a);
    free(part);
    done(arg, &why, &rep);
}
