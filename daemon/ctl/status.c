/* SPDX-License-Identifier: MIT */
/*
 * status.c - the daemon about itself. "objects" is all that is alive and nothing else, so that two
 * answers can be compared as a whole: a difference at rest is a leak.
 */
#include "daemon/ctl/handlers.h"
#include "daemon/ctl/metrics_door.h"
#include "daemon/ctl/tally_json.h"
#include "daemon/ctl/totals.h"
#include "daemon/ipc/porter.h"
#include "daemon/peer/peer.h"
#include "daemon/plane/plane.h"
#include "daemon/state/identity.h"
#include "daemon/state/thread_watch.h"
#include "pki/identity.h"
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static json_t *status_number(uint64_t n) {
    return n == UINT64_MAX ? json_null() : json_integer((json_int_t)n);
}

/* Why nothing goes over the best fabric now; null: it does. */
static json_t *status_trouble(const struct state *st) {
    const struct fabric_ops *fabric = plane_fabric(st->plane, 0);
    struct error why;
    if (!fabric->trouble || !fabric->trouble(plane_fabric_host(st->plane, 0), &why))
        return json_null();
    json_t *text = json_string(why.text);
    return text ? text : json_string("?");
}

/* fallback: what peers without the first are offered, and how many of them there are. */
static json_t *status_fabric(const struct state *st) {
    const char *name = plane_fabric(st->plane, 0)->name;
    const struct fabric_ops *other = plane_fabric(st->plane, 1);
    bool rdma = !strcmp(name, "verbs");
    json_t *why = json_string(st->fabric_why);
    return json_pack(
        "{s:s, s:o, s:b, s:s, s:o, s:o, s:i}", "name", name, "trouble", status_trouble(st), "rdma",
        rdma, "text", rdma ? "RDMA verbs" : "RDMA over TCP, no RDMA hardware used", "why",
        why ? why : json_string("?"), "fallback", other ? json_string(other->name) : json_null(),
        "peers_fallen_back", (int)peers_fallen_back(st->peers));
}

static json_t *status_objects(const struct ctl_totals *t) {
    json_t *o = json_object();
    const struct {
        const char *name;
        uint64_t n;
    } rows[] = {
        {"sessions", t->objects.sessions},
        {"pools", t->objects.pools},
        {"pool_bytes", t->objects.pool_bytes},
        {"rings", t->objects.rings},
        {"leases", t->objects.leases},
        {"attaches", t->objects.attaches},
        {"services", t->objects.services},
        {"channels", t->objects.channels},
        {"peers", t->objects.peers},
        {"links", t->objects.links},
        {"lanes_in", t->objects.lanes_in},
        {"lanes_in_encrypted", t->objects.lanes_in_encrypted},
        {"ops_inflight", t->objects.ops_inflight},
        {"fds", t->objects.fds},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        json_object_set_new(o, rows[i].name, status_number(rows[i].n));
    return o;
}

/* used, max: everybody's, or the caller's own. */
static json_t *status_limits(const struct state *st, const struct ctl_totals *t,
                             const uint64_t *used, const struct quota_limits *max) {
    json_t *o = json_object();
    for (unsigned r = 0; r < QUOTA_COUNT; r++)
        json_object_set_new(o, quota_name((enum quota_resource)r),
                            json_pack("{s:o, s:o, s:o, s:o}", "used", status_number(used[r]), "max",
                                      status_number(st->quota.limits.total[r]), "max_uid",
                                      status_number(max->uid[r]), "max_session",
                                      status_number(max->session[r])));
    struct rlimit nofile = {0};
    getrlimit(RLIMIT_NOFILE, &nofile);
    json_object_set_new(o, "peers",
                        json_pack("{s:o, s:o}", "used", status_number(t->objects.peers), "max",
                                  status_number(st->config->max_peers)));
    json_object_set_new(
        o, "fds",
        json_pack("{s:o, s:o}", "used", status_number(t->open_fds), "max",
                  nofile.rlim_cur == RLIM_INFINITY ? json_null() : status_number(nofile.rlim_cur)));
    return o;
}

static json_t *status_traffic(const struct plane_counters *c, const struct channel_totals *m) {
    json_t *o = json_object();
    json_object_set_new(o, "ops", status_number(c->ops));
    json_object_set_new(o, "ops_failed", status_number(c->ops_failed));
    json_object_set_new(o, "bytes_read", status_number(c->bytes_read));
    json_object_set_new(o, "bytes_written", status_number(c->bytes_written));
    json_object_set_new(o, "messages_sent", status_number(m->messages_sent));
    json_object_set_new(o, "messages_received", status_number(m->messages_received));
    json_object_set_new(o, "message_bytes_sent", status_number(m->bytes_sent));
    json_object_set_new(o, "message_bytes_received", status_number(m->bytes_received));
    json_object_set_new(o, "wakeups_sent", status_number(c->wakeups_sent));
    json_object_set_new(o, "sleeps", status_number(c->sleeps));
    return o;
}

/* How ops ended: everybody's by kind and route, too, or the caller's own. */
static void status_tally(const struct ctl_call *call, json_t *answer) {
    const struct state *st = ctl_state(call);
    const bool all = ctl_sees_all(call);
    struct plane_tally tally;
    (all ? ctl_tally : ctl_tally_own)(call, &tally);
    json_object_set_new(answer, "lat_us", tally_spans(&tally.latency));
    json_object_set_new(answer, "failures", tally_failures(tally.failed));
    json_object_set_new(answer, "latency", all ? tally_kinds(st->plane) : json_array());
}

static json_t *status_porter(const struct porter *p) {
    pid_t pid = porter_pid(p);
    return json_pack("{s:o, s:i}", "pid", pid ? json_integer(pid) : json_null(), "restarts",
                     (int)porter_restarts(p));
}

/* Threads that do not answer; none: all is well. */
static json_t *status_silent(const struct state *st) {
    json_t *list = json_array();
    struct thread_watch_row row;
    for (unsigned i = 0; thread_watch_row(st, i, &row); i++)
        if (row.silent)
            json_array_append_new(list,
                                  json_pack("{s:s, s:f, s:b}", "thread", row.thread, "silent_s",
                                            (double)row.silent_ns / 1e9, "hangs", row.hangs));
    return list;
}

/* Who may connect. */
static json_t *status_clients(const struct state *st) {
    const char *group = st->config->socket_group;
    return json_pack("{s:o}", "group", *group ? json_string(group) : json_null());
}

/* Who this node is to others; "name" null: it has no identity. insecure: it talks in clear beyond
 * loopback. */
static json_t *status_identity(const struct state *st) {
    const struct pki_identity *id = identity_of(st);
    char warning[RDMAD_TEXT_MAX + 1];
    json_t *o =
        json_pack("{s:s, s:b, s:s}", "dir", identity_dir(st), "insecure",
                  !id && st->config->peer_insecure, "warning", identity_warning(st, warning));
    if (!o)
        return json_null();
    json_object_set_new(o, "name", id ? json_string(id->name) : json_null());
    if (id) {
        json_object_set_new(o, "fingerprint", json_string(id->fingerprint));
        json_object_set_new(o, "not_before", json_integer((json_int_t)id->not_before));
        json_object_set_new(o, "not_after", json_integer((json_int_t)id->not_after));
        json_object_set_new(o, "has_ca", json_boolean(id->is_ca));
    }
    return o;
}

/* null: this life has followed no other in the same process. */
static json_t *status_upgraded(const struct state *st) {
    const struct state_upgraded *u = &st->upgraded;
    if (!u->times)
        return json_null();
    return json_pack("{s:s, s:i, s:f}", "from", u->from, "times", (int)u->times, "pause_ms",
                     (double)u->pause_ns / (double)NSEC_PER_MSEC);
}

void ctl_status(struct ctl_call *call, const json_t *params) {
    (void)params;
    struct state *st = ctl_state(call);
    struct plane_counters counters;
    struct ctl_totals t;
    thread_watch_stir(st);
    static const uint64_t nothing[QUOTA_COUNT];
    const bool all = ctl_sees_all(call);
    const struct quota_account *own = quota_find(&st->quota, ctl_caller(call)->who.uid, 0);
    const uint64_t *used = all ? st->quota.total.used : own ? own->used : nothing;
    const struct quota_limits *max =
        all || !own ? &st->quota.limits : quota_limits_of(&st->quota, own);
    (all ? ctl_totals : ctl_totals_own)(call, &t, &counters);
    json_t *listen = json_pack("{s:s, s:i, s:b}", "host", st->listen_host, "port",
                               (int)st->listen_port, "reachable", peers_are_reachable(st->peers));
    json_t *process = json_pack("{s:i, s:I, s:o}", "pid", (int)getpid(), "uid",
                                (json_int_t)geteuid(), "rss_bytes", status_number(t.rss_bytes));
    json_t *answer = json_pack(
        "{s:s, s:s, s:s, s:s, s:f, s:o, s:o, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:I, s:o}",
        "shown", all ? "all" : "own", "version", RDMAD_VERSION, "node", st->node_name, "state",
        st->stopping   ? "stopping"
        : st->draining ? "drained"
                       : "running",
        "uptime_s", t.uptime_s, "fabric", status_fabric(st), "listen", listen, "workers",
        (json_int_t)st->config->workers, "congestion_control", st->config->tcp_congestion_control,
        "tcp_encrypt", st->config->tcp_encrypt, "objects", status_objects(&t), "limits",
        status_limits(st, &t, used, max), "traffic", status_traffic(&counters, &t.messages),
        "process", process, "porter", status_porter(st->porter), "clients", status_clients(st),
        "identity", status_identity(st), "life", (json_int_t)st->life.number, "upgraded",
        status_upgraded(st));
    if (answer) {
        status_tally(call, answer);
        json_object_set_new(answer, "silent_threads", status_silent(st));
        json_object_set_new(answer, "metrics_at", json_string(metrics_where(st->metrics)));
    }
    ctl_reply(call, answer);
}

static void each_key(void *arg, const char *key, const char *literal) {
    json_t *value = json_loads(literal, JSON_DECODE_ANY, NULL);
    json_object_set_new(arg, key, value ? value : json_null());
}

void ctl_config_show(struct ctl_call *call, const json_t *params) {
    (void)params;
    json_t *keys = json_object();
    config_each(ctl_state(call)->config, each_key, keys);
    ctl_reply(call, json_pack("{s:o}", "config", keys));
}
