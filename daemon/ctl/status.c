/* SPDX-License-Identifier: MIT */
/*
 * status.c - the daemon about itself. "objects" is all that is alive and nothing else, so that two
 * answers can be compared as a whole: a difference at rest is a leak.
 */
#include "daemon/ctl/call.h"
#include "daemon/ipc/porter.h"
#include "daemon/peer/peer.h"
#include "daemon/plane/plane.h"
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static json_t *number(uint64_t n) {
    return n == UINT64_MAX ? json_null() : json_integer((json_int_t)n);
}

/* fallback: what peers without the first are offered, and how many of them there are. */
static json_t *fabric(const struct state *st) {
    const char *name = plane_fabric(st->plane, 0)->name;
    const struct fabric_ops *other = plane_fabric(st->plane, 1);
    bool rdma = !strcmp(name, "verbs");
    json_t *why = json_string(st->fabric_why);
    return json_pack("{s:s, s:b, s:s, s:o, s:o, s:i}", "name", name, "rdma", rdma, "text",
                     rdma ? "RDMA verbs" : "RDMA over TCP, no RDMA hardware used", "why",
                     why ? why : json_string("?"), "fallback",
                     other ? json_string(other->name) : json_null(), "peers_fallen_back",
                     (int)peers_fallen_back(st->peers));
}

static json_t *objects(const struct ctl_totals *t) {
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
        {"ops_inflight", t->objects.ops_inflight},
        {"fds", t->objects.fds},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        json_object_set_new(o, rows[i].name, number(rows[i].n));
    return o;
}

static json_t *limits(const struct state *st, const struct ctl_totals *t) {
    static const char *const names[QUOTA_COUNT] = {
        [QUOTA_SESSIONS] = "sessions", [QUOTA_BYTES] = "pool_bytes",
        [QUOTA_POOLS] = "pools",       [QUOTA_REGISTERED] = "registered_bytes",
        [QUOTA_RINGS] = "rings",       [QUOTA_LEASES] = "leases",
        [QUOTA_ATTACHES] = "attaches", [QUOTA_SERVICES] = "services",
        [QUOTA_CHANNELS] = "channels", [QUOTA_MAPPINGS] = "mappings",
    };
    const struct quota_limits *max = &st->quota.limits;
    json_t *o = json_object();
    for (unsigned r = 0; r < QUOTA_COUNT; r++)
        json_object_set_new(o, names[r],
                            json_pack("{s:o, s:o, s:o, s:o}", "used",
                                      number(st->quota.total.used[r]), "max", number(max->total[r]),
                                      "max_uid", number(max->uid[r]), "max_session",
                                      number(max->session[r])));
    struct rlimit nofile = {0};
    getrlimit(RLIMIT_NOFILE, &nofile);
    json_object_set_new(o, "peers",
                        json_pack("{s:o, s:o}", "used", number(t->objects.peers), "max",
                                  number(st->config->max_peers)));
    json_object_set_new(
        o, "fds",
        json_pack("{s:o, s:o}", "used", number(t->open_fds), "max",
                  nofile.rlim_cur == RLIM_INFINITY ? json_null() : number(nofile.rlim_cur)));
    return o;
}

static json_t *traffic(const struct plane_counters *c, const struct channel_totals *m) {
    json_t *o = json_object();
    json_object_set_new(o, "ops", number(c->ops));
    json_object_set_new(o, "ops_failed", number(c->ops_failed));
    json_object_set_new(o, "bytes_read", number(c->bytes_read));
    json_object_set_new(o, "bytes_written", number(c->bytes_written));
    json_object_set_new(o, "messages_sent", number(m->messages_sent));
    json_object_set_new(o, "messages_received", number(m->messages_received));
    json_object_set_new(o, "message_bytes_sent", number(m->bytes_sent));
    json_object_set_new(o, "message_bytes_received", number(m->bytes_received));
    json_object_set_new(o, "wakeups_sent", number(c->wakeups_sent));
    json_object_set_new(o, "sleeps", number(c->sleeps));
    return o;
}

static json_t *porter(const struct porter *p) {
    pid_t pid = porter_pid(p);
    return json_pack("{s:o, s:i}", "pid", pid ? json_integer(pid) : json_null(), "restarts",
                     (int)porter_restarts(p));
}

/* Who may connect. */
static json_t *clients(const struct state *st) {
    const char *group = st->config->socket_group;
    return json_pack("{s:o}", "group", *group ? json_string(group) : json_null());
}

void ctl_status(struct ctl_call *call, const json_t *params) {
    (void)params;
    struct state *st = ctl_state(call);
    struct plane_counters counters;
    struct ctl_totals t;
    ctl_totals(call, &t, &counters);
    json_t *listen = json_pack("{s:s, s:i, s:b}", "host", st->listen_host, "port",
                               (int)st->listen_port, "reachable", peers_are_reachable(st->peers));
    json_t *process = json_pack("{s:i, s:I, s:o}", "pid", (int)getpid(), "uid",
                                (json_int_t)geteuid(), "rss_bytes", number(t.rss_bytes));
    ctl_reply(call,
              json_pack("{s:s, s:s, s:s, s:f, s:o, s:o, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:o}",
                        "version", RDMAD_VERSION, "node", st->node_name, "state",
                        st->stopping ? "stopping" : "running", "uptime_s", t.uptime_s, "fabric",
                        fabric(st), "listen", listen, "workers", (json_int_t)st->config->workers,
                        "congestion_control", st->config->tcp_congestion_control, "objects",
                        objects(&t), "limits", limits(st, &t), "traffic",
                        traffic(&counters, &t.messages), "process", process, "porter",
                        porter(st->porter), "clients", clients(st)));
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
