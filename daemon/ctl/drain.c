/* SPDX-License-Identifier: MIT */
/*
 * drain.c - nothing new is taken, and what still holds the daemon.
 */
#include "daemon/state/drain.h"
#include "daemon/ctl/handlers.h"
#include "daemon/peer/peer.h"
#include "daemon/state/origin.h"

/* Of those that have ops in flight: more would say no more. */
#define HOLDERS_TOLD 16u

struct drained {
    json_int_t sessions, ending, ops, attached;
    json_t *holders;
};

static void drained_add(struct drained *d, const struct session *s) {
    json_int_t ops = (json_int_t)drain_ops(s);
    bool outlives = origin_is_set(s);
    if (s->closing)
        return;
    d->sessions++;
    d->ending += !outlives;
    d->ops += ops;
    if (ops && json_array_size(d->holders) < HOLDERS_TOLD)
        json_array_append_new(d->holders,
                              json_pack("{s:I, s:I, s:I, s:s, s:I}", "id", (json_int_t)s->id, "uid",
                                        (json_int_t)s->uid, "pid", (json_int_t)s->pid, "name",
                                        s->name, "ops_inflight", ops));
}

static void drained_add_peer(void *arg, const struct peer_view *v) {
    struct drained *d = arg;
    if (v->direction[0] == 'i')
        d->attached += (json_int_t)v->attachments;
}

static void drain_reply(struct ctl_call *call) {
    const struct state *st = ctl_state(call);
    struct drained d = {.holders = json_array()};
    list_for_each (node, &st->sessions)
        drained_add(&d, list_entry(node, struct session, node));
    peers_view(st->peers, drained_add_peer, &d);
    ctl_reply(call, json_pack("{s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:o}", "draining", st->draining,
                              "done", st->draining && drain_settled(st) && !d.ops, "life",
                              (json_int_t)st->life.number, "ops_inflight", d.ops, "sessions",
                              d.sessions, "sessions_ending", d.ending, "attached_by_peers",
                              d.attached, "holders", d.holders));
}

/* Answered when it has begun; drain.show says how far it is. */
void ctl_drain(struct ctl_call *call, const json_t *params) {
    struct state *st = ctl_state(call);
    uid_t uid = ctl_caller(call)->who.uid;
    struct error why;
    if (st->stopping) {
        error_set(&why, RDMAD_E_SHUTDOWN, "rdmad is stopping");
        ctl_fail(call, &why);
        return;
    }
    if (rpc_bool(params, "off"))
        drain_end(st, uid);
    else
        drain_begin(st, uid);
    drain_reply(call);
}

void ctl_drain_show(struct ctl_call *call, const json_t *params) {
    (void)params;
    drain_reply(call);
}
