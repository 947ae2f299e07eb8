/* SPDX-License-Identifier: MIT */
/*
 * peers.c - the table of peers from its start to its stop, and what happens above when something
 * happens to a connection: who is told that it is up, and in which order all are told that it is
 * lost.
 */
#include "common/errors.h"
#include "daemon/base/audit.h"
#include "daemon/base/audit_cause.h"
#include "daemon/base/events.h"
#include "daemon/base/log.h"
#include "daemon/base/resolve.h"
#include "daemon/peer/channel/chan_peer.h"
#include "daemon/peer/connect/accept.h"
#include "daemon/peer/connect/dial.h"
#include "daemon/peer/connect/hello.h"
#include "daemon/peer/connect/join.h"
#include "daemon/peer/connect/judge.h"
#include "daemon/peer/connect/renewal.h"
#include "daemon/peer/connect/renewed.h"
#include "daemon/peer/connect/rights.h"
#include "daemon/peer/connect/self.h"
#include "daemon/peer/control/ask.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/handshake.h"
#include "daemon/peer/control/liveness.h"
#include "daemon/peer/control/rates.h"
#include "daemon/peer/control/transport.h"
#include "daemon/peer/control/turn.h"
#include "daemon/peer/control/unread.h"
#include "daemon/peer/dispatch.h"
#include "daemon/peer/lane/lane.h"
#include "daemon/peer/lessee/attach.h"
#include "daemon/peer/lessee/claim.h"
#include "daemon/peer/lessee/return.h"
#include "daemon/peer/names/answer.h"
#include "daemon/peer/owner/grant.h"
#include "daemon/peer/peer.h"
#include "daemon/peer/tables.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static const struct error ok;

/* ---- rdmactl peer add -------------------------------------------------------------------- */

struct peer_adder {
    struct list node;
    plane_done *done;
    void *arg;
};

static void peer_tell_adders(struct peer *p, const struct error *result) {
    struct list *node;
    while ((node = list_pop(&tables_of(p)->adders))) {
        struct peer_adder *a = list_entry(node, struct peer_adder, node);
        a->done(a->arg, result);
        free(a);
    }
}

void peer_add(struct peers *ps, const char *host, uint16_t port, plane_done *done, void *arg) {
    struct error err;
    struct peer *p;
    struct peer_adder *a = malloc(sizeof(*a));

    if (!a) {
        error_set(&err, RDMAD_E_NOMEM, "out of memory for a peer");
        done(arg, &err);
        return;
    }
    if (peer_dial(ps, host, port, PEER_NOBODY, &p, &err)) {
        free(a);
        done(arg, &err);
        return;
    }
    *a = (struct peer_adder){.done = done, .arg = arg};
    list_append(&tables_of(p)->adders, &a->node);
    if (p->stage == PEER_UP)
        peer_tell_adders(p, &ok);
}

/* ---- a record's beginning and end ---------------------------------------------------------- */

static struct peer *peer_make(struct peers *ps) {
    const struct config *c = ps->state->config;
    struct peer_tables *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    list_init(&t->adders);
    list_init(&t->lanes);
    list_init(&t->watches);
    list_init(&t->chans_out);
    list_init(&t->chans_in);
    /* Unanswered requests count, so this also bounds what a peer can have pending. */
    slots_init(&t->claims, (uint32_t)c->max_peer_attaches);
    slots_init(&t->grants, (uint32_t)c->max_peer_attaches);
    return_init(&t->peer);
    return &t->peer;
}

static void peers_check_stopped(struct peers *ps) {
    if (!ps->stopping || ps->count || !ps->stopped.done)
        return;
    struct session_waiter w = ps->stopped;
    ps->stopped.done = NULL;
    w.done(w.arg, &ok);
}

static void peer_free(struct peer *p) {
    struct peers *ps = p->peers;
    struct peer_tables *t = tables_of(p);
    return_forget(p);
    assert(!t->claims.used && !t->grants.used && !t->chans && !t->offers && !t->forgets);
    assert(list_empty(&t->adders) && list_empty(&t->lanes) && list_empty(&t->watches));
    slots_fini(&t->claims);
    slots_fini(&t->grants);
    free(t);
    peers_check_stopped(ps);
}

/* ---- a connection's ------------------------------------------------------------------------ */

static void peer_late(struct peer *p) {
    if (p->outgoing)
        dial_timed_out(p);
    else
        accept_timed_out(p);
}

/* What it asks of us comes by connections that it dialled. */
static void peer_apply_policy(struct peer *p) {
    const struct state *st = p->peers->state;
    const char *name = p->secured ? p->name : "";
    if (!st->policy)
        return;
    const struct peer_policy *policy = policy_peer(st->policy, name);
    bool rated = (policy->messages_per_second || policy->questions_per_second) && !p->is_self;
    if (!p->outgoing && plane_peer_share(st->plane, p->id, &policy->share))
        LOG_LIMITED_OF(peer_log(p), WARNING, ("the share of peer %s cannot be set", p->address));
    if (rated && !rates_join(p, name))
        LOG_LIMITED_OF(peer_log(p), WARNING,
                       ("out of memory for the rates of peer %s", p->address));
    rates_set(p, policy->messages_per_second, policy->questions_per_second);
}

void peers_throttled(struct peers *ps, uint64_t peer, enum plane_rate by) {
    list_for_each (node, &ps->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (p->id == peer && !p->ending)
            rates_tell_throttled(p, by);
    }
}

void peers_use(const struct peers *ps, const char *name, struct peer_use *out) {
    rights_use(ps, name, out);
}

void peers_apply_policy(struct peers *ps) {
    struct error why;
    list_for_each (node, &ps->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (p->stage != PEER_UP || p->ending)
            continue;
        peer_apply_policy(p);
        if (rights_to_connect(p, &why))
            peer_refuse(p, why.code, "%s", why.text);
    }
}

/* Whom we dialled ourselves is admitted by nobody, and what it refuses is its own affair. */
static void audit_loss(const struct peer *p, enum peer_stage was, const struct error *why) {
    const char *cause = audit_cause_of(why->code);
    if (!p->outgoing && was != PEER_UP)
        AUDIT(REFUSED, cause ? cause : "peer", peer_who(p), audit_object("peer", p->id),
              ("%s", why->text));
    else if (!p->outgoing && cause)
        AUDIT(VIOLATED, cause, peer_who(p), audit_object("peer", p->id), ("%s", why->text));
}

/* Others are dialled in vain, and need its place among those of which that is known. */
static void remember_more_unreached(const struct repeats_row *gone, uint64_t now_ns) {
    if (gone->untold)
        EVENT("peer", "unreachable", audit_peer("", gone->name), audit_nothing(),
              ("%" PRIu64 " more tries in the last %" PRIu64 " s: no peer at %.100s: %s",
               gone->untold, (now_ns - gone->told_ns) / NSEC_PER_SEC, gone->name,
               rdmad_error_text(gone->code)));
}

/* A dead daemon is dialled again and again, as long as somebody wants it: of each address and
 * reason it is told once a minute, so that this does not push out what else happened. */
static void remember_unreached(const struct peer *p, const struct error *why) {
    uint64_t now_ns = state_now(p->peers->state), since_ns;
    struct repeats_row gone;
    uint64_t count =
        repeats_count(&p->peers->unreached, p->dialled, why->code, now_ns, &since_ns, &gone);
    char before[96] = "", text[PEER_TEXT];
    _Static_assert(sizeof(p->dialled) <= REPEATS_NAME, "a row has the whole of it");
    remember_more_unreached(&gone, now_ns);
    if (!count)
        return;
    if (count > 1)
        snprintf(before, sizeof(before),
                 "%" PRIu64 " tries in the last %" PRIu64 " s, the last: ", count,
                 since_ns / NSEC_PER_SEC);
    EVENT("peer", "unreachable", peer_who(p), audit_object("peer", p->id),
          ("%sno %s: %s", before, peer_text(p, text), why->text));
}

/* An end of what was, or a try that came to nothing; the audit has told of others. */
static void remember_loss(const struct peer *p, enum peer_stage was, const struct error *why) {
    char text[PEER_TEXT];
    if (was == PEER_UP && p->unused)
        EVENT("peer", "closed", peer_who(p), audit_object("peer", p->id),
              ("the connection to %s is closed, and made anew when it is needed: %s",
               peer_text(p, text), why->text));
    else if (was == PEER_UP)
        EVENT("peer", "lost", peer_who(p), audit_object("peer", p->id),
              ("%s is gone: %s", peer_text(p, text), why->text));
    else if (p->outgoing)
        remember_unreached(p, why);
}

static void peer_up(struct peer *p) {
    const char *fabric = peer_fabric(p)->name;
    char text[PEER_TEXT];
    peer_text(p, text);
    if (p->outgoing)
        repeats_over(&p->peers->unreached, p->dialled);
    if (p->outgoing)
        EVENT("peer", "up", peer_who(p), audit_object("peer", p->id),
              ("%s is up, dialled, over %s", text, fabric));
    else
        AUDIT(ADMITTED, "peer", peer_who(p), audit_object("peer", p->id), ("%s is up", text));
    peer_apply_policy(p);
    LOG_LIMITED_OF(peer_log(p), INFO,
                   ("%s is up, %s, over %s", text, p->outgoing ? "dialled" : "accepted", fabric),
                   FIELD_U64("PEER", p->id));
    liveness_update(p);
    peer_tell_adders(p, &ok);
    if (p->outgoing) {
        claims_begin(p);
        asks_begin(p);
        chans_begin(p);
    }
}

static bool peer_self(struct peer *p) {
    claims_become_local(p);
    chans_become_local(p);
    return tables_of(p)->claims.used || p->asks.used;
}

static void peer_expelled(void *arg, const struct error *result) {
    (void)result;
    peer_release(arg);
}

/* Closes the connection, and ends everything that went over it. */
static void peer_lose(struct peer *p) {
    enum peer_stage was = p->stage;
    struct error why = p->why;
    char text[PEER_TEXT];

    peer_hold(p);
    peer_enter(p, PEER_LOST);
    if (!p->audited)
        audit_loss(p, was, &why);
    remember_loss(p, was, &why);
    liveness_stop(p);
    dial_stop(p);
    turn_forget(p);
    rates_leave(p);
    handshake_forget(p);
    judge_forget(p);
    if (p->way)
        transport_close(p->way);
    p->way = NULL;
    unread_forget(p);
    list_remove(&p->waiter_node);
    if (was == PEER_UP)
        LOG_LIMITED_OF(peer_log(p), INFO,
                       ("%s is %s: %s", peer_text(p, text),
                        p->unused ? "no longer connected, and will be when it is needed" : "gone",
                        why.text),
                       FIELD_U64("PEER", p->id));
    else if (!p->audited)
        LOG_LIMITED_OF(peer_log(p), INFO, ("no %s: %s", peer_text(p, text), why.text),
                       FIELD_U64("PEER", p->id));

    peer_tell_adders(p, &why);
    claims_lose(p, &why);
    asks_lose(p, &why);
    answer_lose(p);
    chans_lose(p, &why);
    lanes_lose(p);
    grants_lose(p);
    if (!p->outgoing && was == PEER_UP)
        plane_expel(p->peers->state->plane, p->fabric, p->id, peer_expelled,
                    p); /* ends the hold above */
    else
        peer_expelled(p, &ok);
}

static void peers_turn(struct peers *ps) {
    accept_next_turn(ps);
    judge_next_turn(ps);
}

static const struct peer_ops peers_ops = {
    .make = peer_make,
    .free = peer_free,
    .turn = peers_turn,
    .take = dispatch_message,
    .drained = answer_go_on,
    .open = hello_begin,
    .late = peer_late,
    .up = peer_up,
    .self = peer_self,
    .looked_at = claims_say_use,
    .lose = peer_lose,
};

/* ---- another identity ---------------------------------------------------------------------- */

void peers_judge_anew(struct peers *ps) {
    renewal_look(ps);
    judge_all(ps);
}

/* ---- the table --------------------------------------------------------------------------- */

int peers_new(struct state *st, struct peers **out, struct error *err) {
    struct peers *ps = calloc(1, sizeof(*ps));
    if (!ps)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for the table of peers");
    ps->state = st;
    ps->ops = &peers_ops;
    ps->next_id = 1;
    ps->next_ref = 1;
    list_init(&ps->all);
    list_init(&ps->unjudged);
    renewed_start(ps);
    handshakes_start(ps);
    int rc = turn_start(ps, err);
    if (!rc)
        rc = joins_new(ps, err);
    if (!rc)
        rc = renewal_new(ps, err);
    if (!rc)
        rc = accept_start(ps, err);
    if (rc) {
        joins_free(ps);
        renewal_free(ps);
        turn_stop(ps);
        free(ps);
        return rc;
    }
    *out = ps;
    return 0;
}

/* They are lessees here, by connections that they have dialled. Our own sessions are no such: they
 * part by themselves, and with their handles. */
static bool peer_has_leases(const struct peer *p) {
    const struct peer_tables *t = container_of(p, const struct peer_tables, peer);
    return !p->outgoing && p->stage == PEER_UP && !p->ending && t->grants.used &&
           !self_other_end(p);
}

void peers_leave(struct peers *ps) {
    struct peer_msg m = {.type = PEER_MSG_BYE, .bye.code = RDMAD_E_SHUTDOWN};
    snprintf(m.bye.text, sizeof(m.bye.text), "%s is stopping", ps->state->node_name);
    list_for_each (node, &ps->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (peer_has_leases(p))
            peer_send(p, &m);
    }
}

bool peers_have_left(const struct peers *ps) {
    list_for_each (node, &ps->all) {
        if (peer_has_leases(list_entry(node, struct peer, node)))
            return false;
    }
    return true;
}

void peers_stop(struct peers *ps, plane_done *done, void *arg) {
    ps->stopping = true;
    ps->stopped = (struct session_waiter){done, arg};
    accept_stop(ps);
    list_for_each (node, &ps->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (p->stage != PEER_LOST)
            peer_refuse(p, RDMAD_E_SHUTDOWN, "%s is stopping", ps->state->node_name);
    }
    peers_check_stopped(ps);
}

void peers_free(struct peers *ps) {
    if (!ps)
        return;
    accept_stop(ps);
    handshakes_stop(ps);
    joins_free(ps);
    renewal_free(ps);
    renewed_stop(ps);
    turn_stop(ps);
    resolver_free(ps->resolver);
    free(ps);
}
