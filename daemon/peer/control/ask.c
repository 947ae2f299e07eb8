/* SPDX-License-Identifier: MIT */
/*
 * ask.c - questions to a peer: their numbers, their time-outs, their share of the table.
 */
#include "daemon/peer/control/ask.h"
#include "daemon/base/clock.h"
#include "daemon/peer/control/admit.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/liveness.h"
#include "daemon/peer/control/unread.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

void ask_stop_timeout(struct peer_ask *a) {
    assert(a->peer);
    timer_unset(&a->peer->peers->state->timers, &a->timeout);
}

void ask_leave(struct peer_ask *a) {
    struct peer *p = a->peer;
    ask_stop_timeout(a);
    list_remove(&a->call.node);
    quota_discharge(&a->charge);
    slots_remove(&p->asks, a->ref);
    a->peer = NULL;
    peer_unneed(p, PEER_NEED_LOOSE);
    liveness_update(p);
    peer_check_free(p);
}

void ask_fail(struct peer_ask *a, const struct error *why) {
    struct error copy = *why;
    ask_leave(a);
    a->ops->failed(a, &copy);
}

static void ask_timed_out(struct timer *timer, uint64_t now_ns) {
    struct peer_ask *a = container_of(timer, struct peer_ask, timeout);
    const struct peer *p = a->peer;
    struct error why;
    (void)now_ns;
    error_set(&why, RDMAD_E_TIMEOUT,
              "the daemon at %.100s did not answer within %" PRIu64 " ms, %s; try again or "
              "allow more time",
              p->dialled, a->timeout_ns / NSEC_PER_MSEC,
              a->sent ? "though it is connected" : "connecting to it");
    if (a->sent && a->ops->withdraw)
        a->ops->withdraw(a);
    ask_fail(a, &why);
}

static void ask_give_up(struct session_call *call, const struct error *why) {
    ask_fail(container_of(call, struct peer_ask, call), why);
}

static int ask_check_share(const struct peer *p, struct user_id user, struct error *err) {
    uint32_t cursor = 0, most = p->asks.max / 2;
    const struct peer_ask *a;
    uint64_t ref;
    unsigned n = 0;
    if (p->asks.used < most)
        return 0;
    while ((a = slots_next(&p->asks, &cursor, &ref)))
        n += user_id_same(session_user_id(a->session), user);
    if (n < most && p->asks.used < p->asks.max)
        return 0;
    return error_set(err, RDMAD_E_LIMIT,
                     "%" PRIu32 " questions and watches wait at %.100s, %u of uid %u; at most "
                     "%u, and %u of one uid, may",
                     p->asks.used, p->dialled, n, (unsigned)user.uid, p->asks.max, most);
}

/* To this very daemon, by another address, a tenant's question would come as a peer's, whom no wall
 * between tenants stands before. */
static int ask_admit(const struct ask_ops *ops, const struct peer *p, const struct session *s,
                     struct error *err) {
    if (ops->of_names && p->stage == PEER_UP && p->is_self && s->tenant)
        return error_set(err, RDMAD_E_PERM,
                         "the daemon at %.100s is this very one: its names are listed and watched "
                         "without an address",
                         p->dialled);
    return admit_session(p, s, err);
}

struct peer_ask *ask_new(size_t bytes, const struct ask_ops *ops, struct peer *p, struct session *s,
                         uint64_t timeout_ns, struct error *err) {
    struct state *st = p->peers->state;
    struct peer_ask *a;

    assert(p->outgoing && bytes >= sizeof(*a));
    struct quota_charge charge = {0};
    if (ask_admit(ops, p, s, err) || ask_check_share(p, session_user_id(s), err) ||
        unread_check(p, session_user_id(s), err) ||
        quota_charge(&st->quota, &s->account, s->uid_account, QUOTA_QUESTIONS, 1, &charge, err))
        return NULL;
    a = calloc(1, bytes);
    if (!a || !(a->ref = slots_add(&p->asks, a))) {
        quota_discharge(&charge);
        free(a);
        error_set(err, RDMAD_E_NOMEM, "out of memory for a question to a peer");
        return NULL;
    }
    a->ops = ops;
    a->peer = p;
    a->session = s;
    a->charge = charge;
    a->call.give_up = ask_give_up;
    list_init(&a->call.node);
    a->timeout_ns = timeout_ns ? timeout_ns : st->config->attach_timeout_ms * NSEC_PER_MSEC;
    peer_need(p, PEER_NEED_LOOSE);
    timer_init(&a->timeout, ask_timed_out);
    if (timer_set(&st->timers, &a->timeout, clock_after(state_now(st), a->timeout_ns))) {
        ask_leave(a);
        free(a);
        error_set(err, RDMAD_E_NOMEM, "out of memory for a question to a peer");
        return NULL;
    }
    if (!ops->ends_itself)
        list_append(&s->calls, &a->call.node);
    return a;
}

static void ask_send(struct peer_ask *a) {
    a->sent = true;
    unread_ask(a->peer, session_user_id(a->session), &a->question);
}

void ask_begin(struct peer_ask *a) {
    assert(a->peer && !a->sent && a->question.type);
    liveness_update(a->peer);
    if (a->peer->stage == PEER_UP)
        ask_send(a);
}

struct peer_ask *ask_find(struct peer *p, uint64_t ref, const struct ask_ops *ops) {
    struct peer_ask *a = slots_get(&p->asks, ref);
    return a && a->ops == ops ? a : NULL;
}

void asks_begin(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    struct peer_ask *a;
    struct error why;
    assert(p->stage == PEER_UP);
    while ((a = slots_next(&p->asks, &cursor, &ref))) {
        if (a->sent)
            continue;
        if (ask_admit(a->ops, p, a->session, &why))
            ask_fail(a, &why);
        else
            ask_send(a);
    }
}

void asks_lose(struct peer *p, const struct error *why) {
    struct error lost = *why;
    uint32_t cursor = 0;
    uint64_t ref;
    struct peer_ask *a;

    assert(p->stage == PEER_LOST);
    if (lost.code == RDMAD_OK)
        lost.code = RDMAD_E_PEER_LOST;
    while ((a = slots_next(&p->asks, &cursor, &ref)))
        ask_fail(a, &lost);
}
