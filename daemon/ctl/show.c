/* SPDX-License-Identifier: MIT */
/*
 * show.c - the lists. Each answers {"<noun>s": [rows]}, cut at CTL_MAX_ROWS rows with "truncated":
 * true. Secrets of leases and addresses of memory are never in a row.
 *
 * Channels and services are show_channel.c's, users show_user.c's, devices device.c's.
 */
#include "common/errors.h"
#include "daemon/ctl/handlers.h"
#include "daemon/ctl/rows.h"
#include "daemon/ctl/tally_json.h"
#include "daemon/peer/peer.h"
#include "daemon/plane/plane.h"
#include "daemon/state/lease.h"
#include "daemon/state/origin.h"
#include "daemon/state/pause.h"
#include "daemon/state/pool.h"
#include "daemon/state/ring_object.h"
#include <stdio.h>

/* "keep-alive,renewable", what it was made of, for whom; "" when there is nothing to say. */
static void lease_made(const struct lease_view *v, json_t *row) {
    bool keep = v->flags & RDMAD_LEASE_KEEP_ALIVE, may = v->flags & RDMAD_LEASE_RENEWABLE;
    json_object_set_new(row, "flags",
                        json_string(keep && may ? "keep-alive,renewable"
                                    : keep      ? "keep-alive"
                                    : may       ? "renewable"
                                                : ""));
    if (v->parent)
        json_object_set_new(row, "part_of", json_integer((json_int_t)v->parent));
    json_object_set_new(row, "requested", json_boolean(v->requested));
}

static const char *session_state(const struct session *s) {
    return s->closing ? "closing" : session_paused(s) ? "paused" : "open";
}

/* What its program has submitted and nobody has taken yet. */
static void add_unread(const struct session *s, json_t *row) {
    uint64_t unread = s->plane ? ring_objects_unread(s) : 0;
    json_object_set_new(row, "ops_in_rings", json_integer((json_int_t)unread));
}

static void add_pause(const struct session *s, json_t *row, uint64_t now_ns) {
    const struct session_pause *p = session_paused(s);
    json_object_set_new(row, "paused_by", p ? json_integer((json_int_t)p->uid) : json_null());
    json_object_set_new(row, "paused_why", rows_text(p ? p->why : ""));
    json_object_set_new(row, "paused_s",
                        p ? json_real(rows_seconds(now_ns - p->since_ns)) : json_null());
}

static void add_origin(const struct session *s, json_t *row) {
    json_object_set_new(row, "resumable", json_boolean(origin_is_set(s)));
    json_object_set_new(row, "resumed", json_boolean(s->origin.resumed));
}

/* Only for whoever asks: a plain answer does not grow by them. */
static void add_buckets(const struct histogram *latency, json_t *row, struct rows *rows) {
    if (rows->buckets)
        json_object_set_new(row, "lat_buckets", tally_buckets(latency, &rows->buckets_told));
}

static void add_tally(const struct session *s, json_t *row, struct rows *rows) {
    struct plane_tally tally = {0};
    if (s->plane && !s->closing)
        plane_session_tally(s->plane, &tally);
    json_object_set_new(row, "lat_us", tally_spans(&tally.latency));
    add_buckets(&tally.latency, row, rows);
    json_object_set_new(row, "failures", tally_failures(tally.failed));
}

static json_t *session_row(const struct session *s, uint64_t now_ns) {
    struct plane_session_stats stats = {0};
    if (s->plane && !s->closing)
        stats = plane_session_stats_now(s->plane);
    const uint64_t *used = s->account.used;
    return json_pack(
        "{s:I, s:o, s:I, s:I, s:i, s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:I, s:I, s:I}",
        "id", (json_int_t)s->id, "name", rows_text(s->name), "uid", (json_int_t)s->uid, "gid",
        (json_int_t)s->gid, "pid", (int)s->pid, "state", session_state(s), "age_s",
        rows_seconds(now_ns - s->since_ns), "pools", (json_int_t)used[QUOTA_POOLS], "bytes",
        (json_int_t)used[QUOTA_BYTES], "rings", (json_int_t)used[QUOTA_RINGS], "leases",
        (json_int_t)used[QUOTA_LEASES], "attaches", (json_int_t)used[QUOTA_ATTACHES], "services",
        (json_int_t)used[QUOTA_SERVICES], "channels", (json_int_t)used[QUOTA_CHANNELS], "ops",
        (json_int_t)stats.ops, "ops_inflight", (json_int_t)stats.ops_inflight, "ops_failed",
        (json_int_t)stats.ops_failed, "bytes_read", (json_int_t)stats.bytes_read, "bytes_written",
        (json_int_t)stats.bytes_written);
}

void ctl_session_show(struct ctl_call *call, const json_t *params) {
    struct rows rows = rows_new();
    rows.buckets = rpc_bool(params, "buckets");
    list_for_each (node, &ctl_state(call)->sessions) {
        if (rows_full(&rows))
            break;
        const struct session *s = list_entry(node, struct session, node);
        if (!ctl_sees(call, s))
            continue;
        json_t *row = session_row(s, rows.now_ns);
        json_object_set_new(row, "tenant", rows_tenant(s->state, s->tenant));
        rows_share(s->state, session_user_id(s), row);
        add_unread(s, row);
        add_pause(s, row, rows.now_ns);
        add_origin(s, row);
        add_tally(s, row, &rows);
        json_array_append_new(rows.list, row);
    }
    rows_reply(call, &rows, "sessions");
}

void ctl_pool_show(struct ctl_call *call, const json_t *params) {
    (void)params;
    struct rows rows = rows_new();
    list_for_each (node, &ctl_state(call)->sessions) {
        const struct session *s = list_entry(node, struct session, node);
        const struct pool *p;
        uint32_t cursor = 0;
        uint64_t handle;
        if (!ctl_sees(call, s))
            continue;
        while ((p = slots_next(&s->pools, &cursor, &handle)) && !rows_full(&rows))
            json_array_append_new(
                rows.list,
                json_pack("{s:I, s:I, s:I, s:o, s:I, s:o, s:I, s:b, s:i}", "id", (json_int_t)handle,
                          "number", (json_int_t)(uint32_t)handle + 1, "session", (json_int_t)s->id,
                          "name", rows_text(s->name), "uid", (json_int_t)s->uid, "tenant",
                          rows_tenant(s->state, s->tenant), "bytes", (json_int_t)p->bytes,
                          "hugetlb", (p->flags & RDMAD_POOL_HUGETLB) != 0, "leases",
                          (int)p->leases));
    }
    rows_reply(call, &rows, "pools");
}

static json_t *audit_row(const struct lease_view *v, uint64_t now_ns) {
    const struct fabric_audit *a = &v->audit;
    return json_pack("{s:I, s:I, s:I, s:I, s:o}", "bytes_read", (json_int_t)a->bytes_read,
                     "bytes_written", (json_int_t)a->bytes_written, "ops", (json_int_t)a->ops,
                     "refused", (json_int_t)a->refused, "idle_s",
                     a->last_use_ns ? json_real(rows_seconds(clock_left(a->last_use_ns, now_ns)))
                                    : json_null());
}

/* Not ours: nothing here adds it to the audit. */
static json_t *said_row(const struct lease_said *s) {
    return json_pack("{s:I, s:I, s:I}", "bytes_read", (json_int_t)s->bytes_read, "bytes_written",
                     (json_int_t)s->bytes_written, "ops", (json_int_t)s->ops);
}

/* By what a remote lessee is kept to the range. */
static const char *protection(const struct plane *p) {
    const struct fabric_ops *fabric = plane_fabric(p, 0);
    return fabric->protection ? fabric->protection(plane_fabric_host(p, 0)) : "software";
}

#define HOLDERS_MAX 64u /* of a lease; the number of all is "attached" */

/* Who is attached, and a sum of them in words. */
static void add_holders(const struct lease *l, json_t *row, uint64_t now_ns) {
    json_t *list = json_array();
    char words[64] = "";
    size_t used = 0;
    for (struct list *node = l ? l->attachments.next : NULL;
         node && node != &l->attachments && json_array_size(list) < HOLDERS_MAX;
         node = node->next) {
        const struct attachment *a = list_entry(node, struct attachment, node);
        struct lease_holder h;
        if (!a->ops->who)
            continue;
        a->ops->who(a, &h);
        json_array_append_new(
            list,
            json_pack("{s:o, s:o, s:o, s:o, s:f}", "session",
                      h.session ? json_integer((json_int_t)h.session) : json_null(), "peer",
                      h.peer ? json_integer((json_int_t)h.peer) : json_null(), "uid",
                      h.uid_known ? json_integer((json_int_t)h.uid) : json_null(), "name",
                      rows_text(h.name), "since_s", rows_seconds(clock_left(a->since_ns, now_ns))));
        if (used < sizeof(words))
            used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s%s", used ? "," : "",
                                     h.session ? "" : "@", h.name);
    }
    json_object_set_new(row, "holders", list);
    json_object_set_new(row, "held_by", rows_text(words));
}

static bool lease_wanted(void *arg, const struct lease_view *v) {
    struct rows *rows = arg;
    return ctl_sees_user(rows->call, v->owner_uid, v->owner_tenant) && !rows_full(rows);
}

static void each_lease(void *arg, const struct lease_view *v) {
    struct rows *rows = arg;
    json_t *row = json_pack(
        "{s:I, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:s, s:f, s:I, s:I, s:o}", "id",
        (json_int_t)v->id, "name", rows_text(v->name), "state", v->reason ? "ended" : "live",
        "session", (json_int_t)v->owner_session, "uid", (json_int_t)v->owner_uid, "pool",
        (json_int_t)v->pool, "offset", (json_int_t)v->offset, "length", (json_int_t)v->length,
        "rights", rows_rights(v->rights, "-"), "scope", rows_scope(v->scope), "ttl_s",
        rows_seconds(v->ttl_ns), "attached", (json_int_t)v->attached, "attached_total",
        (json_int_t)v->attached_total, "audit", audit_row(v, rows->now_ns));
    json_object_set_new(row, "tenant", rows_tenant(rows->state, v->owner_tenant));
    lease_made(v, row);
    add_holders(v->lease, row, rows->now_ns);
    json_object_set_new(row, "lessees_daemons_say", said_row(&v->said));
    json_object_set_new(row, "protection", json_string(rows->protection));
    if (v->reason) {
        json_object_set_new(row, "reason", json_string(rdmad_error_name(v->reason)));
        json_object_set_new(row, "ended_ago_s", json_real(rows_seconds(v->ended_ago_ns)));
    }
    json_array_append_new(rows->list, row);
}

void ctl_lease_show(struct ctl_call *call, const json_t *params) {
    struct rows rows = rows_new();
    rows.protection = protection(ctl_state(call)->plane);
    rows.state = ctl_state(call);
    rows.call = call;
    leases_view(ctl_state(call)->leases, rpc_bool(params, "all"), lease_wanted, each_lease, &rows);
    rows_reply(call, &rows, "leases");
}

static void each_peer(void *arg, const struct peer_view *v) {
    struct rows *rows = arg;
    if (rows_full(rows))
        return;
    json_t *row = json_pack("{s:I, s:s, s:s, s:o, s:o, s:s, s:o, s:I, s:I, s:f}", "id",
                            (json_int_t)v->id, "direction", v->direction, "state", v->state,
                            "address", rows_text(v->address), "node", rows_text(v->node), "fabric",
                            v->fabric, "fabric_why", rows_text(v->fabric_why), "attaches",
                            (json_int_t)v->attachments, "channels", (json_int_t)v->channels,
                            "age_s", rows_seconds(clock_left(v->since_ns, rows->now_ns)));
    json_object_set_new(row, "protocol", json_integer(v->protocol));
    json_object_set_new(row, "proven", json_boolean(v->fingerprint));
    json_object_set_new(row, "secured", json_string(v->fingerprint ? "tls" : "no"));
    json_object_set_new(row, "failures", json_object()); /* of its links; add_failures */
    if (v->fingerprint) {
        json_object_set_new(row, "fingerprint", json_string(v->fingerprint));
        json_object_set_new(row, "not_after", json_integer((json_int_t)v->not_after));
    }
    json_array_append_new(rows->list, row);
}

struct peer_rows {
    const json_t *list;
    size_t at; /* links come in the order of their peers */
};

static void add_failures(void *arg, const struct link_view *v) {
    struct peer_rows *rows = arg;
    struct plane_lane_stats stats;
    json_t *row;
    while ((row = json_array_get(rows->list, rows->at)) &&
           json_integer_value(json_object_get(row, "id")) != (json_int_t)v->peer)
        rows->at++;
    if (!row || !v->lane)
        return;
    plane_lane_stats(v->lane, &stats);
    tally_failures_add(json_object_get(row, "failures"), stats.failed);
}

void ctl_peer_show(struct ctl_call *call, const json_t *params) {
    (void)params;
    struct rows rows = rows_new();
    peers_view(ctl_state(call)->peers, each_peer, &rows);
    struct peer_rows found = {.list = rows.list};
    links_view(ctl_state(call)->peers, add_failures, &found);
    rows_reply(call, &rows, "peers");
}

/* What the worker saw last of its network is told, and it is asked to look again. */
static void add_lane(const struct link_view *v, json_t *row, struct rows *rows) {
    struct plane_lane_stats stats = {0};
    if (v->lane)
        plane_lane_stats(v->lane, &stats);
    json_object_set_new(row, "ops", json_integer((json_int_t)stats.ops));
    json_object_set_new(row, "ops_inflight", json_integer((json_int_t)stats.ops_inflight));
    json_object_set_new(row, "ops_failed", json_integer((json_int_t)stats.ops_failed));
    json_object_set_new(row, "bytes_read", json_integer((json_int_t)stats.bytes_read));
    json_object_set_new(row, "failures", tally_failures(stats.failed));
    json_object_set_new(row, "bytes_written", json_integer((json_int_t)stats.bytes_written));
    json_object_set_new(row, "lat_us", tally_spans(&stats.latency));
    add_buckets(&stats.latency, row, rows);
    const bool known = stats.looked_ns;
    json_object_set_new(row, "rtt_us", known ? json_real((double)stats.rtt_ns / 1e3) : json_null());
    json_object_set_new(row, "bytes_per_second",
                        known ? json_integer((json_int_t)stats.bytes_per_second) : json_null());
    json_object_set_new(row, "retransmits", json_integer((json_int_t)stats.retransmits));
    json_object_set_new(row, "looked_ago_s",
                        known ? json_real(rows_seconds(clock_left(stats.looked_ns, rows->now_ns)))
                              : json_null());
    if (v->lane)
        plane_lane_look(v->lane); /* for whoever asks again */
}

static void each_link(void *arg, const struct link_view *v) {
    struct rows *rows = arg;
    if (rows_full(rows))
        return;
    json_t *row = json_pack(
        "{s:I, s:i, s:I, s:s, s:s, s:s, s:I, s:I, s:f, s:I, s:o}", "peer", (json_int_t)v->peer,
        "worker", (int)v->worker, "session", (json_int_t)v->session, "fabric", v->fabric, "state",
        v->state, "encryption", v->encryption, "handles", (json_int_t)v->handles, "channels",
        (json_int_t)v->channels, "quiesce_s", rows_seconds(v->quiesce_ns), "rebuilds",
        (json_int_t)v->rebuilds, "last_error", rows_text(v->last_error));
    json_object_set_new(row, "node", rows_text(v->node));
    json_object_set_new(row, "address", rows_text(v->address));
    json_object_set_new(row, "last_error_ago_s",
                        v->last_error[0]
                            ? json_real(rows_seconds(clock_left(v->last_error_ns, rows->now_ns)))
                            : json_null());
    add_lane(v, row, rows);
    json_array_append_new(rows->list, row);
}

void ctl_link_show(struct ctl_call *call, const json_t *params) {
    struct rows rows = rows_new();
    rows.buckets = rpc_bool(params, "buckets");
    links_view(ctl_state(call)->peers, each_link, &rows);
    rows_reply(call, &rows, "links");
}
