/* SPDX-License-Identifier: MIT */
/*
 * channel.c - the way between two ends of a channel on two daemons.
 *
 * The happy path, at who connects: peer_connect dials the service's daemon and asks (CHAN_REQ);
 * CHAN_BIND with our token comes by a connection of that daemon to us, which is the way its
 * messages will come; the data plane takes our end up, CHAN_OPEN tells so; when our lane is up the
 * channel is open. At who accepts: CHAN_REQ waits at the service; accepted, we dial the other back,
 * the data plane takes our end up, CHAN_BIND; with CHAN_OPEN and our lane the channel is open.
 *
 * Every step has a time limit, that of the connect or of the accept. What fails before the other
 * knows our end is told by CHAN_REFUSE (or by CHAN_END that names the asker's number), later by
 * CHAN_END. The loss of either connection ends the channel; that of a link does not (lane.c).
 *
 * Nothing that a peer says is believed without the connection it comes by: numbers are looked up
 * and must be of a channel of that very peer, and a bind needs the token and the same node. A
 * number that finds nothing is of a channel that has ended meanwhile, or made up, and is ignored;
 * a bind is answered then, since its sender has a channel to end.
 */
#include "daemon/peer/channel/chan.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const struct channel_ops chan_ops;

static struct chan *of_number(struct peer *p, uint64_t number) {
    struct channel *ch = channel_by_number(p->peers->state, number);
    return ch && ch->ops == &chan_ops ? ch->record : NULL;
}

/* ---- what we say ------------------------------------------------------------------------- */

static void refuse_req(struct peer *p, uint64_t ref, const struct error *why) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_REFUSE,
                         .chan_refuse = {.ref = ref, .status = why->code}};
    memcpy(m.chan_refuse.text, why->text, sizeof(m.chan_refuse.text));
    peer_send(p, &m);
}

static void say_end(struct peer *p, uint64_t ref, bool mine, int reason, const char *text) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_END,
                         .chan_end = {.ref = ref, .mine = mine, .reason = reason}};
    snprintf(m.chan_end.text, sizeof(m.chan_end.text), "%s", text);
    peer_send(p, &m);
}

/* Our end is over: the other daemon hears of it in the words that it understands by now. */
static void tell_other(struct chan *c, int reason, const char *text) {
    struct error why = {.code = reason};
    struct peer *by = c->out && c->out->stage == PEER_UP ? c->out : c->in;
    if (c->other_gone)
        return;
    snprintf(why.text, sizeof(why.text), "%s", text);
    switch (c->stage) {
    case CHAN_WAITING:
    case CHAN_OFFERED:
        return;
    case CHAN_ASKED:
        say_end(c->out, c->channel->number, true, reason, text);
        return;
    case CHAN_DIALLING:
        refuse_req(c->in, c->other, &why);
        return;
    default:
        if (c->acceptor && !c->bound)
            refuse_req(c->in, c->other, &why);
        else
            say_end(by, c->other, false, reason, text);
    }
}

/* ---- the record -------------------------------------------------------------------------- */

static void leave_peer(struct peer *p, struct list *node) {
    if (!p)
        return;
    list_remove(node);
    p->chans--;
    liveness_update(p);
    peer_check_free(p);
}

void chan_free(struct chan *c) {
    timer_unset(&c->state->timers, &c->timer);
    if (c->lane)
        lane_leave(c->lane, &c->user);
    leave_peer(c->out, &c->out_node);
    leave_peer(c->in, &c->in_node);
    free(c);
}

static void join_peer(struct peer *p, struct list *list, struct list *node) {
    list_append(list, node);
    p->chans++;
    liveness_update(p);
}

/* The channel comes to nothing, or is over: its end settles with everybody. */
static void chan_fail(struct chan *c, const struct error *why) {
    channel_end(c->channel, why->code, why->text);
}

static void timed_out(struct timer *timer, uint64_t now_ns) {
    static const char *const waiting[] = {
        [CHAN_WAITING] = "connecting to it",
        [CHAN_ASKED] = "waiting until the service accepts",
        [CHAN_OFFERED] = "",
        [CHAN_DIALLING] = "dialling it back",
        [CHAN_ADDING] = "opening a link to it",
        [CHAN_BOUND] = "opening links",
        [CHAN_LIVE] = "",
    };
    struct chan *c = container_of(timer, struct chan, timer);
    const char *trouble = c->lane ? lane_trouble(c->lane)->text : "";
    struct error why;
    (void)now_ns;
    error_set(&why, RDMAD_E_TIMEOUT,
              "the channel with the daemon at %.80s took longer than %" PRIu64
              " ms, %s%s%.100s; try again or allow more time",
              c->out ? c->out->address : c->in->address, c->timeout_ns / NSEC_PER_MSEC,
              waiting[c->stage], trouble[0] ? ": " : "", trouble);
    chan_fail(c, &why);
}

static void lane_news(struct lane_user *u, enum lane_news news);

static struct chan *chan_new(struct state *st, bool acceptor) {
    struct chan *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->state = st;
    c->acceptor = acceptor;
    c->user = (struct lane_user){.news = lane_news, .is_channel = true};
    list_init(&c->user.node);
    list_init(&c->out_node);
    list_init(&c->in_node);
    list_init(&c->incoming.node);
    timer_init(&c->timer, timed_out);
    return c;
}

static int start_timer(struct chan *c, uint64_t timeout_ns, struct error *err) {
    c->timeout_ns = timeout_ns;
    if (timer_set(&c->state->timers, &c->timer, clock_after(state_now(c->state), timeout_ns)))
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a channel");
    return 0;
}

/* ---- the data plane, and the lane ---------------------------------------------------------- */

/* Whether all is there that an open channel needs. */
static void check_ready(struct chan *c) {
    if (c->stage != CHAN_BOUND || !lane_number(c->lane) || (c->acceptor && !c->opened))
        return;
    c->stage = CHAN_LIVE;
    timer_unset(&c->state->timers, &c->timer);
    c->channel->max_datagram = plane_lane_datagram(lane_plane(c->lane));
    channel_ready(c->channel);
}

static void lane_news(struct lane_user *u, enum lane_news news) {
    struct chan *c = container_of(u, struct chan, user);
    if (news == LANE_IS_UP)
        check_ready(c);
    else if (news == LANE_REFUSED && c->stage != CHAN_LIVE)
        chan_fail(c, lane_trouble(c->lane));
}

/* Both connections are there. Messages come by one and are answered by the other: they are of one
 * fabric, as long as both are of the same life of the peer. */
static void add(struct chan *c) {
    struct channel *ch = c->channel;
    struct error err;
    if (c->in->fabric != c->out->fabric) {
        error_set(&err, RDMAD_E_PEER_LOST,
                  "%s at %s is reached over %s, and connects to us over %s: one of the two is of a "
                  "former life of it; try again",
                  c->out->name, c->out->address, peer_fabric(c->out)->name,
                  peer_fabric(c->in)->name);
        chan_fail(c, &err);
        return;
    }
    c->lane = lane_of(c->out, ch->session, c->there);
    if (!c->lane) {
        error_set(&err, RDMAD_E_NOMEM, "out of memory for a link to %s", c->out->name);
        chan_fail(c, &err);
        return;
    }
    c->stage = CHAN_ADDING;
    memcpy(ch->peer_node, c->out->name, sizeof(ch->peer_node));
    snprintf(ch->peer_address, sizeof(ch->peer_address), "%s", c->out->address);
    lane_join(c->lane, &c->user);
    channel_add(ch, lane_plane(c->lane), c->in->id);
}

static void added(struct channel *ch) {
    struct chan *c = ch->record;
    struct peer_msg m = {.type = PEER_MSG_CHAN_OPEN, .chan_open.ref = c->other};
    c->stage = CHAN_BOUND;
    c->bound = true;
    if (c->acceptor) {
        m = (struct peer_msg){.type = PEER_MSG_CHAN_BIND};
        m.chan_bind = (struct peer_chan_bind){
            .ref = c->other,
            .number = ch->number,
            .kind = ch->kind,
            .uid = ch->session->uid,
            .worker = plane_worker_of_session(ch->session->plane),
        };
        memcpy(m.chan_bind.token, c->token, sizeof(m.chan_bind.token));
    } else {
        channel_connect(ch, c->other, NULL);
    }
    peer_send(c->out, &m);
    check_ready(c);
}

static void cancel(struct channel *ch, const struct error *why) {
    struct chan *c = ch->record;
    tell_other(c, why->code, why->text);
    chan_free(c);
}

static void let_go(struct channel *ch) {
    struct chan *c = ch->record;
    tell_other(c, ch->reason, ch->text);
    chan_free(c);
}

static const struct channel_ops chan_ops = {.cancel = cancel, .added = added, .let_go = let_go};

/* ---- who connects ------------------------------------------------------------------------ */

static void ask(struct chan *c) {
    const struct state *st = c->state;
    struct channel *ch = c->channel;
    struct peer_msg m = {.type = PEER_MSG_CHAN_REQ};
    ch->kind = channel_kind_by(st, ch->asked, c->out->fabric);
    m.chan_req = (struct peer_chan_req){
        .ref = ch->number,
        .kind = ch->kind,
        .asked = ch->asked,
        .uid = ch->session->uid,
        .worker = plane_worker_of_session(ch->session->plane),
        .port = st->listen_port,
    };
    memcpy(m.chan_req.token, c->token, sizeof(m.chan_req.token));
    peers_told_address(c->out->peers, m.chan_req.host);
    memcpy(m.chan_req.service, ch->service, sizeof(m.chan_req.service));
    c->stage = CHAN_ASKED;
    peer_send(c->out, &m);
}

/* Half of what one peer may have is the most that one uid can take. */
static int check_share(const struct peer *p, uid_t uid, struct error *err) {
    uint64_t most = p->peers->state->config->max_peer_attaches / 2;
    unsigned n = 0;
    if (p->chans < most)
        return 0;
    list_for_each (node, &p->chans_out)
        n += list_entry(node, struct chan, out_node)->channel->session->uid == uid;
    if (n < most)
        return 0;
    return error_set(err, RDMAD_E_LIMIT,
                     "uid %u has %u channels with %.100s, half of peer.attaches is %" PRIu64
                     "; close some",
                     (unsigned)uid, n, p->dialled, most);
}

static int begin_connect(struct chan *c, const struct rdmad_uri *uri, uint64_t timeout_ns,
                         struct error *err) {
    const struct session *s = c->channel->session;
    struct peer *p;
    int rc;
    if ((rc = peer_dial(s->state->peers, uri->host, uri->port, s->uid, &p, err)) ||
        (rc = check_share(p, s->uid, err)))
        return rc;
    if (getrandom(c->token, sizeof(c->token), 0) != (ssize_t)sizeof(c->token))
        return error_errno(err, RDMAD_E_SYSTEM, "no random bytes for a channel's token");
    if ((rc = start_timer(c, timeout_ns, err)))
        return rc;
    c->out = p;
    join_peer(p, &p->chans_out, &c->out_node);
    return 0;
}

static void become_local(struct chan *c);

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
    if (begin_connect(c, uri, timeout_ns, &err)) {
        chan_free(c);
        channel_fail(ch, &err);
        return;
    }
    ch->ops = &chan_ops;
    ch->record = c;
    ch->remote = true;
    if (c->out->is_self)
        become_local(c);
    else if (c->out->stage == PEER_UP)
        ask(c);
}

void chan_refuse(struct peer *p, const struct peer_chan_refuse *m) {
    struct chan *c = of_number(p, m->ref);
    struct error why = {.code = m->status};
    if (!c || c->acceptor || c->out != p || c->stage != CHAN_ASKED)
        return;
    memcpy(why.text, m->text, sizeof(why.text));
    c->other_gone = true;
    chan_fail(c, &why);
}

static bool same_token(const uint8_t *a, const uint8_t *b) {
    volatile uint8_t differ = 0;
    for (size_t i = 0; i < PEER_NODE_ID_BYTES; i++)
        differ = (uint8_t)(differ | (a[i] ^ b[i]));
    return differ == 0;
}

static bool same_node(const struct peer *a, const struct peer *b) {
    return memcmp(a->node_id, b->node_id, sizeof(a->node_id)) == 0;
}

void chan_bind(struct peer *p, const struct peer_chan_bind *m) {
    struct chan *c = of_number(p, m->ref);
    struct error why;

    if (!c || c->acceptor || c->stage != CHAN_ASKED || !same_token(c->token, m->token) ||
        !same_node(c->out, p)) {
        say_end(p, m->number, false, RDMAD_E_CANCELED,
                "nobody waits for this channel (any more), or its token is another");
        return;
    }
    c->other = m->number;
    c->there = m->worker;
    c->in = p;
    c->bound = true;
    join_peer(p, &p->chans_in, &c->in_node);
    if (m->kind != RDMAD_CHANNEL_RELIABLE && m->kind != c->channel->kind) {
        c->stage = CHAN_BOUND; /* so that the other hears of it */
        error_set(&why, RDMAD_E_PROTOCOL,
                  "%s at %s made a channel of a kind that was not asked for", p->name, p->address);
        chan_fail(c, &why);
        return;
    }
    c->channel->kind = m->kind;
    c->channel->peer_uid = m->uid;
    add(c);
}

/* ---- who accepts ------------------------------------------------------------------------- */

static void bind_back(struct chan *c) {
    struct error err;
    if (!same_node(c->out, c->in)) {
        error_set(&err, RDMAD_E_UNREACHABLE,
                  "the daemon at %.80s is %s, not %s who connects: its \"listen\" is not an "
                  "address of its own here",
                  c->out->dialled, c->out->name, c->in->name);
        chan_fail(c, &err);
        return;
    }
    add(c);
}

static void accepted(struct incoming *in, struct channel *end, uint64_t timeout_ns) {
    struct chan *c = container_of(in, struct chan, incoming);
    struct peers *ps = c->in->peers;
    const char *host = c->host[0] ? c->host : c->in->ip;
    struct error err;

    c->channel = end;
    c->stage = CHAN_DIALLING;
    end->ops = &chan_ops;
    end->record = c;
    end->remote = true;
    end->kind = channel_kind_by(c->state, c->kind, c->in->fabric);
    end->peer_uid = in->uid;
    if (start_timer(c, timeout_ns, &err) || peer_check_dial_back(c->in, host, c->port, &err) ||
        peer_dial(ps, host, c->port, end->session->uid, &c->out, &err)) {
        c->out = NULL;
        chan_fail(c, &err);
        return;
    }
    join_peer(c->out, &c->out->chans_out, &c->out_node);
    if (c->out->stage == PEER_UP)
        bind_back(c);
}

static void refused(struct incoming *in, const struct error *why) {
    struct chan *c = container_of(in, struct chan, incoming);
    refuse_req(c->in, c->other, why);
    chan_free(c);
}

static const struct incoming_ops incoming_ops = {.accept = accepted, .refuse = refused};

static struct chan *req_new(struct peer *p, const struct peer_chan_req *m) {
    struct chan *c = chan_new(p->peers->state, true);
    if (!c)
        return NULL;
    c->stage = CHAN_OFFERED;
    c->other = m->ref;
    c->there = m->worker;
    c->port = m->port;
    memcpy(c->host, m->host, sizeof(c->host));
    memcpy(c->token, m->token, sizeof(c->token));
    c->kind = m->kind;
    c->incoming.kind = m->asked;
    c->incoming.uid = m->uid;
    c->incoming.peer = p->id;
    c->incoming.ops = &incoming_ops;
    memcpy(c->incoming.node_name, p->name, sizeof(c->incoming.node_name));
    snprintf(c->incoming.address, sizeof(c->incoming.address),
             strchr(p->ip, ':') ? "[%s]:%u" : "%s:%u", p->ip, m->port);
    c->in = p;
    join_peer(p, &p->chans_in, &c->in_node);
    return c;
}

void chan_req(struct peer *p, const struct peer_chan_req *m) {
    struct state *st = p->peers->state;
    struct lessee who = {.peer = p->id, .address = p->ip};
    uint64_t max = st->config->max_peer_attaches;
    struct chan *c = NULL;
    struct service *sv;
    struct error err;

    if (p->chans >= max)
        error_set(&err, RDMAD_E_LIMIT,
                  "%s has %u channels with %s, peer.attaches is %" PRIu64 "; close some", p->name,
                  p->chans, st->node_name, max);
    else if (peer_check_dial_back(p, m->host, m->port, &err) == 0 &&
             service_find(st, m->service, &sv, &err) == 0 && !(c = req_new(p, m)))
        error_set(&err, RDMAD_E_NOMEM, "%s has no memory for one more channel", st->node_name);
    if (c && service_offer(sv, &who, &c->incoming, &err) == 0)
        return;
    refuse_req(p, m->ref, &err);
    if (c)
        chan_free(c);
}

void chan_open(struct peer *p, const struct peer_chan_open *m) {
    struct chan *c = of_number(p, m->ref);
    if (!c || !c->acceptor || c->in != p || !c->bound)
        return;
    if (c->opened) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "a channel is opened twice");
        return;
    }
    c->opened = true;
    channel_connect(c->channel, c->other, NULL);
    check_ready(c);
}

/* ---- ends -------------------------------------------------------------------------------- */

/* Of one who connects and gives up, and does not know our number yet. */
static struct chan *of_asker(struct peer *p, uint64_t ref) {
    list_for_each (node, &p->chans_in) {
        struct chan *c = list_entry(node, struct chan, in_node);
        if (c->acceptor && c->other == ref && c->stage != CHAN_LIVE)
            return c;
    }
    return NULL;
}

void chan_end(struct peer *p, const struct peer_chan_end *m) {
    struct chan *c = m->mine ? of_asker(p, m->ref) : of_number(p, m->ref);
    bool known = m->reason == RDMAD_E_CLOSED || m->reason == RDMAD_E_CANCELED;
    if (!c || (c->in != p && c->out != p))
        return;
    c->other_gone = true;
    if (c->stage == CHAN_OFFERED) {
        incoming_withdraw(&c->incoming);
        chan_free(c);
        return;
    }
    channel_end(c->channel, known || c->stage != CHAN_LIVE ? m->reason : RDMAD_E_PEER_LOST,
                m->text);
}

void chans_begin(struct peer *p) {
    list_for_each_safe (node, &p->chans_out) {
        struct chan *c = list_entry(node, struct chan, out_node);
        if (c->stage == CHAN_WAITING)
            ask(c);
        else if (c->stage == CHAN_DIALLING)
            bind_back(c);
    }
}

/* One of them ends as far as this peer goes. */
static void lose(struct chan *c, const struct error *lost) {
    bool young = c->stage == CHAN_WAITING || c->stage == CHAN_DIALLING;
    if (c->stage == CHAN_OFFERED) {
        incoming_withdraw(&c->incoming);
        chan_free(c);
        return;
    }
    channel_end(c->channel, young ? lost->code : RDMAD_E_PEER_LOST, lost->text);
}

void chans_lost(struct peer *p, const struct error *why) {
    struct error lost = *why;
    if (lost.code == RDMAD_OK)
        lost.code = RDMAD_E_PEER_LOST;
    list_for_each_safe (node, &p->chans_out)
        lose(list_entry(node, struct chan, out_node), &lost);
    list_for_each_safe (node, &p->chans_in)
        lose(list_entry(node, struct chan, in_node), &lost);
}

/* What is wanted of this daemon under another name: no peer has a part in it. */
static void become_local(struct chan *c) {
    struct channel *ch = c->channel;
    uint64_t timeout_ns = c->timeout_ns;
    char service[sizeof(ch->service)];
    memcpy(service, ch->service, sizeof(service));
    ch->ops = NULL;
    ch->remote = false;
    chan_free(c);
    channel_connect_local(ch, service, timeout_ns);
}

void chans_become_local(struct peer *p) {
    struct error err;
    list_for_each_safe (node, &p->chans_out) {
        struct chan *c = list_entry(node, struct chan, out_node);
        if (!c->acceptor) {
            become_local(c);
            continue;
        }
        error_set(&err, RDMAD_E_UNREACHABLE,
                  "the address that %s gave to dial back is that of this very daemon", c->in->name);
        chan_fail(c, &err);
    }
}
