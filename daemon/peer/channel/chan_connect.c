/* SPDX-License-Identifier: MIT */
/*
 * chan_connect.c - channels that sessions of ours connect.
 *
 * The happy path: peer_connect dials the service's daemon and asks (CHAN_REQ); CHAN_BIND with our
 * token comes by a connection of that daemon to us, which is the way its messages will come; the
 * data plane takes our end up, CHAN_OPEN tells so; when our lane is up the channel is open.
 */
#include "daemon/peer/channel/chan_connect.h"
#include "daemon/peer/channel/chan.h"
#include "daemon/peer/connect/dial.h"
#include "daemon/peer/connect/own_address.h"
#include "daemon/peer/control/admit.h"
#include "daemon/peer/control/unread.h"
#include "daemon/peer/peer.h"
#include "daemon/peer/tables.h"
#include "daemon/state/channel_away.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* One that comes back is what it was, whatever it was asked for as: only reliable ones do. */
void chan_ask(struct chan *c) {
    const struct state *st = c->state;
    struct channel *ch = c->channel;
    uint32_t asked = c->again ? RDMAD_CHANNEL_RELIABLE : ch->asked;
    struct peer_msg m = {.type = c->again ? PEER_MSG_CHAN_AGAIN : PEER_MSG_CHAN_REQ};
    if (ch->session->closing)
        return; /* it came back, and nobody wants it any more */
    ch->kind = channel_kind_by(st, asked, c->out->fabric);
    m.chan_req = (struct peer_chan_req){
        .ref = ch->number,
        .kind = ch->kind,
        .asked = asked,
        .uid = ch->session->uid,
        .worker = plane_worker_of_session(ch->session->plane),
        .port = st->listen_port,
    };
    memcpy(m.chan_req.token, c->token, sizeof(m.chan_req.token));
    own_address_told(c->out->peers, m.chan_req.host);
    memcpy(m.chan_req.service, ch->service, sizeof(m.chan_req.service));
    chan_enter(c, CHAN_ASKED);
    unread_ask(c->out, session_user_id(ch->session), &m);
}

/* Half of what one peer may have is the most that one user can take. */
static int chan_check_share(struct peer *p, struct user_id user, struct error *err) {
    uint64_t most = p->peers->state->config->max_peer_attaches / 2;
    unsigned n = 0;
    if (tables_of(p)->chans < most)
        return 0;
    list_for_each (node, &tables_of(p)->chans_out)
        n += user_id_same(
            session_user_id(list_entry(node, struct chan, out_node)->channel->session), user);
    if (n < most)
        return 0;
    return error_set(err, RDMAD_E_LIMIT,
                     "uid %u has %u channels with %.100s, half of peer.attaches is %" PRIu64
                     "; close some",
                     (unsigned)user.uid, n, p->dialled, most);
}

static int chan_begin_connect(struct chan *c, const char *host, uint16_t port, uint64_t timeout_ns,
                              struct error *err) {
    const struct session *s = c->channel->session;
    struct peer *p;
    int rc;
    if ((rc = peer_dial(s->state->peers, host, port, session_user_id(s), &p, err)) ||
        (rc = admit_session(p, s, err)) || (rc = chan_check_share(p, session_user_id(s), err)) ||
        (rc = unread_check(p, session_user_id(s), err)))
        return rc;
    if (!c->again && getrandom(c->token, sizeof(c->token), 0) != (ssize_t)sizeof(c->token))
        return error_errno(err, RDMAD_E_SYSTEM, "no random bytes for a channel's token");
    if ((rc = chan_start_timer(c, timeout_ns, err)))
        return rc;
    c->out = p;
    chan_join_peer(p, &tables_of(p)->chans_out, &c->out_node);
    return 0;
}

/* One that comes back seeks its other end here from now on. */
static void chan_return_local(struct chan *c) {
    struct channel *ch = c->channel;
    chan_free(c);
    ch->remote = false;
    ch->seek = channel_seek_local;
    channel_stay_away(ch, "");
}

void chan_become_local(struct chan *c) {
    struct channel *ch = c->channel;
    uint64_t timeout_ns = c->timeout_ns;
    char service[sizeof(ch->service)];
    if (c->again) {
        chan_return_local(c);
        return;
    }
    memcpy(service, ch->service, sizeof(service));
    ch->ops = NULL;
    ch->remote = false;
    chan_free(c);
    channel_connect_local(ch, service, timeout_ns);
}

/* It is dialled, or there is a connection already. */
static void chan_go_on(struct chan *c) {
    chan_give_way(c, c->channel);
    if (c->out->is_self)
        chan_become_local(c);
    else if (c->out->stage == PEER_UP)
        chan_ask(c);
}

void peer_connect(struct peers *ps, struct channel *ch, const struct rdmad_uri *uri,
                  uint64_t timeout_ns) {
    struct chan *c = chan_new(ps->state, false);
    struct error err;

    if (!c) {
        error_set(&err, RDMAD_E_NOMEM, "out of memory for a channel");
        channel_fail(ch, &err);
        return;
    }
    c->channel = ch;
    snprintf(ch->service, sizeof(ch->service), "%s", uri->name);
    snprintf(ch->host, sizeof(ch->host), "%s", uri->host);
    ch->port = uri->port;
    ch->seek = chan_seek;
    if (chan_begin_connect(c, ch->host, ch->port, timeout_ns, &err)) {
        chan_free(c);
        channel_fail(ch, &err);
        return;
    }
    ch->has_key = true;
    memcpy(ch->key, c->token, sizeof(ch->key));
    chan_go_on(c);
}

void chan_seek(struct channel *ch) {
    const struct state *st = ch->session->state;
    uint64_t timeout_ns = st->config->attach_timeout_ms * NSEC_PER_MSEC;
    struct chan *c = chan_new(ch->session->state, false);
    struct error err;
    if (c) {
        c->channel = ch;
        c->again = true;
        memcpy(c->token, ch->key, sizeof(c->token));
    }
    if (!c || chan_begin_connect(c, ch->host, ch->port, timeout_ns, &err)) {
        if (c)
            chan_free(c);
        channel_seek_later(ch);
        return;
    }
    channel_come(ch);
    chan_go_on(c);
}

void peer_channel_resume(struct channel *ch, const struct rdmad_uri *uri) {
    snprintf(ch->host, sizeof(ch->host), "%s", uri->host);
    ch->port = uri->port;
    ch->remote = true;
    ch->seek = chan_seek;
    channel_resume(ch);
}

void chan_take_refuse(struct peer *p, const struct peer_msg *msg) {
    const struct peer_chan_refuse *m = &msg->chan_refuse;
    struct chan *c = chan_by_number(p, m->ref);
    struct error why = {.code = m->status};
    if (!c || c->acceptor || c->out != p || c->stage != CHAN_ASKED)
        return;
    memcpy(why.text, m->text, sizeof(why.text));
    c->other_gone = true;
    chan_fail(c, &why);
}

static bool chan_same_token(const uint8_t *a, const uint8_t *b) {
    volatile uint8_t differ = 0;
    for (size_t i = 0; i < PEER_NODE_ID_BYTES; i++)
        differ = (uint8_t)(differ | (a[i] ^ b[i]));
    return differ == 0;
}

void chan_take_bind(struct peer *p, const struct peer_msg *msg) {
    const struct peer_chan_bind *m = &msg->chan_bind;
    struct chan *c = chan_by_number(p, m->ref);
    struct error why;

    if (!c || c->acceptor || c->stage != CHAN_ASKED || c->in || c->out->stage != PEER_UP ||
        !chan_same_token(c->token, m->token) || !chan_same_node(c->out, p)) {
        chan_send_end(p, m->number, RDMAD_E_PEER_LOST,
                      "nobody waits for this channel (any more), or its token is another");
        return;
    }
    c->other = m->number;
    c->there = m->worker;
    c->in = p;
    chan_join_peer(p, &tables_of(p)->chans_in, &c->in_node);
    if (m->kind != RDMAD_CHANNEL_RELIABLE && m->kind != c->channel->kind) {
        chan_enter(c, CHAN_ADDING); /* the other daemon hears of the end */
        error_set(&why, RDMAD_E_PROTOCOL,
                  "%s at %s made a channel of a kind that was not asked for", p->name, p->address);
        chan_fail(c, &why);
        return;
    }
    if (c->again &&
        (m->uid != c->channel->peer_uid || strcmp(p->name, c->channel->peer_node) != 0)) {
        chan_enter(c, CHAN_ADDING);
        error_set(&why, RDMAD_E_PROTOCOL, "the other end has come back as somebody else");
        chan_fail(c, &why);
        return;
    }
    c->channel->kind = m->kind;
    c->channel->peer_uid = m->uid;
    chan_add(c);
}
