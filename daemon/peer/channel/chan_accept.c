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
#include "daemon/peer/control/admit.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/tables.h"
#include "daemon/state/channel_away.h"
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

/* end is our end now. */
static void chan_dial_back(struct chan *c, struct channel *end, uint64_t timeout_ns) {
    struct error err;

    chan_enter(c, CHAN_DIALLING);
    chan_give_way(c, end);
    if (chan_start_timer(c, timeout_ns, &err) ||
        dial_back(c->in, c->host, c->port, session_user_id(end->session), &c->out, &err)) {
        c->out = NULL;
        chan_fail(c, &err);
        return;
    }
    chan_join_peer(c->out, &tables_of(c->out)->chans_out, &c->out_node);
    if (c->out->stage == PEER_UP)
        chan_bind_back(c);
}

static void chan_accepted(struct incoming *in, struct channel *end, uint64_t timeout_ns) {
    struct chan *c = container_of(in, struct chan, incoming);
    end->kind = channel_kind_by(c->state, c->kind, c->in->fabric);
    end->peer_uid = in->uid;
    end->has_key = true;
    memcpy(end->key, c->token, sizeof(end->key));
    chan_dial_back(c, end, timeout_ns);
}

static void chan_refused(struct incoming *in, const struct error *why) {
    struct chan *c = container_of(in, struct chan, incoming);
    chan_send_refuse(c->in, c->other, why);
    chan_free(c);
}

static const struct incoming_ops incoming_ops = {.accept = chan_accepted, .refuse = chan_refused};

static struct chan *chan_asked(struct peer *p, const struct peer_chan_req *m) {
    struct chan *c = chan_new(p->peers->state, true);
    if (!c)
        return NULL;
    c->other = m->ref;
    c->there = m->worker;
    c->port = m->port;
    memcpy(c->host, m->host, sizeof(c->host));
    memcpy(c->token, m->token, sizeof(c->token));
    c->kind = m->kind;
    c->in = p;
    chan_join_peer(p, &tables_of(p)->chans_in, &c->in_node);
    c->counted = true;
    p->channels++;
    return c;
}

static struct chan *chan_offered(struct peer *p, const struct peer_chan_req *m) {
    struct chan *c = chan_asked(p, m);
    if (!c)
        return NULL;
    c->incoming.kind = m->asked;
    c->incoming.uid = m->uid;
    c->incoming.peer = p->id;
    c->incoming.proven = p->secured;
    c->incoming.ops = &incoming_ops;
    memcpy(c->incoming.node_name, p->name, sizeof(c->incoming.node_name));
    snprintf(c->incoming.address, sizeof(c->incoming.address),
             strchr(p->ip, ':') ? "[%s]:%u" : "%s:%u", p->ip, m->port);
    return c;
}

/* Whether p may have another channel here. */
static int check_peer(struct peer *p, const struct peer_chan_req *m, struct error *err) {
    const struct state *st = p->peers->state;
    uint64_t max = st->config->max_peer_attaches;
    int rc;
    if (tables_of(p)->chans >= max)
        return error_set(err, RDMAD_E_LIMIT,
                         "%s has %u channels with %s, peer.attaches is %" PRIu64 "; close some",
                         p->name, tables_of(p)->chans, st->node_name, max);
    if ((rc = rights_to_attach(p, err)) || (rc = rights_to_name(p, m->service, err)) ||
        (rc = rights_to_channel(p, err)))
        return rc;
    return dial_back_check(p, m->host, m->port, err);
}

/* The service that it asks for, if that one's user may reach p. */
static int find_service(struct peer *p, const struct peer_chan_req *m, struct service **out,
                        struct error *err) {
    int rc = check_peer(p, m, err);
    if (!rc)
        rc = service_find(p->peers->state, m->service, out, err);
    return rc ? rc : admit_session(p, (*out)->session, err);
}

static int chan_no_memory(const struct peer *p, struct error *err) {
    return error_set(err, RDMAD_E_NOMEM, "%s has no memory for one more channel",
                     p->peers->state->node_name);
}

void chan_take_req(struct peer *p, const struct peer_msg *msg) {
    const struct peer_chan_req *m = &msg->chan_req;
    struct lessee who = rights_lessee(p);
    struct chan *c = NULL;
    struct service *sv;
    struct error err;

    if (find_service(p, m, &sv, &err) == 0 && !(c = chan_offered(p, m)))
        chan_no_memory(p, &err);
    if (c && service_offer(sv, &who, &c->incoming, &err) == 0)
        return;
    chan_send_refuse(p, m->ref, &err);
    if (c)
        chan_free(c);
}

static bool was_with(const struct peer *p, const struct peer_chan_req *m,
                     const struct channel *ch) {
    return ch->peer_uid == m->uid && strcmp(ch->peer_node, p->name) == 0 &&
           (!ch->peer_proven || p->secured);
}

/* Our end of the channel with that key, which waits for its other end: that has to be whom it was.
 * NULL: there is none for it, and why. */
static struct channel *find_away(struct peer *p, const struct peer_chan_req *m, struct error *err) {
    struct channel *ch = channel_away_find(p->peers->state, m->token, true);
    const struct channel *parted = ch ? NULL : channel_parted_find(p->peers->state, m->token, true);
    if (ch && was_with(p, m, ch))
        return admit_session(p, ch->session, err) ? NULL : ch;
    if (ch)
        error_set(err, RDMAD_E_PERM, "the channel was with somebody else");
    else if (parted && was_with(p, m, parted))
        error_set(err, channel_reason_there(parted), "%s", parted->text);
    else
        error_set(err, RDMAD_E_NO_LEASE,
                  "%s has no such channel: its program has not brought it back yet, or has closed "
                  "it",
                  p->peers->state->node_name);
    return NULL;
}

void chan_take_again(struct peer *p, const struct peer_msg *msg) {
    const struct peer_chan_req *m = &msg->chan_req;
    const struct config *config = p->peers->state->config;
    struct error err;
    struct channel *ch = check_peer(p, m, &err) == 0 ? find_away(p, m, &err) : NULL;
    struct chan *c = ch ? chan_asked(p, m) : NULL;

    if (ch && !c)
        chan_no_memory(p, &err);
    if (!c) {
        chan_send_refuse(p, m->ref, &err);
        return;
    }
    c->again = true;
    channel_come(ch);
    chan_dial_back(c, ch, config->attach_timeout_ms * NSEC_PER_MSEC);
}

void chan_take_open(struct peer *p, const struct peer_msg *msg) {
    const struct peer_chan_open *m = &msg->chan_open;
    struct chan *c = chan_by_number(p, m->ref);
    if (!c || !c->acceptor || c->in != p || c->stage < CHAN_BOUND || c->stage == CHAN_RESTING)
        return; /* RESTING: what we dialled was lost since, and the channel is asked for again */
    if (c->stage > CHAN_BOUND) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "a channel is opened twice");
        return;
    }
    chan_enter(c, CHAN_LINKING);
    channel_connect(c->channel, c->other, NULL);
    chan_check_ready(c);
}
