/* SPDX-License-Identifier: MIT */
/*
 * call.h - one call under way, and the table of what may be called. Internal to ctl/.
 *
 * A handler answers its call exactly once, now or later, with ctl_reply or ctl_fail; the call is
 * gone then. The connection may be gone long before: the answer is dropped.
 */
#ifndef RDMAD_CTL_CALL_H
#define RDMAD_CTL_CALL_H

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/rpc.h"

struct ctl_call;

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

typedef const struct ctl_method *ctl_find(const char *name); /* NULL: no such method */

/* ctl_new with any table of methods. */
int ctl_listen(struct state *st, int activated_fd, ctl_find *find, struct ctl **out,
               struct error *err);

/* A list is cut at this many rows; the answer then has "truncated": true. */
#define CTL_MAX_ROWS 16384u

ctl_handler ctl_status, ctl_config_show;                     /* status.c */
ctl_handler ctl_session_show, ctl_pool_show, ctl_lease_show; /* show.c */
ctl_handler ctl_peer_show, ctl_link_show;                    /* show.c */
ctl_handler ctl_channel_show, ctl_service_show;              /* show_channel.c */
ctl_handler ctl_device_show;                                 /* device.c */
ctl_handler ctl_lease_revoke, ctl_peer_add, ctl_reload;      /* act.c */
ctl_handler ctl_metrics;                                     /* metrics.c */

/* What status and metrics both tell, gathered once. */
struct ctl_totals {
    struct {
        uint64_t sessions, pools, pool_bytes, rings, leases, attaches, services, channels;
        uint64_t peers, links, lanes_in;
        uint64_t ops_inflight, fds;
    } objects;
    struct channel_totals messages; /* of all channels there ever were */
    uint64_t open_fds;              /* objects.fds and the connections to control.sock */
    uint64_t rss_bytes;
    double uptime_s;
};
struct plane_counters;
/* totals.c. On the way of a handler: who asks how many descriptors are open is not counted. */
void ctl_totals(const struct ctl_call *call, struct ctl_totals *out, struct plane_counters *plane);

#endif
