/* SPDX-License-Identifier: MIT */
/*
 * ask.c - questions of our sessions to a peer: a narrower lease, its names, news of its names.
 *
 * The happy path: an ask gets a number in the peer's table, its message goes out when the peer is
 * up, and the answer that names the number ends it. A watch stays after its answer, which is the
 * first of its news, until peer_unwatch.
 *
 * An ask has a time-out of its own; what comes for a number that is gone is nobody's and ignored.
 * When its session closes it is given up, whatever its time-out. When the connection is lost every
 * ask ends, and a watch is over: its struct then waits without a peer for peer_unwatch. Half of the
 * table is the most that one uid can take.
 */
#include "daemon/base/clock.h"
#include "daemon/peer/lessee/claim.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum ask_kind { ASK_PART, ASK_LIST, ASK_WATCH };

struct peer_ask {
    struct peer *peer; /* NULL: it was lost, and this was a watch */
    uint64_t ref;      /* in peer->asks */
    enum ask_kind kind;
    uid_t uid;
    struct session_call call; /* no watch: it has an end of its own */
    bool sent;
    struct peer_msg question;
    struct timer timeout;
    uint64_t timeout_ns;
    void *arg;

    peer_delegated *delegated;
    struct rdmad_uri uri; /* of the daemon whose the part is */

    peer_listed *listed;
    struct rdmad_names_list_rep names;

    struct watch *watch;
    plane_done *begun; /* NULL: told */
};

static struct timers *timers_of(const struct peer_ask *a) {
    return &a->peer->peers->state->timers;
}

/* Takes it out of the peer, which may be freed. */
static void leave(struct peer_ask *a) {
    struct peer *p = a->peer;
    timer_unset(timers_of(a), &a->timeout);
    list_remove(&a->call.node);
    slots_remove(&p->asks, a->ref);
    a->peer = NULL;
    liveness_update(p);
    peer_check_free(p);
}

static void send_unwatch(const struct peer_ask *a) {
    struct peer_msg m = {.type = PEER_MSG_UNWATCH, .unwatch.ref = a->ref};
    if (a->kind == ASK_WATCH && a->sent)
        peer_send(a->peer, &m);
}

/* It comes to nothing. */
static void fail(struct peer_ask *a, const struct error *why) {
    struct peer_ask copy = *a;
    struct error text = *why;
    leave(a);
    free(a);
    if (copy.kind == ASK_PART)
        copy.delegated(copy.arg, &text, NULL);
    else if (copy.kind == ASK_LIST)
        copy.listed(copy.arg, &text, NULL);
    else
        copy.begun(copy.arg, &text);
}

static void timed_out(struct timer *timer, uint64_t now_ns) {
    struct peer_ask *a = container_of(timer, struct peer_ask, timeout);
    const struct peer *p = a->peer;
    struct error why;
    (void)now_ns;
    error_set(&why, RDMAD_E_TIMEOUT,
              "the daemon at %.100s did not answer within %" PRIu64 " ms, %s; try again or "
              "allow more time",
              p->dialled, a->timeout_ns / NSEC_PER_MSEC,
              a->sent ? "though it is connected" : "connecting to it");
    send_unwatch(a);
    fail(a, &why);
}

static void give_up(struct session_call *call, const struct error *why) {
    fail(container_of(call, struct peer_ask, call), why);
}

static int check_share(const struct peer *p, uid_t uid, struct error *err) {
    uint32_t cursor = 0, most = p->asks.max / 2;
    const struct peer_ask *a;
    uint64_t ref;
    unsigned n = 0;
    if (p->asks.used < most)
        return 0;
    while ((a = slots_next(&p->asks, &cursor, &ref)))
        n += a->uid == uid;
    if (n < most && p->asks.used < p->asks.max)
        return 0;
    return error_set(err, RDMAD_E_LIMIT,
                     "%" PRIu32 " questions and watches wait at %.100s, %u of uid %u; at most "
                     "%u, and %u of one uid, may",
                     p->asks.used, p->dialled, n, (unsigned)uid, p->asks.max, most);
}

/* In the table, with what is the same for every kind; NULL: err tells. */
static struct peer_ask *ask_new(struct peer *p, enum ask_kind kind, struct session *s,
                                uint64_t timeout_ns, struct error *err) {
    struct state *st = p->peers->state;
    struct peer_ask *a;

    if (check_share(p, s->uid, err))
        return NULL;
    a = calloc(1, sizeof(*a));
    if (!a || !(a->ref = slots_add(&p->asks, a))) {
        free(a);
        error_set(err, RDMAD_E_NOMEM, "out of memory for a question to a peer");
        return NULL;
    }
    a->peer = p;
    a->kind = kind;
    a->uid = s->uid;
    a->call.give_up = give_up;
    list_init(&a->call.node);
    a->timeout_ns = timeout_ns ? timeout_ns : st->config->attach_timeout_ms * NSEC_PER_MSEC;
    timer_init(&a->timeout, timed_out);
    if (timer_set(&st->timers, &a->timeout, clock_after(state_now(st), a->timeout_ns))) {
        leave(a);
        free(a);
        error_set(err, RDMAD_E_NOMEM, "out of memory for a question to a peer");
        return NULL;
    }
    if (kind != ASK_WATCH)
        list_append(&s->calls, &a->call.node);
    return a;
}

static void ask_send(struct peer_ask *a) {
    a->sent = true;
    peer_send(a->peer, &a->question);
}

/* Its question is complete. */
static void begin(struct peer_ask *a) {
    liveness_update(a->peer);
    if (a->peer->stage == PEER_UP)
        ask_send(a);
}

void asks_begin(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    struct peer_ask *a;
    while ((a = slots_next(&p->asks, &cursor, &ref)))
        if (!a->sent)
            ask_send(a);
}

void asks_lost(struct peer *p, const struct error *why) {
    struct error lost = *why;
    uint32_t cursor = 0;
    uint64_t ref;
    struct peer_ask *a;

    if (lost.code == RDMAD_OK)
        lost.code = RDMAD_E_PEER_LOST;
    while ((a = slots_next(&p->asks, &cursor, &ref))) {
        if (a->kind == ASK_WATCH && !a->begun) {
            leave(a);
            watch_over(a->watch, RDMAD_E_PEER_LOST); /* may come to peer_unwatch */
        } else {
            fail(a, &lost);
        }
    }
}

static struct peer_ask *find(struct peer *p, uint64_t ref, enum ask_kind kind) {
    struct peer_ask *a = slots_get(&p->asks, ref);
    return a && a->kind == kind ? a : NULL;
}

/* ---- a lease of a lease -------------------------------------------------------------------- */

void peer_delegate(struct handle *h, const struct lease_part *part, uint64_t timeout_ns,
                   peer_delegated *done, void *arg) {
    const struct claim *c = h->peer_record;
    struct error err;
    struct peer_ask *a = NULL;

    if (c->peer->stage != PEER_UP)
        error_set(&err, RDMAD_E_PEER_LOST, "the connection to %s was lost", c->peer->name);
    else
        a = ask_new(c->peer, ASK_PART, h->session, timeout_ns, &err);
    if (!a) {
        done(arg, &err, NULL);
        return;
    }
    a->uri = (struct rdmad_uri){.port = c->uri.port};
    memcpy(a->uri.host, c->uri.host, sizeof(a->uri.host));
    a->delegated = done;
    a->arg = arg;
    a->question = (struct peer_msg){.type = PEER_MSG_DELEGATE_REQ};
    a->question.delegate_req = (struct peer_delegate_req){.ref = a->ref,
                                                          .owner_ref = c->owner_ref,
                                                          .offset = part->offset,
                                                          .length = part->length,
                                                          .ttl_ns = part->ttl_ns,
                                                          .rights = part->rights,
                                                          .max_attaches = part->max_attaches};
    begin(a);
}

void claim_delegate_rep(struct peer *p, const struct peer_delegate_rep *m) {
    struct peer_ask *a = find(p, m->ref, ASK_PART);
    struct rdmad_lease_grant_rep rep = {.lease = m->lease, .ttl_ns = m->ttl_ns};
    struct error why = {.code = m->status};

    if (!a)
        return;
    memcpy(why.text, m->text, sizeof(why.text));
    if (m->status) {
        fail(a, &why);
        return;
    }
    a->uri.lease = m->lease;
    memcpy(a->uri.key, m->key, sizeof(a->uri.key));
    if (rdmad_uri_print(&a->uri, rep.uri, sizeof(rep.uri)) < 0) {
        error_set(&why, RDMAD_E_URI, "the URI of the new lease is longer than %u characters",
                  RDMAD_URI_MAX);
        fail(a, &why);
        return;
    }
    peer_delegated *done = a->delegated;
    void *arg = a->arg;
    leave(a);
    free(a);
    done(arg, &why, &rep);
}

/* ---- names --------------------------------------------------------------------------------- */

static struct peer_ask *ask_names(struct session *s, const struct names_query *q,
                                  enum ask_kind kind, struct error *err) {
    struct peer *p;
    if (peer_dial(s->state->peers, q->host, q->port, s->uid, &p, err))
        return NULL;
    return ask_new(p, kind, s, q->timeout_ns, err);
}

void peer_list(struct session *s, const struct names_query *q, peer_listed *done, void *arg) {
    struct error err;
    struct peer_ask *a = ask_names(s, q, ASK_LIST, &err);
    if (!a) {
        done(arg, &err, NULL);
        return;
    }
    a->listed = done;
    a->arg = arg;
    a->question = (struct peer_msg){.type = PEER_MSG_NAMES_REQ, .names_req.ref = a->ref};
    memcpy(a->question.names_req.prefix, q->prefix, sizeof(q->prefix));
    memcpy(a->question.names_req.after, q->after, sizeof(q->after));
    begin(a);
}

void names_rep(struct peer *p, const struct peer_names_rep *m) {
    static const struct error ok;
    struct peer_ask *a = find(p, m->ref, ASK_LIST);
    if (!a)
        return;
    if (m->last == 0 && a->names.count < RDMAD_NAMES_PER_REPLY) {
        a->names.entry[a->names.count++] = m->entry;
        return;
    }
    if (m->last == 0) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "more than %u names in one answer", RDMAD_NAMES_PER_REPLY);
        return;
    }
    struct rdmad_names_list_rep names = a->names;
    peer_listed *done = a->listed;
    void *arg = a->arg;
    names.more = m->last == 2 && names.count;
    leave(a);
    free(a);
    done(arg, &ok, &names);
}

struct peer_ask *peer_watch(struct session *s, const struct names_query *q, struct watch *w,
                            plane_done *done, void *arg) {
    struct error err;
    struct peer_ask *a = ask_names(s, q, ASK_WATCH, &err);
    if (!a) {
        done(arg, &err);
        return NULL;
    }
    a->watch = w;
    a->begun = done;
    a->arg = arg;
    a->question = (struct peer_msg){.type = PEER_MSG_WATCH_REQ, .watch_req.ref = a->ref};
    memcpy(a->question.watch_req.prefix, q->prefix, sizeof(q->prefix));
    begin(a);
    return a;
}

void peer_unwatch(struct peer_ask *a) {
    if (a->peer) {
        send_unwatch(a);
        leave(a);
    }
    free(a);
}

void peer_watch_more(struct peer_ask *a, unsigned count) {
    struct peer_msg m = {.type = PEER_MSG_WATCH_MORE,
                         .watch_more = {.ref = a->ref, .count = count}};
    if (a->peer && a->sent)
        peer_send(a->peer, &m);
}

void names_ev(struct peer *p, const struct peer_name_ev *m) {
    static const struct error ok;
    struct peer_ask *a = find(p, m->ref, ASK_WATCH);
    struct error why;
    if (!a)
        return;
    if (a->begun && m->gone == NAME_GONE && !m->entry.name[0]) {
        error_set(&why, RDMAD_E_LIMIT, "%s has as many watches of your daemon as it allows",
                  p->name);
        fail(a, &why);
        return;
    }
    if (a->begun) {
        plane_done *begun = a->begun;
        a->begun = NULL;
        timer_unset(timers_of(a), &a->timeout);
        begun(a->arg, &ok); /* may unwatch */
        if (find(p, m->ref, ASK_WATCH) != a)
            return;
    }
    if (m->entry.name[0] || m->gone == NAMES_ANEW) {
        watch_news(a->watch, &m->entry, (enum name_news)m->gone);
    } else if (m->gone) {
        a->sent = false; /* the other end knows that it is over */
        watch_over(a->watch, RDMAD_E_LIMIT);
    }
}
