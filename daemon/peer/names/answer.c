/* SPDX-License-Identifier: MIT */
/*
 * answer.c - a peer asks for our names, or watches them, and is told.
 *
 * The changes of a watch go out as fast as the client at the peer reads them: at most WATCH_WINDOW
 * are on their way before the peer asks for more (WATCH_MORE), and none are sent while more than
 * ANSWER_UNSENT_MAX bytes of output wait. Then the watch lags, and goes on when the peer asks or
 * the output has drained. A peer has PEER_WATCHES_MAX watches at most; one more is answered as one
 * that has ended.
 */
#include "daemon/peer/names/answer.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/liveness.h"
#include "daemon/peer/control/transport.h"
#include "daemon/peer/tables.h"
#include "daemon/state/names.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_UNSENT_MAX (256u * 1024u)

struct peer_watch { /* a watch of the peer */
    struct watch watch;
    struct list node; /* in the peer's list */
    struct peer *peer;
    uint64_t ref;  /* the peer's */
    unsigned room; /* to be told so many changes */
};

void answer_take_names_req(struct peer *p, const struct peer_msg *msg) {
    const struct peer_names_req *m = &msg->names_req;
    struct rdmad_name_entry entry[RDMAD_NAMES_PER_REPLY];
    struct lessee who = {.peer = p->id, .address = p->ip};
    struct peer_msg rep = {.type = PEER_MSG_NAMES_REP};
    bool more;
    unsigned n = names_list(p->peers->state->names, &who, m->prefix, m->after, entry,
                            RDMAD_NAMES_PER_REPLY, &more);
    for (unsigned i = 0; i < n; i++) {
        rep.names_rep = (struct peer_names_rep){.ref = m->ref, .entry = entry[i]};
        peer_send(p, &rep);
    }
    rep.names_rep = (struct peer_names_rep){.ref = m->ref, .last = more ? 2 : 1};
    peer_send(p, &rep);
}

/* ---- watches ------------------------------------------------------------------------------- */

static struct peer_watch *answer_watch_of(struct watch *w) {
    return container_of(w, struct peer_watch, watch);
}

static bool answer_lags(struct watch *w) {
    const struct peer *p = answer_watch_of(w)->peer;
    if (!answer_watch_of(w)->room)
        return true;
    return p->way && transport_unsent(p->way) > ANSWER_UNSENT_MAX;
}

static void answer_send(struct peer *p, uint64_t ref, const struct rdmad_name_entry *entry,
                        enum name_news what) {
    struct peer_msg m = {.type = PEER_MSG_NAME_EV, .name_ev = {.ref = ref, .gone = what}};
    if (entry)
        m.name_ev.entry = *entry;
    peer_send(p, &m);
}

static void answer_tell(struct watch *w, const struct rdmad_name_entry *entry,
                        enum name_news what) {
    answer_watch_of(w)->room--;
    answer_send(answer_watch_of(w)->peer, answer_watch_of(w)->ref, entry, what);
}

static void answer_told_all(struct watch *w) {
    answer_send(answer_watch_of(w)->peer, answer_watch_of(w)->ref, NULL, NAME_THERE);
}

static void answer_watch_free(struct peer_watch *s) {
    struct peer *p = s->peer;
    watch_end(&s->watch);
    list_remove(&s->node);
    tables_of(p)->nwatches--;
    peer_unneed(p, PEER_NEED_LOOSE);
    free(s);
    liveness_update(p);
}

static void answer_over(struct watch *w, int reason) {
    (void)reason;
    answer_send(answer_watch_of(w)->peer, answer_watch_of(w)->ref, NULL, NAME_GONE);
    answer_watch_free(answer_watch_of(w));
}

static const struct watch_ops answer_ops = {
    .lags = answer_lags, .tell = answer_tell, .told = answer_told_all, .over = answer_over};

void answer_take_watch_req(struct peer *p, const struct peer_msg *msg) {
    const struct peer_watch_req *m = &msg->watch_req;
    struct lessee who = {.peer = p->id, .address = p->ip};
    struct peer_tables *t = tables_of(p);
    struct peer_watch *s = t->nwatches < PEER_WATCHES_MAX ? calloc(1, sizeof(*s)) : NULL;
    if (!s) {
        answer_send(p, m->ref, NULL, NAME_GONE);
        return;
    }
    s->peer = p;
    s->ref = m->ref;
    s->room = WATCH_WINDOW;
    list_append(&t->watches, &s->node);
    t->nwatches++;
    peer_need(p, PEER_NEED_LOOSE);
    liveness_update(p);
    watch_begin(&s->watch, p->peers->state->names, &who, m->prefix, &answer_ops);
}

/* A count that is too large means WATCH_WINDOW: the peer may say any number. */
void answer_take_watch_more(struct peer *p, const struct peer_msg *msg) {
    const struct peer_watch_more *m = &msg->watch_more;
    list_for_each_safe (node, &tables_of(p)->watches) {
        struct peer_watch *s = list_entry(node, struct peer_watch, node);
        if (s->ref != m->ref)
            continue;
        s->room += m->count < WATCH_WINDOW - s->room ? m->count : WATCH_WINDOW - s->room;
        watch_go_on(&s->watch);
        return;
    }
}

void answer_take_unwatch(struct peer *p, const struct peer_msg *msg) {
    const struct peer_unwatch *m = &msg->unwatch;
    list_for_each_safe (node, &tables_of(p)->watches) {
        struct peer_watch *s = list_entry(node, struct peer_watch, node);
        if (s->ref == m->ref)
            answer_watch_free(s);
    }
}

void answer_go_on(struct peer *p) {
    list_for_each_safe (node, &tables_of(p)->watches)
        watch_go_on(&list_entry(node, struct peer_watch, node)->watch);
}

void answer_lose(struct peer *p) {
    list_for_each_safe (node, &tables_of(p)->watches)
        answer_watch_free(list_entry(node, struct peer_watch, node));
}
