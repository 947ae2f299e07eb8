/* SPDX-License-Identifier: MIT */
/*
 * chan.c - the way of a channel to a peer: its record, what is said of it, its way to the data
 * plane.
 *
 * Every step has a time limit, that of the connect or of the accept. What fails before the other
 * knows our end is told by CHAN_REFUSE (or by CHAN_END that names the asker's number), later by
 * CHAN_END. The loss of either connection ends the channel; that of a link does not (lane.c).
 */
#include "daemon/peer/channel/chan.h"
#include "daemon/base/clock.h"
#include "daemon/peer/connect/redial.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/liveness.h"
#include "daemon/peer/control/unread.h"
#include "daemon/peer/tables.h"
#include "daemon/state/channel_away.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct channel_ops chan_ops;

struct chan *chan_by_number(struct peer *p, uint64_t number) {
    struct channel *ch = channel_by_number(p->peers->state, number);
    return ch && ch->ops == &chan_ops ? ch->record : NULL;
}

/* ---- what we say ------------------------------------------------------------------------- */

void chan_send_refuse(struct peer *p, uint64_t ref, const struct error *why) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_REFUSE,
                         .chan_refuse = {.ref = ref, .status = why->code}};
    memcpy(m.chan_refuse.text, why->text, sizeof(m.chan_refuse.text));
    peer_send(p, &m);
}

void chan_send_end(struct peer *p, uint64_t ref, int reason, const char *text) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_END, .chan_end = {.ref = ref, .reason = reason}};
    snprintf(m.chan_end.text, sizeof(m.chan_end.text), "%s", text);
    peer_send(p, &m);
}

void chan_send_alive(struct peer *p, uint64_t ref, uint64_t silent_ns) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_ALIVE,
                         .chan_alive = {.ref = ref, .answer = true, .silent_ns = silent_ns}};
    peer_send(p, &m);
}

static void chan_withdraw(struct chan *c, int reason, const char *text) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_END,
                         .chan_end = {.ref = c->channel->number, .mine = true, .reason = reason}};
    snprintf(m.chan_end.text, sizeof(m.chan_end.text), "%s", text);
    unread_ask(c->out, session_user_id(c->channel->session), &m);
}

/* Our end is over: tells the other daemon, by the number that it knows of the channel by now. */
static void chan_tell_other(struct chan *c, int reason, const char *text) {
    struct error why = {.code = reason};
    struct peer *by = c->out && c->out->stage == PEER_UP ? c->out : c->in;
    if (c->other_gone)
        return;
    snprintf(why.text, sizeof(why.text), "%s", text);
    switch (c->stage) {
    case CHAN_WAITING:
    case CHAN_OFFERED:
        return;
    case CHAN_ASKED: /* both wait to be read, if the question does */
        chan_withdraw(c, reason, text);
        return;
    case CHAN_DIALLING:
        chan_send_refuse(c->in, c->other, &why);
        return;
    default:
        if (c->acceptor && c->stage == CHAN_ADDING)
            chan_send_refuse(c->in, c->other, &why);
        else
            chan_send_end(by, c->other, reason, text);
    }
}

/* ---- the record -------------------------------------------------------------------------- */

static void chan_leave_peer(struct peer *p, struct list *node) {
    if (!p)
        return;
    list_remove(node);
    tables_of(p)->chans--;
    peer_unneed(p, PEER_NEED_FIRM);
    liveness_update(p);
    peer_check_free(p);
}

void chan_free(struct chan *c) {
    assert(list_empty(&c->incoming.node));
    timer_unset(&c->state->timers, &c->timer);
    if (c->lane)
        lane_leave(c->lane, &c->user);
    chan_leave_peer(c->out, &c->out_node);
    if (c->counted)
        c->in->channels--;
    chan_leave_peer(c->in, &c->in_node);
    free(c);
}

void chan_join_peer(struct peer *p, struct list *list, struct list *node) {
    assert(list_empty(node));
    list_append(list, node);
    tables_of(p)->chans++;
    peer_need(p, PEER_NEED_FIRM);
    liveness_update(p);
}

void chan_fail(struct chan *c, const struct error *why) {
    if (!chan_leave(c, why))
        channel_end(c->channel, why->code, why->text);
}

static void chan_timed_out(struct timer *timer, uint64_t now_ns) {
    static const char *const waiting[] = {
        [CHAN_WAITING] = "connecting to it",
        [CHAN_ASKED] = "waiting until the service accepts",
        [CHAN_OFFERED] = "",
        [CHAN_DIALLING] = "dialling it back",
        [CHAN_ADDING] = "opening a link to it",
        [CHAN_BOUND] = "opening links",
        [CHAN_LINKING] = "opening links",
        [CHAN_LIVE] = "",
        [CHAN_RESTING] = "",
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

static void chan_lane_told(struct lane_user *u, enum lane_event event);

struct chan *chan_new(struct state *st, bool acceptor) {
    struct chan *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->state = st;
    c->acceptor = acceptor;
    c->stage = acceptor ? CHAN_OFFERED : CHAN_WAITING;
    c->user = (struct lane_user){.told = chan_lane_told, .is_channel = true};
    list_init(&c->user.node);
    list_init(&c->out_node);
    list_init(&c->in_node);
    list_init(&c->incoming.node);
    timer_init(&c->timer, chan_timed_out);
    return c;
}

void chan_enter(struct chan *c, enum chan_stage stage) {
    static const unsigned from[] = {
        [CHAN_ASKED] = 1u << CHAN_WAITING,
        [CHAN_DIALLING] = 1u << CHAN_OFFERED,
        [CHAN_ADDING] = 1u << CHAN_ASKED | 1u << CHAN_DIALLING,
        [CHAN_BOUND] = 1u << CHAN_ADDING,
        [CHAN_LINKING] = 1u << CHAN_ADDING | 1u << CHAN_BOUND,
        [CHAN_LIVE] = 1u << CHAN_LINKING,
        [CHAN_RESTING] =
            1u << CHAN_ADDING | 1u << CHAN_BOUND | 1u << CHAN_LINKING | 1u << CHAN_LIVE,
    };
    assert(from[stage] & 1u << c->stage);
    c->stage = stage;
}

int chan_start_timer(struct chan *c, uint64_t timeout_ns, struct error *err) {
    c->timeout_ns = timeout_ns;
    if (timer_set(&c->state->timers, &c->timer, clock_after(state_now(c->state), timeout_ns)))
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a channel");
    return 0;
}

/* ---- the data plane, and the lane ---------------------------------------------------------- */

/* The id alone is no proof: each HELLO tells it. A name is proven where a certificate is. */
bool chan_same_node(const struct peer *a, const struct peer *b) {
    return memcmp(a->node_id, b->node_id, sizeof(a->node_id)) == 0 && strcmp(a->name, b->name) == 0;
}

void chan_check_ready(struct chan *c) {
    if (c->stage != CHAN_LINKING || !lane_number(c->lane))
        return;
    chan_enter(c, CHAN_LIVE);
    timer_unset(&c->state->timers, &c->timer);
    c->channel->max_datagram = plane_lane_datagram(lane_plane(c->lane));
    channel_ready(c->channel);
}

static void chan_lane_told(struct lane_user *u, enum lane_event event) {
    struct chan *c = container_of(u, struct chan, user);
    if (event == LANE_IS_UP)
        chan_check_ready(c);
    else if (event == LANE_REFUSED && c->stage != CHAN_LIVE)
        chan_fail(c, lane_trouble(c->lane));
}

/* Messages come by one connection and are answered by the other. Both are of one fabric, unless one
 * is of a former life of the peer. */
void chan_add(struct chan *c) {
    struct channel *ch = c->channel;
    struct error err;
    assert(c->in && c->out);
    if (ch->session->closing)
        return; /* it has no data plane; the other end hears of that when it is let go of */
    if (c->in->fabric != c->out->fabric) {
        error_set(&err, RDMAD_E_PEER_LOST,
                  "%s at %s is reached over %s, and connects to us over %s: one of the two is of a "
                  "former life of it; try again",
                  c->out->name, c->out->address, peer_fabric(c->out)->name,
                  peer_fabric(c->in)->name);
        chan_fail(c, &err);
        return;
    }
    c->lane = lane_of(c->out, ch->session, c->there, &err);
    if (!c->lane) {
        chan_fail(c, &err);
        return;
    }
    chan_enter(c, CHAN_ADDING);
    memcpy(ch->peer_node, c->out->name, sizeof(ch->peer_node));
    ch->peer_proven = c->in->secured && c->out->secured;
    snprintf(ch->peer_address, sizeof(ch->peer_address), "%s", c->out->address);
    lane_join(c->lane, &c->user);
    channel_add(ch, lane_plane(c->lane), c->in->id);
}

static void chan_added(struct channel *ch) {
    struct chan *c = ch->record;
    struct peer_msg m = {.type = PEER_MSG_CHAN_OPEN, .chan_open.ref = c->other};
    chan_enter(c, c->acceptor ? CHAN_BOUND : CHAN_LINKING);
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
    chan_check_ready(c);
}

static void chan_cancel(struct channel *ch, const struct error *why) {
    struct chan *c = ch->record;
    chan_tell_other(c, why->code, why->text);
    chan_free(c);
}

/* ---- it is lost, and may return -------------------------------------------------------------- */

static bool chan_may_return(const struct chan *c, const struct error *why) {
    const struct peer *p = c->out ? c->out : c->in;
    bool mends = why->code == RDMAD_E_UNREACHABLE || redial_may_mend(why->code);
    return (c->stage == CHAN_LIVE || c->again) && channel_may_return(c->channel) && mends &&
           !p->is_self;
}

bool chan_leave(struct chan *c, const struct error *why) {
    struct channel *ch = c->channel;
    if (c->stage == CHAN_RESTING)
        return true;
    if (!chan_may_return(c, why))
        return false;
    c->why = *why;
    timer_unset(&c->state->timers, &c->timer);
    if (c->stage >= CHAN_ADDING) {
        chan_enter(c, CHAN_RESTING);
        channel_lose_way(ch, why->text);
        return true;
    }
    chan_tell_other(c, why->code, why->text);
    chan_free(c);
    channel_stay_away(ch, why->text);
    return true;
}

/* The other daemon may think that this way is good. */
static void chan_rested(struct channel *ch) {
    struct chan *c = ch->record;
    chan_tell_other(c, RDMAD_E_PEER_LOST, c->why.text);
    chan_free(c);
}

static void chan_let_go(struct channel *ch) {
    struct chan *c = ch->record;
    if (!ch->moves) /* else the other end waits for it */
        chan_tell_other(c, channel_reason_there(ch), ch->text);
    chan_free(c);
}

/* A daemon that cannot be asked has programs that are never silent; one that does not read just now
 * is asked the next time. */
static void chan_ask_alive(struct channel *ch) {
    const struct chan *c = ch->record;
    struct peer *p = c->out && c->out->stage == PEER_UP ? c->out : c->in;
    struct peer_msg m = {.type = PEER_MSG_CHAN_ALIVE, .chan_alive.ref = c->other};
    struct user_id user = session_user_id(ch->session);
    struct error busy;
    if (p->version >= PEER_WIRE_KEEPALIVE && unread_check(p, user, &busy) == 0)
        unread_ask(p, user, &m);
}

static const struct channel_ops chan_ops = {.cancel = chan_cancel,
                                            .added = chan_added,
                                            .let_go = chan_let_go,
                                            .rested = chan_rested,
                                            .ask_alive = chan_ask_alive};

void chan_give_way(struct chan *c, struct channel *ch) {
    c->channel = ch;
    ch->ops = &chan_ops;
    ch->record = c;
    ch->remote = true;
}
