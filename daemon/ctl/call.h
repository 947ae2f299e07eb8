/* SPDX-License-Identifier: MIT */
/*
 * call.h - one call under way, and what a method is. Internal to ctl/.
 *
 * A handler answers its call exactly once, now or later, with ctl_reply or ctl_fail; the call is
 * gone then. The connection may be gone long before: the answer is dropped.
 */
#ifndef RDMAD_CTL_CALL_H
#define RDMAD_CTL_CALL_H

#include "daemon/base/list.h"
#include "daemon/ctl/rpc.h"

struct ctl_call;
struct state;

struct state *ctl_state(const struct ctl_call *call);
/* Connections to control.sock; only while the handler has not returned. */
unsigned ctl_conns(const struct ctl_call *call);
/* Takes over result; NULL is answered as out of memory. */
void ctl_reply(struct ctl_call *call, json_t *result);
void ctl_fail(struct ctl_call *call, const struct error *why);

/* params have been checked against the method's list. */
typedef void ctl_handler(struct ctl_call *call, const json_t *params);

struct ctl_method {
    const char *name;
    ctl_handler *handler;
    const struct rpc_param *params;
    bool mutating; /* for uid 0 and the daemon's own uid only */
};

/* ---- for the connection -------------------------------------------------------------------- */

/* The calls of one connection that are not answered yet. */
struct ctl_calls {
    struct list list;
    unsigned count;
    struct state *state;
    const unsigned *conns;
    /* One of them was answered and is freed. The callee frees line; NULL: there is none to send.
     * The handler that answered may still be on the stack. */
    void (*answered)(struct ctl_calls *calls, char *line);
};

/* NULL: out of memory. id NULL: a notification, which gets no line. */
struct ctl_call *ctl_call_new(struct ctl_calls *calls, json_t *id);
/* The connection is gone, and the struct ctl_calls with it. */
void ctl_calls_drop(struct ctl_calls *calls);

#endif
