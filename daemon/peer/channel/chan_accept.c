/* SPDX-License-Identifier: MIT */
/*
 * chan_accept.c - channels that others connect to services of ours.
 *
 * The happy path: CHAN_REQ waits at the service; accepted, we dial the other back, the data plane
 * takes our end up, CHAN_BIND; with CHAN_OPEN and our lane the channel is open.
 */
#include "daemon/peer/channel/chan_accept.h"
#include "daemon/peer/channel/chan.h"
#include "daemon/peer/connect/dial.h"
#include "daemon/peer/connect/dial_back.h"
#include "daemon/peer/connect/rights.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/tables.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void chan_bind_back(struct chan *c) {
    struct error err;
    if (!chan_same_node(c->out, c->in)) {
        error_set(&err, RDMAD_E_UNREACHABLE,
                  "the daemon at %.80s is %s, not %s who connects: its \"listen\" is not an "
                  "address of its own here",
                  c->out->dialled, c->out->name, c->in->name);
        chan_fail(c, &err);
        return;
    }
    chan_add(c);
}

static void chan_accepted(struct incoming *in, struct channel *end, uint64_t timeout_ns) {
    struct chan *c = container_of(in, struct chan, incoming);
    struct peers *ps = c->in->peers;
    const char *host = c->host[0] ? c->host : c->in->ip;
    struct error err;

    chan_enter(c, CHAN_DIALLING);
    chan_give_way(c, end);
    end->kind = channel_kind_by(c->state, c->kind, c->in->fabric);
    end->peer_uid = in->uid;
    if (chan_start_timer(c, timeout_ns, &err) || dial_back_check(c->in, host, c->port, &err) ||
        peer_dial(ps, host, c->port, end->session->uid, &c->out, &err)) {
        c->out = NULL;
        chan_fail(c, &err);
        return;
    }
    chan_join_peer(c->out, &tables_of(c->out)->chans_out, &c->out_node);
    if (c->out->stage == PEER_UP)
        chan_bind_back(c);
}

static void chan_refused(struct incoming *in, const struct error *why) {
    struct chan *c = container_of(in, struct chan, incoming);
    chan_send_refuse(c->in, c->other, why);
    chan_free(c);
}

static const struct incoming_ops incoming_ops = {.accept = chan_accepted, .refuse = chan_refused};

static struct chan *chan_offered(struct peer *p, const struct peer_chan_req *m) {
    struct chan *c = chan_new(p->peers->state, true);
    if (!c)
        return NULL;
    c->other = m->ref;
    c->there = m->worker;
    c->port = m->port;
    memcpy(c->host, m->host, sizeof(c->host));
    memcpy(c->token, m->token, sizeof(c->token));
    c->kind = m->kind;
    c->incoming.kind = m->asked;
    c->incoming.uid = m->uid;
    c->incoming.peer = p->id;
    c->incoming.proven = p->secured;
    c->incoming.ops = &incoming_ops;
    memcpy(c->incoming.node_name, p->name, sizeof(c->incoming.node_name));
    snprintf(c->incoming.address, sizeof(c->incoming.address),
             strchr(p->ip, ':') ? "[%s]:%u" : "%s:%u", p->ip, m->port);
    c->in = p;
    chan_join_peer(p, &tables_of(p)->chans_in, &c->in_node);
    c->counted = true;
    p->channels++;
    return c;
}

void chan_take_req(struct peer *p, const struct peer_msg *msg) {
    const struct peer_chan_req *m = &msg->chan_req;
    struct state *st = p->peers->state;
    struct lessee who = rights_lessee(p);
    uint64_t max = st->config->max_peer_attaches;
    struct chan *c = NULL;
    struct service *sv;
    struct error err;

    if (tables_of(p)->chans >= max)
        error_set(&err, RDMAD_E_LIMIT,
                  "%s has %u channels with %s, peer.attaches is %" PRIu64 "; close some", p->name,
                  tables_of(p)->chans, st->node_name, max);
    else if (rights_to_attach(p, &err) == 0 && rights_to_name(p, m->service, &err) == 0 &&
             rights_to_channel(p, &err) == 0 && dial_back_check(p, m->host, m->port, &err) == 0 &&
             service_find(st, m->service, &sv, &err) == 0 && !(c = chan_offered(p, m)))
        error_set(&err, RDMAD_E_NOMEM, "%s has no memory for one more channel", st->node_name);
    if (c && service_offer(sv, &who, &c->incoming, &err) == 0)
        return;
    p->told = false; /* it is about this request alone */
    chan_send_refuse(p, m->ref, &err);
    if (c)
        chan_free(c);
}

void chan_take_open(struct peer *p, const struct peer_msg *msg) {
    const struct peer_chan_open *m = &msg->chan_open;
    struct chan *c = chan_by_number(p, m->ref);
    if (!c || !c->acceptor || c->in != p || c->stage < CHAN_BOUND)
        return;
    if (c->stage > CHAN_BOUND) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "a channel is opened twice");
        return;
    }
    chan_enter(c, CHAN_LINKING);
    channel_connect(c->channel, c->other, NULL);
    chan_check_ready(c);
}
