/* SPDX-License-Identifier: MIT */
/*
 * call.h - one call under way, and what a method is. Internal to ctl/.
 *
 * A handler answers its call exactly once, now or later, with ctl_reply or ctl_fail; the call is
 * gone then. The connection may be gone long before: the answer is dropped.
 */
#ifndef RDMAD_CTL_CALL_H
#define RDMAD_CTL_CALL_H

#include "daemon/base/audit_event.h"
#include "daemon/base/list.h"
#include "daemon/ctl/rpc.h"
#include "daemon/state/session.h"

struct ctl_call;

struct state *ctl_state(const struct ctl_call *call);

/* Who calls, as the kernel says, and what the policy lets it do. */
struct ctl_caller {
    struct policy_who who;
    pid_t pid; /* for finding things: it decides nothing */
    struct user_policy policy;
};
/* Only while the handler has not returned. */
const struct ctl_caller *ctl_caller(const struct ctl_call *call);
bool ctl_is_caller(const struct ctl_call *call, uid_t uid, uint32_t tenant);
/* Whether the caller sees what is of that session's user: its own, or everybody's. */
bool ctl_sees(const struct ctl_call *call, const struct session *s);
bool ctl_sees_user(const struct ctl_call *call, uid_t uid, uint32_t tenant);
bool ctl_sees_all(const struct ctl_call *call);
bool ctl_may_act(const struct ctl_call *call); /* on what is of others */
/* Connections to control.sock; only while the handler has not returned. */
unsigned ctl_conns(const struct ctl_call *call);
/* What a connection has begun that is more than calls, and ends with it: one at a time. gone is
 * called when the connection is. */
struct ctl_hold {
    void (*gone)(struct ctl_hold *hold);
};
/* Both only while the handler has not returned. NULL: there is none, or none any more. */
struct ctl_hold *ctl_held(const struct ctl_call *call);
void ctl_hold(struct ctl_call *call, struct ctl_hold *hold);
/* Whether its connection is still there. */
bool ctl_is_heard(const struct ctl_call *call);
/* Takes over result; NULL is answered as out of memory. Of one that nobody hears it may be NULL. */
void ctl_reply(struct ctl_call *call, json_t *result);
void ctl_fail(struct ctl_call *call, const struct error *why);
/* The same, of what the caller may not do; the audit is told. object: only one that it sees, for it
 * sees that event, too. Only while the handler has not returned. */
void ctl_refuse(struct ctl_call *call, struct audit_object object, const struct error *why);
/* Tells the audit that the caller does what it asks for, before it is done. Only while the handler
 * has not returned. */
void ctl_tell_act(struct ctl_call *call, const json_t *params);

/* params have been checked against the method's list. */
typedef void ctl_handler(struct ctl_call *call, const json_t *params);

/* What a method needs. Of one that acts and whose handler looks whether the caller may, the handler
 * tells the audit then (ctl_tell_act); of the others it has been told. */
enum ctl_right {
    CTL_SHOW,     /* "own": the handler shows no more than the caller sees */
    CTL_ACT,      /* "act" */
    CTL_SHOW_ALL, /* "all": what it shows cannot be told apart by users */
    CTL_ACT_OWN,  /* "own": the handler looks whose it is that is to be changed */
    CTL_ACT_MORE, /* "act", and what else the handler looks for */
};
bool ctl_right_acts(enum ctl_right right);

struct ctl_method {
    const char *name;
    ctl_handler *handler;
    const struct rpc_param *params;
    enum ctl_right right;
};

/* ---- for the connection -------------------------------------------------------------------- */

/* The calls of one connection that are not answered yet. */
struct ctl_calls {
    struct list list;
    unsigned count;
    struct state *state;
    const unsigned *conns;
    const struct ctl_caller *caller;
    struct ctl_hold *hold;
    /* One of them was answered and is freed. The callee frees line; NULL: there is none to send,
     * because none is due or for want of memory. The handler that answered may still be on the
     * stack. */
    void (*answered)(struct ctl_calls *calls, char *line, bool due);
};

/* NULL: out of memory. id NULL: a notification, which gets no line. */
struct ctl_call *ctl_call_new(struct ctl_calls *calls, json_t *id, const struct ctl_method *method);
/* The connection is gone, and the struct ctl_calls with it. */
void ctl_calls_drop(struct ctl_calls *calls);

#endif
