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
#include "daemon/peer/connect/rights.h"
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

/* ---- a listing ----------------------------------------------------------------------------- */

static bool answer_begins(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* What the peer may see of the names that begin with prefix is what begins with the longer of that
 * and one of its policy's; NULL: nothing is, by that one. Of two of the policy's of which one
 * begins with the other the longer says nothing. */
static const char *answer_narrow(const struct policy_prefixes *may, unsigned i,
                                 const char *prefix) {
    for (unsigned k = 0; k < may->count; k++)
        if (k != i && answer_begins(may->list[i], may->list[k]) &&
            (k < i || strcmp(may->list[i], may->list[k]) != 0))
            return NULL;
    if (answer_begins(prefix, may->list[i]))
        return prefix;
    return answer_begins(may->list[i], prefix) ? may->list[i] : NULL;
}

/* A page of names in their order. */
struct answer_page {
    struct rdmad_name_entry entry[RDMAD_NAMES_PER_REPLY];
    unsigned count;
    bool more;
};

static void answer_merge(struct answer_page *page, const struct answer_page *other) {
    struct answer_page both = {.more = page->more || other->more};
    unsigned i = 0, k = 0;
    while (both.count < RDMAD_NAMES_PER_REPLY && (i < page->count || k < other->count)) {
        bool first = k == other->count ||
                     (i < page->count && strcmp(page->entry[i].name, other->entry[k].name) < 0);
        both.entry[both.count++] = first ? page->entry[i++] : other->entry[k++];
    }
    both.more |= i < page->count || k < other->count;
    *page = both;
}

static void answer_list(struct peer *p, const struct peer_names_req *m, struct answer_page *out) {
    const struct name_table *names = p->peers->state->names;
    const struct policy_prefixes *may = rights_to_see(p);
    struct lessee who = rights_lessee(p);
    struct answer_page page;
    *out = (struct answer_page){0};
    if (may->any) {
        out->count = names_list(names, &who, m->prefix, m->after, out->entry, RDMAD_NAMES_PER_REPLY,
                                &out->more);
        return;
    }
    for (unsigned i = 0; i < may->count; i++) {
        const char *prefix = answer_narrow(may, i, m->prefix);
        if (!prefix)
            continue;
        page.count = names_list(names, &who, prefix, m->after, page.entry, RDMAD_NAMES_PER_REPLY,
                                &page.more);
        answer_merge(out, &page);
    }
}

void answer_take_names_req(struct peer *p, const struct peer_msg *msg) {
    const struct peer_names_req *m = &msg->names_req;
    struct peer_msg rep = {.type = PEER_MSG_NAMES_REP};
    struct answer_page page;
    answer_list(p, m, &page);
    for (unsigned i = 0; i < page.count; i++) {
        rep.names_rep = (struct peer_names_rep){.ref = m->ref, .entry = page.entry[i]};
        peer_send(p, &rep);
    }
    rep.names_rep = (struct peer_names_rep){.ref = m->ref, .last = page.more ? 2 : 1};
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
    const struct peer *p = answer_watch_of(w)->peer;
    if (what != NAMES_ANEW && !policy_prefixes_admit(rights_to_see(p), entry->name))
        return;
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
    struct lessee who = rights_lessee(p);
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
