/* SPDX-License-Identifier: MIT */
/*
 * call.c - mails there and back.
 *
 * The reserve is filled when the plane is made and refilled by every call that ends; only when a
 * hundred calls are under way at once while malloc fails does the daemon give up.
 */
#include "daemon/op/seam/call.h"
#include "daemon/base/log.h"
#include "daemon/op/engine/user.h"
#include <stdlib.h>

#define RESERVE_CALLS 100

bool calls_reserve(struct plane *p) {
    list_init(&p->reserve);
    for (int i = 0; i < RESERVE_CALLS; i++) {
        struct call *c = malloc(sizeof(*c));
        if (!c)
            return false;
        list_append(&p->reserve, &c->node);
    }
    return true;
}

void calls_reserve_free(struct plane *p) {
    assert(p->reserve_used == 0);
    for (struct list *pos; (pos = list_pop(&p->reserve));)
        free(list_entry(pos, struct call, node));
}

static void deliver_answer(struct mail *mail) {
    struct call *c = container_of(mail, struct call, mail);
    const struct error *result = &c->result;
    bool last = list_empty(&c->group);
    list_remove(&c->group);
    if (c->done && last)
        c->done(c->arg, result);
    if (c->blob_done)
        c->blob_done(c->arg, result, &c->blob);
    free(c->garbage);
    account_leave(&c->plane->idle_accounts, c->left, c->left_ns);
    if (c->plane->reserve_used) {
        c->plane->reserve_used--;
        list_append(&c->plane->reserve, &c->node);
    } else {
        free(c);
    }
}

/* Others do these: the lease's owner, or a link that is back. */
static bool is_by_its_session(enum call_kind kind) {
    return kind != CALL_LEASE_EXTEND && kind != CALL_LEASE_KEY && kind != CALL_CHANNEL_REST &&
           kind != CALL_CHANNEL_WAY;
}

static void deliver_call(struct mail *mail) {
    struct call *c = container_of(mail, struct call, mail);
    if (c->session && c->session->op.user && is_by_its_session(c->kind))
        user_spend_beside(c->session->op.user, USER_CALL_COST);
    c->apply(c);
}

struct call *call_prepare(struct plane *p, struct worker *w, enum call_kind kind,
                          void (*apply)(struct call *), plane_done *done, void *arg) {
    struct call *c = malloc(sizeof(*c));
    if (!c && !list_empty(&p->reserve)) {
        c = list_entry(list_pop(&p->reserve), struct call, node);
        p->reserve_used++;
    }
    if (!c) {
        LOG(CRIT, ("out of memory, and the reserve of calls to the data plane is used up"));
        abort();
    }
    *c = (struct call){
        .plane = p, .worker = w, .kind = kind, .apply = apply, .done = done, .arg = arg};
    list_init(&c->node);
    list_init(&c->group);
    return c;
}

struct call *call_prepare_of(struct plane_session *s, enum call_kind kind,
                             void (*apply)(struct call *), plane_done *done, void *arg) {
    assert(kind <= CALL_CHANNEL_END);
    struct call *c = call_prepare(s->plane, s->worker, kind, apply, done, arg);
    c->session = s;
    return c;
}

void call_post(struct call *c) {
    mailbox_post(&c->worker->mailbox, &c->mail, deliver_call);
}

void call_refuse(struct call *c, int code, const char *why) {
    error_set(&c->result, code, "%s", why);
    mailbox_post(c->plane->control, &c->mail, deliver_answer);
}

void call_finish(struct call *c) {
    assert(list_empty(&c->node)); /* it does not wait (any more) */
    mailbox_post(c->worker->control, &c->mail, deliver_answer);
}

void call_fail(struct call *c, int code, const char *why) {
    error_set(&c->result, code, "%s", why);
    call_finish(c);
}

/* c waits behind the calls of its session that wait already, because they may still look at what c
 * frees: the drop of a ring does, if the drop of its session follows. Calls of other sessions do
 * not matter. */
void call_wait(struct call *c, bool (*settled)(struct call *c)) {
    assert(c->session && list_empty(&c->node));
    c->settled = settled;
    if (!c->session->op.calls && settled(c)) {
        call_finish(c);
        return;
    }
    c->session->op.calls++;
    list_append(&c->worker->waiting, &c->node);
}

void calls_settle(struct worker *w) {
    list_for_each_safe (pos, &w->waiting) {
        struct call *c = list_entry(pos, struct call, node);
        if (!c->settled(c))
            continue;
        list_remove(&c->node);
        assert(c->session->op.calls > 0);
        c->session->op.calls--;
        call_finish(c);
    }
}
