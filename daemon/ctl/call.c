/* SPDX-License-Identifier: MIT */
/*
 * call.c - a call from the line that asks to the line that answers.
 */
#include "daemon/ctl/call.h"
#include "daemon/base/audit.h"
#include "daemon/ctl/call_words.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct ctl_call {
    struct ctl_calls *calls; /* NULL once the connection is gone */
    struct list node;        /* in calls->list */
    struct state *state;
    const struct ctl_method *method;
    json_t *id;    /* NULL: a notification */
    bool told_act; /* the audit was told of it */
};

struct ctl_call *ctl_call_new(struct ctl_calls *calls, json_t *id,
                              const struct ctl_method *method) {
    struct ctl_call *call = calloc(1, sizeof(*call));
    if (!call)
        return NULL;
    call->calls = calls;
    call->state = calls->state;
    call->method = method;
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
bool ctl_is_caller(const struct ctl_call *call, uid_t uid, uint32_t tenant) {
    return uid == ctl_caller(call)->who.uid && !tenant;
}

bool ctl_sees_user(const struct ctl_call *call, uid_t uid, uint32_t tenant) {
    return ctl_sees_all(call) || ctl_is_caller(call, uid, tenant);
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
    assert(call->told_act || !ctl_right_acts(call->method->right));
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

static struct audit_who who_calls(const struct ctl_call *call) {
    const struct ctl_caller *caller = ctl_caller(call);
    return audit_user(caller->who.uid, caller->pid);
}

void ctl_refuse(struct ctl_call *call, struct audit_object object, const struct error *why) {
    AUDIT(REFUSED, "permission", who_calls(call), object, ("%s", why->text));
    ctl_fail(call, why);
}

bool ctl_right_acts(enum ctl_right right) {
    return right == CTL_ACT || right == CTL_ACT_OWN || right == CTL_ACT_MORE;
}

void ctl_tell_act(struct ctl_call *call, const json_t *params) {
    const char *method = call->method->name;
    struct audit_object object = audit_nothing();
    char words[CALL_WORDS];
    if (!strncmp(method, "lease.", 6))
        object = audit_object("lease", rpc_uint(params, "id"));
    else if (!strncmp(method, "session.", 8))
        object = audit_object("session", rpc_uint(params, "id"));
    AUDIT(ADMIN, method, who_calls(call), object,
          ("uid %u %s", (unsigned)ctl_caller(call)->who.uid, call_words(method, params, words)));
    call->told_act = true;
}

void ctl_calls_drop(struct ctl_calls *calls) {
    struct list *node;
    if (calls->hold)
        calls->hold->gone(calls->hold);
    calls->hold = NULL;
    while ((node = list_pop(&calls->list)))
        list_entry(node, struct ctl_call, node)->calls = NULL;
}
