/* SPDX-License-Identifier: MIT */
/*
 * sessions.c - sessions: added to a worker, paused, asked for a sign of life, shut out, taken away
 * with all that they have.
 *
 * In this file as in those beside it a call's two sides stand together: plane_X, which the control
 * thread calls, and before it what the worker does for it. Everything that has to be allocated is
 * allocated by the control thread; what fails for lack of memory is answered like any other
 * failure, in a later turn.
 *
 * Adding is immediate. Taking away shuts the door first (no new op finds the thing), cancels the
 * ops that hold it, some a turn (ends.c), and answers when none is left: if they are few, and with
 * fabrics that let go at once, before the call returns, otherwise in a later turn through
 * calls_settle. Rings, pools and leases are freed on the worker, a session by its answer, because
 * its violated_mail or failed_mail may still be under way.
 */
#include "daemon/op/seam/sessions.h"
#include "daemon/op/channel/channel.h"
#include "daemon/op/channel/entry.h"
#include "daemon/op/channel/life.h"
#include "daemon/op/engine/ends.h"
#include "daemon/op/engine/rings.h"
#include "daemon/op/engine/tally.h"
#include "daemon/op/engine/user.h"
#include "daemon/op/notify/grant.h"
#include "daemon/op/seam/call.h"
#include "daemon/op/seam/leases.h"
#include "daemon/op/seam/rings_pools.h"
#include <stdlib.h>

#define HANDLES_MAX (1u << 20) /* a bound of the worker's tables; quotas are far below */

/* ---- begin ------------------------------------------------------------------------------- */

static void add_session(struct call *c) {
    const struct call_session *about = call_session(c);
    struct op_session *s = &c->session->op;
    s->user = user_join(c->worker, s->account, about->user, &about->share);
    list_append(&c->worker->sessions, &c->session->op.node);
    call_finish(c);
}

static unsigned least_loaded(const struct plane *p) {
    unsigned best = 0;
    for (unsigned i = 1; i < p->settings.workers; i++)
        if (p->sessions[i] < p->sessions[best])
            best = i;
    return best;
}

struct plane_session *plane_session_add(struct plane *p, uint64_t id, struct user_id who,
                                        void *cookie) {
    struct op_account *account = account_join(&p->accounts, who);
    struct plane_session *ps = account ? calloc(1, sizeof(*ps)) : NULL;
    struct op_user *user = ps ? malloc(sizeof(*user)) : NULL;
    if (!user) {
        free(ps);
        account_leave(&p->idle_accounts, account, 0);
        return NULL;
    }
    unsigned index = least_loaded(p);
    p->sessions[index]++;
    ps->plane = p;
    ps->worker = &p->worker[index];

    struct op_session *s = &ps->op;
    s->worker = ps->worker;
    s->id = id;
    s->cookie = cookie;
    s->account = account;
    s->all = &p->all;
    list_init(&s->node);
    list_init(&s->every_ring);
    list_init(&s->own);
    list_init(&s->doomed);
    list_init(&s->hot);
    list_init(&s->quiet);
    list_init(&s->hot_node);
    list_init(&s->still);
    list_init(&s->still_node);
    list_init(&s->throttled);
    list_init(&s->unended);
    list_init(&s->unended_node);
    list_init(&s->violated_node);
    list_init(&s->untaken_node);
    list_init(&s->shares);
    list_init(&s->grants);
    slots_init(&s->channels, HANDLES_MAX);
    slots_init(&ps->channels, HANDLES_MAX);
    slots_init(&s->rings, HANDLES_MAX);
    slots_init(&s->pools, HANDLES_MAX);
    slots_init(&s->leases, HANDLES_MAX);

    struct call *c = call_prepare_of(ps, CALL_SESSION, add_session, NULL, NULL);
    *call_session(c) = (struct call_session){.user = user, .share = account->share};
    call_post(c);
    return ps;
}

const struct plane_session_stats *plane_session_stats(const struct plane_session *s) {
    return &s->op.stats;
}

void plane_session_latency(const struct plane_session *s, struct histogram *to) {
    histogram_sum(to, &s->op.tally.latency);
}

void plane_session_tally(const struct plane_session *s, struct plane_tally *out) {
    out->latency = (struct histogram){0};
    plane_session_latency(s, &out->latency);
    plane_session_by_status(s, out->failed);
}

void plane_session_by_status(const struct plane_session *s, uint64_t failed[PLANE_CODES]) {
    for (unsigned code = 0; code < PLANE_CODES; code++)
        failed[code] = __atomic_load_n(&s->op.tally.failed[code], __ATOMIC_RELAXED);
}

unsigned plane_session_failures(const struct plane_session *s,
                                struct plane_failure out[PLANE_FAILURES]) {
    return tally_failures_read(&s->op, out);
}

void plane_session_failed(const struct plane_session *s, uint64_t out[PLANE_CODES]) {
    for (unsigned code = 0; code < PLANE_CODES; code++)
        out[code] = __atomic_load_n(&s->op.failed[code], __ATOMIC_ACQUIRE);
}

void plane_session_hear_failures(struct plane_session *s) {
    tally_hear_failures(&s->op);
}

unsigned plane_worker_of_session(const struct plane_session *s) {
    return s->worker->index;
}

/* ---- pause ------------------------------------------------------------------------------- */

static void pause_session(struct call *c) {
    struct op_session *s = &c->session->op;
    if (call_session(c)->pause)
        rings_pause(s);
    else
        rings_resume(c->worker, s);
    call_finish(c);
}

void plane_session_pause(struct plane_session *s, bool pause, plane_done *done, void *arg) {
    struct call *c = call_prepare_of(s, CALL_SESSION, pause_session, done, arg);
    *call_session(c) = (struct call_session){.pause = pause};
    call_post(c);
}

/* ---- alive ------------------------------------------------------------------------------- */

static void ask_alive(struct call *c) {
    struct op_session *s = &c->session->op;
    uint32_t cursor = 0;
    uint64_t handle;
    bool alive = false;
    for (struct op_ring *r; (r = slots_next(&s->rings, &cursor, &handle));)
        alive |= ring_ask_alive(r->ring);
    if (alive)
        call_finish(c);
    else
        call_fail(c, RDMAD_E_AGAIN, "no sign of life");
}

void plane_session_ask_alive(struct plane_session *s, plane_done *done, void *arg) {
    call_post(call_prepare_of(s, CALL_SESSION, ask_alive, done, arg));
}

/* ---- end --------------------------------------------------------------------------------- */

/* Its rings are not looked at any more. */
static void shut_out(struct op_session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    s->shut = true;
    for (struct op_ring *r; (r = slots_next(&s->rings, &cursor, &handle));)
        rings_forget(r);
}

static bool session_is_gone(struct call *c) {
    struct worker *w = c->worker;
    struct op_session *s = &c->session->op;
    if (!ends_session(s, RDMAD_E_CANCELED) || !channels_session_settled(s) ||
        !grants_session_gone(w, s))
        return false;

    /* Earlier calls of the session still look at what is freed below. What they wait for may have
     * ended only just now, after they were asked. They are answered next turn, and then this. */
    if (s->calls > 1) {
        w->ends_left = true;
        return false;
    }
    tally_settle_now(w);
    channels_session_gone(w, s);
    slots_fini(&s->channels);
    session_rings_free(w, s);
    session_pools_free(w, s);
    session_leases_free(w, s);
    assert(s->inflight == 0 && s->waits == 0 && list_empty(&s->own) && list_empty(&s->shares));
    list_remove(&s->node);
    list_remove(&s->violated_node);
    list_remove(&s->untaken_node);
    list_remove(&s->hot_node);
    list_remove(&s->still_node);
    user_leave(s->user);
    account_return(s);
    c->left = s->account;
    c->left_ns = w->now_ns;
    c->garbage = c->session;
    return true;
}

static void drop_session(struct call *c) {
    struct op_session *s = &c->session->op;
    shut_out(s);
    channels_session_end(s);
    ends_doom_session(s);
    call_wait(c, session_is_gone);
}

void plane_session_drop(struct plane_session *s, plane_done *done, void *arg) {
    assert(!s->dropped);
    s->dropped = true;
    slots_fini(&s->channels);
    s->plane->sessions[s->worker->index]--;
    call_post(call_prepare_of(s, CALL_SESSION, drop_session, done, arg));
}

/* ---- those that broke a rule ------------------------------------------------------------- */

static void tell_violated(struct mail *mail) {
    struct op_session *s = container_of(mail, struct op_session, violated_mail);
    const struct plane_session *ps = container_of(s, struct plane_session, op);
    const struct plane_events *events = &ps->plane->events;
    if (!ps->dropped)
        events->session_violated(events->user, s->cookie, &s->violated_why);
}

void sessions_shut_violated(struct worker *w) {
    for (struct list *pos; (pos = list_pop(&w->violated));) {
        struct op_session *s = list_entry(pos, struct op_session, violated_node);
        shut_out(s);
        mailbox_post(w->control, &s->violated_mail, tell_violated);
    }
}
