/* SPDX-License-Identifier: MIT */
/*
 * requests_peers.c - peer/peer.h without a network: what is asked of other daemons waits, and is
 * answered when the fuzzer says so. What peer/ does of its own (times, shares, connections) is not
 * here; what it owes to sessions that close is.
 */
#include "common/uri.h"
#include "daemon/peer/peer.h"
#include "daemon/state/channel_away.h"
#include "daemon/state/keepalive.h"
#include "tests/fuzz/requests_rig.h"

#define PEER 5u

enum question_kind { ASK_ATTACH, ASK_KEEP, ASK_HANDED, ASK_WAY, ASK_LIST, ASK_WATCH, ASK_PART };

/* One that waits for an answer, or (waits false) what came of it and lives on. */
struct question {
    enum question_kind kind;
    struct list node; /* in waiting or given */
    bool waits;
    struct handle *handle;
    struct channel *channel;
    bool again; /* the channel was there before */
    bool rests; /* it has lost its way */
    bool requested;
    struct session_waiter done; /* of handles, and watches */
    struct session_call call;   /* of those that a session gives up */
    peer_listed *listed;
    peer_delegated *delegated;
    void *arg;
    struct watch *watch;
    unsigned room; /* how many names it may still be told */
};

struct peer_ask {
    struct question q;
};

static struct list waiting, given;
static struct plane_lane *lane;
static uint64_t numbers;
static const struct error ok;

static void lane_dropped(void *arg, const struct error *result) {
    (void)arg, (void)result;
}

void peers_up(void) {
    list_init(&waiting);
    list_init(&given);
    lane = plane_lane_new(NULL, 0, 0, false, NULL);
    numbers = 0;
}

void peers_down(void) {
    must(list_empty(&waiting) && list_empty(&given));
    plane_lane_drop(lane, lane_dropped, NULL);
    fake_answer_all();
}

static struct error lost(void) {
    struct error why;
    error_set(&why, RDMAD_E_PEER_LOST, "the connection to far was lost");
    return why;
}

static struct question *question_new(enum question_kind kind) {
    struct question *q = calloc(1, sizeof(struct peer_ask));
    must(q);
    q->kind = kind;
    q->waits = true;
    list_init(&q->node);
    list_init(&q->call.node);
    list_append(&waiting, &q->node);
    return q;
}

static void question_free(struct question *q) {
    list_remove(&q->node);
    list_remove(&q->call.node);
    free(q);
}

static void question_lives_on(struct question *q) {
    q->waits = false;
    list_remove(&q->node);
    list_append(&given, &q->node);
}

bool peers_is_self(const struct peers *ps, const struct rdmad_uri *uri) {
    (void)ps;
    return !uri->host[0] || (uri->port == PORT && strcmp(uri->host, "127.0.0.1") == 0);
}

bool peers_await(struct peers *ps, const struct rdmad_uri *uri) {
    (void)ps;
    return uri->port == OTHER_PORT;
}

/* ---- leases ---------------------------------------------------------------------------------- */

static void attach_fail(struct question *q, const struct error *why) {
    struct session_waiter done = q->done;
    struct handle *h = q->handle;
    question_free(q);
    h->ops = NULL;
    handle_free(h);
    done.done(done.arg, why);
}

static void attach_cancel(struct handle *h) {
    struct error why;
    error_set(&why, RDMAD_E_CANCELED, "the session ended during the attach");
    attach_fail(h->peer_record, &why);
}

static void handed_give_up(struct session_call *call, const struct error *why) {
    struct question *q = container_of(call, struct question, call);
    struct session_waiter done = q->done;
    question_free(q);
    done.done(done.arg, why);
}

/* A question whether it may be kept goes with the handle. */
static void forget_keep(const struct handle *h) {
    list_for_each_safe (node, &waiting) {
        struct question *q = list_entry(node, struct question, node);
        if (q->kind == ASK_KEEP && q->handle == h)
            question_free(q);
    }
}

static void attach_let_go(struct handle *h, bool returned) {
    struct question *q = h->peer_record;
    (void)returned;
    forget_keep(h);
    question_free(q);
    if (h->returned != HANDLE_HANDED_OVER)
        return;
    struct session_waiter done = h->releasing;
    h->releasing.done = NULL;
    if (h->session->closing) {
        struct error why = lost();
        done.done(done.arg, &why);
        return;
    }
    q = question_new(ASK_HANDED);
    q->done = done;
    q->call.give_up = handed_give_up;
    list_append(&h->session->calls, &q->call.node);
}

static void attach_keep(struct handle *h) {
    struct question *q = question_new(ASK_KEEP);
    q->handle = h;
}

static const struct handle_ops attach_ops = {
    .cancel = attach_cancel, .let_go = attach_let_go, .keep = attach_keep};

static void attach_ask(struct handle *h, bool requested, plane_done *done, void *arg) {
    struct question *q = question_new(ASK_ATTACH);
    q->handle = h;
    q->requested = requested;
    q->done = (struct session_waiter){done, arg};
    h->ops = &attach_ops;
    h->peer_record = q;
    h->requested = requested;
}

void peer_attach(struct peers *ps, struct handle *h, const struct rdmad_uri *uri,
                 uint64_t timeout_ns, plane_done *done, void *arg) {
    (void)ps, (void)uri;
    must(timeout_ns);
    attach_ask(h, false, done, arg);
}

void peer_request(struct peers *ps, struct handle *h, const struct rdmad_uri *uri,
                  const struct request_terms *terms, uint64_t timeout_ns, plane_done *done,
                  void *arg) {
    (void)ps;
    must(timeout_ns && terms->bytes && uri->name[0] && !(terms->rights & ~RDMAD_RIGHTS_ALL));
    attach_ask(h, true, done, arg);
}

static void attach_grant(struct question *q) {
    struct handle *h = q->handle;
    numbers++;
    struct plane_lease_spec spec = {.lease_id = numbers,
                                    .length = 8192,
                                    .rights = RDMAD_RIGHTS_ALL,
                                    .deadline_ns = clock_after(world_now_ns, 60 * NSEC_PER_SEC),
                                    .lane = lane,
                                    .audit = &h->attachment.audit,
                                    .notify_ref = q->requested ? 0 : numbers};
    if (h->session->closing) {
        attach_cancel(h);
        return;
    }
    question_lives_on(q);
    handle_attach_remote(h, &spec, &attach_ops, q, q->done.done, q->done.arg);
}

/* ---- parts and names ------------------------------------------------------------------------- */

static void question_fail(struct question *q, const struct error *why) {
    struct question was = *q;
    if (q->kind == ASK_WATCH && !q->waits) {
        list_remove(&q->node);
        watch_over(q->watch, RDMAD_E_PEER_LOST); /* may come to peer_unwatch */
        return;
    }
    question_free(q);
    if (was.kind == ASK_PART)
        was.delegated(was.arg, why, NULL);
    else if (was.kind == ASK_LIST)
        was.listed(was.arg, why, NULL);
    else
        was.done.done(was.done.arg, why);
}

static void question_give_up(struct session_call *call, const struct error *why) {
    question_fail(container_of(call, struct question, call), why);
}

void peer_delegate(struct handle *h, const struct lease_part *part, uint64_t timeout_ns,
                   peer_delegated *done, void *arg) {
    (void)timeout_ns;
    must(part->rights && part->length && part->offset + part->length <= h->length);
    struct question *q = question_new(ASK_PART);
    q->delegated = done;
    q->arg = arg;
    q->call.give_up = question_give_up;
    list_append(&h->session->calls, &q->call.node);
}

void peer_list(struct session *s, const struct names_query *query, peer_listed *done, void *arg) {
    must(query->host[0] && query->port);
    struct question *q = question_new(ASK_LIST);
    q->listed = done;
    q->arg = arg;
    q->call.give_up = question_give_up;
    list_append(&s->calls, &q->call.node);
}

struct peer_ask *peer_watch(struct session *s, const struct names_query *query, struct watch *w,
                            plane_done *done, void *arg) {
    struct error why = lost();
    (void)s;
    must(query->host[0] && query->port);
    if (query->port != OTHER_PORT) {
        done(arg, &why);
        return NULL;
    }
    struct question *q = question_new(ASK_WATCH);
    q->watch = w;
    q->room = WATCH_WINDOW;
    q->done = (struct session_waiter){done, arg};
    return container_of(q, struct peer_ask, q);
}

void peer_unwatch(struct peer_ask *a) {
    question_free(&a->q);
}

void peer_watch_more(struct peer_ask *a, unsigned count) {
    must(!a->q.waits && count);
    a->q.room += count;
    must(a->q.room <= WATCH_WINDOW);
}

static void watch_tell(struct question *q) {
    struct rdmad_name_entry entry = {.name = "far.away", .kind = RDMAD_NAME_LEASE};
    static const enum name_news news[] = {NAME_THERE, NAME_GONE, NAME_THERE, NAMES_ANEW};
    if (!q->room)
        return;
    q->room--;
    watch_news(q->watch, &entry, news[numbers++ % 4]);
}

/* ---- channels -------------------------------------------------------------------------------- */

static void way_cancel(struct channel *ch, const struct error *why) {
    (void)why;
    question_free(ch->record);
}

static void way_added(struct channel *ch) {
    channel_connect(ch, ++numbers, NULL);
    ch->max_datagram = FAKE_DATAGRAM;
    channel_ready(ch);
}

static void way_gone(struct channel *ch) {
    question_free(ch->record);
}

static void way_ask_alive(struct channel *ch) {
    (void)ch;
}

static const struct channel_ops way_ops = {.cancel = way_cancel,
                                           .added = way_added,
                                           .let_go = way_gone,
                                           .rested = way_gone,
                                           .ask_alive = way_ask_alive};

static void way_seek(struct channel *ch);

static void way_ask(struct channel *ch, bool again) {
    struct question *q = question_new(ASK_WAY);
    q->channel = ch;
    q->again = again;
    ch->ops = &way_ops;
    ch->record = q;
    ch->remote = true;
    ch->seek = way_seek;
}

static void way_seek(struct channel *ch) {
    if (ch->port != OTHER_PORT) {
        channel_seek_later(ch);
        return;
    }
    channel_come(ch);
    way_ask(ch, true);
}

static void name_host(struct channel *ch, const struct rdmad_uri *uri) {
    snprintf(ch->host, sizeof(ch->host), "%s", uri->host);
    ch->port = uri->port;
}

void peer_connect(struct peers *ps, struct channel *ch, const struct rdmad_uri *uri,
                  uint64_t timeout_ns) {
    (void)ps;
    must(timeout_ns && uri->name[0] && ch->stage == CHANNEL_NEW);
    name_host(ch, uri);
    memcpy(ch->service, uri->name, sizeof(ch->service));
    ch->has_key = true;
    memset(ch->key, (int)++numbers, sizeof(ch->key));
    way_ask(ch, false);
}

void peer_channel_resume(struct channel *ch, const struct rdmad_uri *uri) {
    name_host(ch, uri);
    ch->remote = true;
    ch->seek = way_seek;
    channel_resume(ch);
}

void peers_accept(struct channel *ch) {
    ch->has_key = true;
    memset(ch->key, (int)++numbers, sizeof(ch->key));
    way_ask(ch, false);
    ch->seek = NULL; /* it is waited for */
}

static void way_fail(struct question *q, const struct error *why) {
    struct channel *ch = q->channel;
    if (q->rests)
        return;
    if ((q->waits && !q->again) || !channel_may_return(ch)) {
        channel_end(ch, why->code, why->text);
    } else if (q->waits) {
        question_free(q);
        channel_stay_away(ch, why->text);
    } else {
        q->rests = true;
        channel_lose_way(ch, why->text);
    }
}

static void way_grant(struct question *q) {
    struct channel *ch = q->channel;
    question_lives_on(q);
    if (ch->session->closing)
        return; /* as peer/channel/chan.c */
    ch->kind = q->again ? ch->kind : ch->asked;
    snprintf(ch->peer_node, sizeof(ch->peer_node), "far");
    snprintf(ch->peer_address, sizeof(ch->peer_address), "10.0.0.2:%u", OTHER_PORT);
    channel_add(ch, lane, PEER);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void part_grant(struct question *q) {
    struct rdmad_lease_grant_rep rep = {.lease = ++numbers + (UINT64_C(1) << 40)};
    struct question was = *q;
    snprintf(rep.uri, sizeof(rep.uri), "rdmad://far:%u/lease/%llu?key=%032x", OTHER_PORT,
             (unsigned long long)rep.lease, 7u);
    question_free(q);
    was.delegated(was.arg, &ok, &rep);
}

static void names_grant(struct question *q) {
    struct rdmad_names_list_rep rep = {.count = 1, .entry = {{.name = "far.away"}}};
    struct question was = *q;
    question_free(q);
    was.listed(was.arg, &ok, &rep);
}

static void question_grant(struct question *q) {
    struct session_waiter done = q->done;
    struct handle *h = q->handle;
    switch (q->kind) {
    case ASK_ATTACH:
        attach_grant(q);
        return;
    case ASK_WAY:
        way_grant(q);
        return;
    case ASK_PART:
        part_grant(q);
        return;
    case ASK_LIST:
        names_grant(q);
        return;
    case ASK_WATCH:
        question_lives_on(q);
        done.done(done.arg, &ok);
        return;
    case ASK_KEEP:
        question_free(q);
        handle_kept(h, &ok);
        return;
    case ASK_HANDED:
        question_free(q);
        done.done(done.arg, &ok);
    }
}

static void question_refuse(struct question *q) {
    struct error why = lost();
    struct handle *h = q->handle;
    switch (q->kind) {
    case ASK_ATTACH:
        attach_fail(q, &why);
        return;
    case ASK_WAY:
        way_fail(q, &why);
        return;
    case ASK_KEEP:
        question_free(q);
        why.code = RDMAD_E_PERM;
        handle_kept(h, &why);
        return;
    default:
        question_fail(q, &why);
    }
}

static struct question *nth_of(const struct list *all, unsigned nth) {
    unsigned n = 0;
    list_for_each (node, all)
        n++;
    if (!n)
        return NULL;
    nth %= n;
    list_for_each (node, all)
        if (nth-- == 0)
            return list_entry(node, struct question, node);
    return NULL;
}

bool peers_answer(unsigned nth, unsigned how) {
    struct question *q = nth_of(&waiting, nth);
    if (!q)
        return false;
    if (how & PEER_LOST)
        question_refuse(q);
    else
        question_grant(q);
    return true;
}

void peers_event(unsigned nth, unsigned how) {
    struct question *q = nth_of(&given, nth);
    struct error why = lost();
    if (!q)
        return;
    if (q->kind == ASK_WATCH && !(how & PEER_LOST))
        watch_tell(q);
    else if (q->kind == ASK_WATCH)
        question_fail(q, &why);
    else if (q->kind == ASK_ATTACH && (how & PEER_LOST))
        handle_end(q->handle, why.code, why.text);
    else if (q->kind == ASK_ATTACH)
        handle_renewed(q->handle, clock_after(world_now_ns, 60 * NSEC_PER_SEC));
    else if (how & PEER_LOST)
        way_fail(q, &why);
    else
        channel_ended_there(q->channel, RDMAD_E_CLOSED, "the other end closed it");
}
