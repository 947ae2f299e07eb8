/* SPDX-License-Identifier: MIT */
/*
 * call.c - a call from the line that asks to the line that answers.
 */
#include "daemon/ctl/call.h"
#include <assert.h>
#include <stdlib.h>

struct ctl_call {
    struct ctl_calls *calls; /* NULL once the connection is gone */
    struct list node;        /* in calls->list */
    struct state *state;
    json_t *id; /* NULL: a notification */
};

struct ctl_call *ctl_call_new(struct ctl_calls *calls, json_t *id) {
    struct ctl_call *call = calloc(1, sizeof(*call));
    if (!call)
        return NULL;
    call->calls = calls;
    call->state = calls->state;
    call->id = id ? json_incref(id) : NULL;
    list_append(&calls->list, &call->node);
    calls->count++;
    return call;
}

static void call_end(struct ctl_call *call, char *line) {
    struct ctl_calls *calls = call->calls;
    bool due = call->id != NULL;
    if (!calls || !due) {
        free(line);
        line = NULL;
    }
    list_remove(&call->node);
    json_decref(call->id);
    free(call);
    if (!calls)
        return;
    assert(calls->count);
    calls->count--;
    calls->answered(calls, line, due);
}

unsigned ctl_conns(const struct ctl_call *call) {
    assert(call->calls);
    return *call->calls->conns;
}

const struct ctl_caller *ctl_caller(const struct ctl_call *call) {
    assert(call->calls);
    return call->calls->caller;
}

bool ctl_sees_all(const struct ctl_call *call) {
    return policy_admin(&ctl_caller(call)->policy) >= ADMIN_ALL;
}

bool ctl_may_act(const struct ctl_call *call) {
    return policy_admin(&ctl_caller(call)->policy) >= ADMIN_ACT;
}

/* A tenant's user is another one than who has the same uid on the machine itself. */
bool ctl_sees_user(const struct ctl_call *call, uid_t uid, uint32_t tenant) {
    return ctl_sees_all(call) || (uid == ctl_caller(call)->who.uid && !tenant);
}

bool ctl_sees(const struct ctl_call *call, const struct session *s) {
    return ctl_sees_user(call, s->uid, s->tenant);
}

struct ctl_hold *ctl_held(const struct ctl_call *call) {
    assert(call->calls);
    return call->calls->hold;
}

void ctl_hold(struct ctl_call *call, struct ctl_hold *hold) {
    assert(call->calls && (!hold || !call->calls->hold));
    call->calls->hold = hold;
}

struct state *ctl_state(const struct ctl_call *call) {
    return call->state;
}

bool ctl_is_heard(const struct ctl_call *call) {
    return call->calls != NULL;
}

void ctl_reply(struct ctl_call *call, json_t *result) {
    struct error why;
    if (!ctl_is_heard(call)) { /* it need not be printed */
        json_decref(result);
        call_end(call, NULL);
        return;
    }
    if (result) {
        call_end(call, rpc_result(call->id, result));
        return;
    }
    error_set(&why, RDMAD_E_NOMEM, "out of memory while answering");
    call_end(call, rpc_error(call->id, RPC_FAILED, &why));
}

void ctl_fail(struct ctl_call *call, const struct error *why) {
    assert(why && why->code);
    call_end(call, ctl_is_heard(call) ? rpc_error(call->id, RPC_FAILED, why) : NULL);
}

void ctl_calls_drop(struct ctl_calls *calls) {
    struct list *node;
    if (calls->hold)
        calls->hold->gone(calls->hold);
    calls->hold = NULL;
    while ((node = list_pop(&calls->list)))
        list_entry(node, struct ctl_call, node)->calls = NULL;
}
