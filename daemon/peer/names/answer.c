/* SPDX-License-Identifier: MIT */
/*
 * names.c - what a peer asks of our names, and the news that it is told.
 *
 * The news of a watch goes out as fast as its client reads, there: no more than WATCH_WINDOW are
 * under way that the peer has not asked for anew (WATCH_MORE), nor above PEER_NEWS_BYTES of unsent
 * output; then the watch lags, and goes on when the peer asks or the output has drained. A peer has
 * PEER_WATCHES_MAX watches at most; one more is answered as one that has ended.
 */
#include "daemon/peer/internal.h"
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdlib.h>
#include <string.h>

#define PEER_NEWS_BYTES (256u * 1024u)

struct seen { /* a watch of the peer */
    struct watch watch;
    struct list node; /* in peer->seen */
    struct peer *peer;
    uint64_t ref;  /* the peer's */
    unsigned room; /* for so many news */
};

void names_req(struct peer *p, const struct peer_names_req *m) {
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

static struct seen *of(struct watch *w) {
    return container_of(w, struct seen, watch);
}

static bool lags(struct watch *w) {
    const struct peer *p = of(w)->peer;
    if (!of(w)->room)
        return true;
    return p->bev && evbuffer_get_length(bufferevent_get_output(p->bev)) > PEER_NEWS_BYTES;
}

static void send_news(struct peer *p, uint64_t ref, const struct rdmad_name_entry *entry,
                      enum name_news what) {
    struct peer_msg m = {.type = PEER_MSG_NAME_EV, .name_ev = {.ref = ref, .gone = what}};
    if (entry)
        m.name_ev.entry = *entry;
    peer_send(p, &m);
}

static void tell(struct watch *w, const struct rdmad_name_entry *entry, enum name_news what) {
    of(w)->room--;
    send_news(of(w)->peer, of(w)->ref, entry, what);
}

static void told(struct watch *w) {
    send_news(of(w)->peer, of(w)->ref, NULL, NAME_THERE);
}

static void seen_free(struct seen *s) {
    struct peer *p = s->peer;
    watch_end(&s->watch);
    list_remove(&s->node);
    p->nseen--;
    free(s);
    liveness_update(p);
}

static void over(struct watch *w, int reason) {
    (void)reason;
    send_news(of(w)->peer, of(w)->ref, NULL, NAME_GONE);
    seen_free(of(w));
}

static const struct watch_ops seen_ops = {.lags = lags, .tell = tell, .told = told, .over = over};

void names_watch_req(struct peer *p, const struct peer_watch_req *m) {
    struct lessee who = {.peer = p->id, .address = p->ip};
    struct seen *s = p->nseen < PEER_WATCHES_MAX ? calloc(1, sizeof(*s)) : NULL;
    if (!s) {
        send_news(p, m->ref, NULL, NAME_GONE);
        return;
    }
    s->peer = p;
    s->ref = m->ref;
    s->room = WATCH_WINDOW;
    list_append(&p->seen, &s->node);
    p->nseen++;
    liveness_update(p);
    watch_begin(&s->watch, p->peers->state->names, &who, m->prefix, &seen_ops);
}

/* More than all is all: the peer may say what it likes. */
void names_watch_more(struct peer *p, const struct peer_watch_more *m) {
    list_for_each_safe (node, &p->seen) {
        struct seen *s = list_entry(node, struct seen, node);
        if (s->ref != m->ref)
            continue;
        s->room += m->count < WATCH_WINDOW - s->room ? m->count : WATCH_WINDOW - s->room;
        watch_go_on(&s->watch);
        return;
    }
}

void names_unwatch(struct peer *p, const struct peer_unwatch *m) {
    list_for_each_safe (node, &p->seen) {
        struct seen *s = list_entry(node, struct seen, node);
        if (s->ref == m->ref)
            seen_free(s);
    }
}

void names_go_on(struct peer *p) {
    list_for_each_safe (node, &p->seen)
        watch_go_on(&list_entry(node, struct seen, node)->watch);
}

void names_lost(struct peer *p) {
    list_for_each_safe (node, &p->seen)
        seen_free(list_entry(node, struct seen, node));
}
