/* SPDX-License-Identifier: MIT */
/*
 * question.c - our sessions ask for a peer's names: a list, or a watch.
 *
 * A watch stays after its answer, which is the first change that it is told, until peer_unwatch.
 * When the peer is lost it is over: its struct then waits without a peer for peer_unwatch.
 */
#include "daemon/peer/names/question.h"
#include "daemon/peer/connect/dial.h"
#include "daemon/peer/control/ask.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/peer.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct error ok;

static struct peer_ask *question_new(size_t bytes, const struct ask_ops *ops, struct session *s,
                                     const struct names_query *q, struct error *err) {
    struct peer *p;
    if (peer_dial(s->state->peers, q->host, q->port, session_user_id(s), &p, err))
        return NULL;
    return ask_new(bytes, ops, p, s, q->timeout_ns, err);
}

/* ---- a list -------------------------------------------------------------------------------- */

struct question_list {
    struct peer_ask ask;
    peer_listed *done;
    void *arg;
    struct rdmad_names_list_rep names;
};

static struct question_list *question_list_of(struct peer_ask *a) {
    return container_of(a, struct question_list, ask);
}

static void question_list_failed(struct peer_ask *a, const struct error *why) {
    peer_listed *done = question_list_of(a)->done;
    void *arg = question_list_of(a)->arg;
    free(question_list_of(a));
    done(arg, why, NULL);
}

static const struct ask_ops list_ops = {.failed = question_list_failed, .of_names = true};

void peer_list(struct session *s, const struct names_query *q, peer_listed *done, void *arg) {
    struct error err;
    struct peer_ask *a = question_new(sizeof(struct question_list), &list_ops, s, q, &err);
    if (!a) {
        done(arg, &err, NULL);
        return;
    }
    question_list_of(a)->done = done;
    question_list_of(a)->arg = arg;
    a->question = (struct peer_msg){.type = PEER_MSG_NAMES_REQ, .names_req.ref = a->ref};
    memcpy(a->question.names_req.prefix, q->prefix, sizeof(q->prefix));
    memcpy(a->question.names_req.after, q->after, sizeof(q->after));
    ask_begin(a);
}

void question_take_names_rep(struct peer *p, const struct peer_msg *msg) {
    const struct peer_names_rep *m = &msg->names_rep;
    struct peer_ask *a = ask_find(p, m->ref, &list_ops);
    if (!a)
        return;
    struct question_list *list = question_list_of(a);
    if (m->last == 0 && list->names.count < RDMAD_NAMES_PER_REPLY) {
        list->names.entry[list->names.count++] = m->entry;
        return;
    }
    if (m->last == 0) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "more than %u names in one answer", RDMAD_NAMES_PER_REPLY);
        return;
    }
    struct rdmad_names_list_rep names = list->names;
    peer_listed *done = list->done;
    void *arg = list->arg;
    names.more = m->last == 2 && names.count;
    ask_leave(a);
    free(list);
    done(arg, &ok, &names);
}

/* ---- a watch ------------------------------------------------------------------------------- */

struct question_watch {
    struct peer_ask ask;
    struct watch *watch;
    plane_done *begun; /* NULL: told */
    void *arg;
};

static struct question_watch *question_watch_of(struct peer_ask *a) {
    return container_of(a, struct question_watch, ask);
}

static void question_watch_withdraw(struct peer_ask *a) {
    struct peer_msg m = {.type = PEER_MSG_UNWATCH, .unwatch.ref = a->ref};
    peer_send(a->peer, &m);
}

static void question_watch_failed(struct peer_ask *a, const struct error *why) {
    plane_done *begun = question_watch_of(a)->begun;
    void *arg = question_watch_of(a)->arg;
    if (!begun) {
        watch_over(question_watch_of(a)->watch, RDMAD_E_PEER_LOST); /* may come to peer_unwatch */
        return;
    }
    free(question_watch_of(a));
    begun(arg, why);
}

static const struct ask_ops watch_ask_ops = {.failed = question_watch_failed,
                                             .withdraw = question_watch_withdraw,
                                             .ends_itself = true,
                                             .of_names = true};

struct peer_ask *peer_watch(struct session *s, const struct names_query *q, struct watch *w,
                            plane_done *done, void *arg) {
    struct error err;
    struct peer_ask *a = question_new(sizeof(struct question_watch), &watch_ask_ops, s, q, &err);
    if (!a) {
        done(arg, &err);
        return NULL;
    }
    question_watch_of(a)->watch = w;
    question_watch_of(a)->begun = done;
    question_watch_of(a)->arg = arg;
    a->question = (struct peer_msg){.type = PEER_MSG_WATCH_REQ, .watch_req.ref = a->ref};
    memcpy(a->question.watch_req.prefix, q->prefix, sizeof(q->prefix));
    ask_begin(a);
    return a;
}

void peer_unwatch(struct peer_ask *a) {
    assert(a->ops == &watch_ask_ops);
    if (a->peer) {
        if (a->sent)
            question_watch_withdraw(a);
        ask_leave(a);
    }
    free(question_watch_of(a));
}

void peer_watch_more(struct peer_ask *a, unsigned count) {
    struct peer_msg m = {.type = PEER_MSG_WATCH_MORE,
                         .watch_more = {.ref = a->ref, .count = count}};
    assert(a->ops == &watch_ask_ops);
    if (a->peer && a->sent)
        peer_send(a->peer, &m);
}

void question_take_name_ev(struct peer *p, const struct peer_msg *msg) {
    const struct peer_name_ev *m = &msg->name_ev;
    struct peer_ask *a = ask_find(p, m->ref, &watch_ask_ops);
    struct error why;
    if (!a)
        return;
    struct question_watch *w = question_watch_of(a);
    if (w->begun && m->gone == NAME_GONE && !m->entry.name[0]) {
        error_set(&why, RDMAD_E_LIMIT, "%s has as many watches of your daemon as it allows",
                  p->name);
        ask_fail(a, &why);
        return;
    }
    if (w->begun) {
        plane_done *begun = w->begun;
        w->begun = NULL;
        ask_stop_timeout(a);
        begun(w->arg, &ok); /* may unwatch */
        if (ask_find(p, m->ref, &watch_ask_ops) != a)
            return;
    }
    if (m->entry.name[0] || m->gone == NAMES_ANEW) {
        watch_news(w->watch, &m->entry, (enum name_news)m->gone);
    } else if (m->gone) {
        a->sent = false; /* the other end knows that it is over */
        watch_over(w->watch, RDMAD_E_LIMIT);
    }
}
