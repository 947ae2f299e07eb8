/* SPDX-License-Identifier: MIT */
/*
 * channel_local.c - the way between two ends on this daemon, without a peer.
 *
 * The happy path: the connector's end waits at the service as an incoming connection; when it is
 * accepted, the data plane takes up both ends; when it has both, each learns the other's number,
 * and both are open. Until then the end of either is the end of both; later the data plane tells
 * one end that the other has closed, and the loss of a session ends the channels that lead to it.
 */
#include "daemon/base/clock.h"
#include "daemon/state/channel_away.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Of both ends, from the connector's wait until the last of them is gone. */
struct local_way {
    struct incoming incoming;
    struct channel *end[2]; /* who connects, who accepts; NULL: not there yet, or gone */
    struct timer timer;
    uint64_t timeout_ns;
    char service[RDMAD_NAME_MAX + 1];
    struct state *state;
};

enum { CONNECTOR, ACCEPTOR };

static void way_leave(struct local_way *w, struct channel *ch) {
    w->end[w->end[ACCEPTOR] == ch] = NULL;
    if (w->end[CONNECTOR] || w->end[ACCEPTOR])
        return;
    timer_unset(&w->state->timers, &w->timer);
    free(w);
}

/* One end is over, so the other ends, too; harmless if it has ended already. */
static void end_other(struct channel *other, int reason, const char *text) {
    if (other)
        channel_end(other, reason, text);
}

static void way_cancel(struct channel *ch, const struct error *why) {
    struct local_way *w = ch->record;
    struct channel *other = w->end[w->end[CONNECTOR] == ch ? ACCEPTOR : CONNECTOR];
    incoming_withdraw(&w->incoming);
    way_leave(w, ch);
    end_other(other, why->code, why->text);
}

static void way_let_go(struct channel *ch) {
    struct local_way *w = ch->record;
    struct channel *other = w->end[w->end[CONNECTOR] == ch ? ACCEPTOR : CONNECTOR];
    int reason = channel_reason_there(ch);
    char text[sizeof(ch->text)];
    memcpy(text, ch->text, sizeof(text));
    way_leave(w, ch);
    end_other(other, reason, text);
}

static void way_added(struct channel *ch) {
    struct local_way *w = ch->record;
    struct channel *a = w->end[CONNECTOR], *b = w->end[ACCEPTOR];
    if (!a || !b || !a->added || !b->added)
        return;
    channel_connect(a, b->number, b->session);
    channel_connect(b, a->number, a->session);
    channel_ready(a);
    channel_ready(b);
}

static const struct channel_ops way_ops = {
    .cancel = way_cancel, .added = way_added, .let_go = way_let_go};

static void way_accepted(struct incoming *in, struct channel *end, uint64_t timeout_ns) {
    struct local_way *w = container_of(in, struct local_way, incoming);
    struct channel *ends[2] = {w->end[CONNECTOR], end};
    (void)timeout_ns; /* nobody but the data plane has to answer, and it does */
    timer_unset(&w->state->timers, &w->timer);
    w->end[ACCEPTOR] = end;
    bool keyed = getrandom(end->key, sizeof(end->key), 0) == (ssize_t)sizeof(end->key);
    memcpy(ends[CONNECTOR]->key, end->key, sizeof(end->key));
    for (int i = 0; i < 2; i++) {
        struct channel *ch = ends[i], *other = ends[!i];
        ch->ops = &way_ops;
        ch->record = w;
        ch->has_key = keyed;
        ch->peer_uid = other->session->uid;
        ch->peer_proven = true;
        memcpy(ch->peer_node, w->state->node_name, sizeof(ch->peer_node));
        memcpy(ch->service, w->service, sizeof(ch->service));
        ch->kind = RDMAD_CHANNEL_RELIABLE;
    }
    ends[CONNECTOR]->seek = channel_seek_local;
    channel_add(ends[CONNECTOR], NULL, 0);
    channel_add(ends[ACCEPTOR], NULL, 0);
}

static void way_refused(struct incoming *in, const struct error *why) {
    struct local_way *w = container_of(in, struct local_way, incoming);
    struct channel *ch = w->end[CONNECTOR];
    ch->ops = NULL;
    way_leave(w, ch);
    channel_fail(ch, why);
}

static const struct incoming_ops way_incoming_ops = {.accept = way_accepted, .refuse = way_refused};

static void way_timed_out(struct timer *timer, uint64_t now_ns) {
    struct local_way *w = container_of(timer, struct local_way, timer);
    char text[RDMAD_TEXT_MAX + 1];
    (void)now_ns;
    snprintf(text, sizeof(text),
             "service \"%s\" has not accepted within %" PRIu64 " ms; try again or allow more time",
             w->service, w->timeout_ns / NSEC_PER_MSEC);
    channel_end(w->end[CONNECTOR], RDMAD_E_TIMEOUT, text);
}

static struct local_way *way_new(struct channel *ch, const char *service, uint64_t timeout_ns) {
    struct state *st = ch->session->state;
    struct local_way *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->state = st;
    w->end[CONNECTOR] = ch;
    w->timeout_ns = timeout_ns;
    snprintf(w->service, sizeof(w->service), "%s", service);
    timer_init(&w->timer, way_timed_out);
    if (timer_set(&st->timers, &w->timer, clock_after(state_now(st), timeout_ns))) {
        free(w);
        return NULL;
    }
    w->incoming = (struct incoming){
        .kind = ch->asked, .proven = true, .uid = ch->session->uid, .ops = &way_incoming_ops};
    snprintf(w->incoming.node_name, sizeof(w->incoming.node_name), "%s", st->node_name);
    list_init(&w->incoming.node);
    return w;
}

void channel_connect_local(struct channel *ch, const char *service, uint64_t timeout_ns) {
    struct lessee who = {.session = ch->session};
    struct service *sv;
    struct error err;

    struct local_way *w = NULL;
    if (service_find(ch->session->state, service, &sv, &err) == 0) {
        w = way_new(ch, service, timeout_ns);
        if (!w)
            error_set(&err, RDMAD_E_NOMEM, "out of memory for a channel");
    }
    if (!w) {
        channel_fail(ch, &err);
        return;
    }
    ch->ops = &way_ops;
    ch->record = w;
    snprintf(ch->service, sizeof(ch->service), "%s", service);
    if (service_offer(sv, &who, &w->incoming, &err)) {
        ch->ops = NULL;
        way_leave(w, ch);
        channel_fail(ch, &err);
    }
}

/* ---- ends that come back ------------------------------------------------------------------- */

/* Each has to be whom the other was told that it is. */
static bool way_same_users(const struct channel *a, const struct channel *b) {
    return a->peer_uid == b->session->uid && b->peer_uid == a->session->uid;
}

void channel_seek_local(struct channel *ch) {
    struct channel *ends[2] = {ch, channel_away_find(ch->session->state, ch->key, true)};
    struct local_way *w = NULL;
    assert(!ch->accepted);
    if (ends[ACCEPTOR] && way_same_users(ch, ends[ACCEPTOR]))
        w = calloc(1, sizeof(*w));
    if (!w) {
        channel_seek_later(ch);
        return;
    }
    w->state = ch->session->state;
    timer_init(&w->timer, way_timed_out);
    list_init(&w->incoming.node);
    for (int i = 0; i < 2; i++) {
        w->end[i] = ends[i];
        ends[i]->ops = &way_ops;
        ends[i]->record = w;
        ends[i]->remote = false;
        ends[i]->fabric = "local";
        channel_come(ends[i]);
    }
    channel_add(ends[CONNECTOR], NULL, 0);
    channel_add(ends[ACCEPTOR], NULL, 0);
}
