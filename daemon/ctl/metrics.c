/* SPDX-License-Identifier: MIT */
/*
 * metrics.c - the same numbers as status in the Prometheus text format: base units, _total on what
 * only grows. Names change only with a major version.
 */
#include "daemon/ctl/handlers.h"
#include "daemon/ctl/totals.h"
#include "daemon/peer/peer.h"
#include "daemon/plane/plane.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void metric(FILE *out, const char *name, const char *type, const char *help, uint64_t n) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help, name, type, name, n);
}

static void metrics_objects(FILE *out, const struct ctl_totals *t) {
    const struct {
        const char *name, *help;
        uint64_t n;
    } gauges[] = {
        {"rdmad_sessions", "Client sessions, those being closed included.", t->objects.sessions},
        {"rdmad_pools", "Memory pools.", t->objects.pools},
        {"rdmad_pool_bytes", "Bytes of pools and rings.", t->objects.pool_bytes},
        {"rdmad_rings", "Rings of sessions.", t->objects.rings},
        {"rdmad_leases",
         "Leases granted here that have not ended, or whose owner has not read that they have.",
         t->objects.leases},
        {"rdmad_attaches", "Leases that sessions here are attached to.", t->objects.attaches},
        {"rdmad_services", "Names that sessions here listen on.", t->objects.services},
        {"rdmad_channels", "Ends of channels here, and connections that wait to be accepted.",
         t->objects.channels},
        {"rdmad_peers", "Control connections to and from other daemons.", t->objects.peers},
        {"rdmad_links", "Data paths on which this daemon initiates.", t->objects.links},
        {"rdmad_lanes_in", "Data connections accepted from peers.", t->objects.lanes_in},
        {"rdmad_lanes_in_encrypted", "Of those, the ones that are encrypted.",
         t->objects.lanes_in_encrypted},
        {"rdmad_ops_inflight", "Transfers in flight.", t->objects.ops_inflight},
        {"process_open_fds", "Open file descriptors.", t->open_fds},
        {"process_resident_memory_bytes", "Resident memory.", t->rss_bytes},
    };
    for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
        metric(out, gauges[i].name, "gauge", gauges[i].help, gauges[i].n);
}

static void metrics_traffic(FILE *out, const struct plane_counters *c,
                            const struct channel_totals *m) {
    const struct {
        const char *name, *help;
        uint64_t n;
    } counters[] = {
        {"rdmad_ops_total", "Transfers completed, failed ones included.", c->ops},
        {"rdmad_ops_failed_total", "Transfers that failed.", c->ops_failed},
        {"rdmad_read_bytes_total", "Bytes that READs of sessions here moved.", c->bytes_read},
        {"rdmad_written_bytes_total", "Bytes that WRITEs of sessions here moved.",
         c->bytes_written},
        {"rdmad_messages_sent_total", "Messages that channels here delivered to the other end.",
         m->messages_sent},
        {"rdmad_messages_received_total", "Messages that came into receives here.",
         m->messages_received},
        {"rdmad_message_sent_bytes_total", "Their bytes.", m->bytes_sent},
        {"rdmad_message_received_bytes_total", "Their bytes.", m->bytes_received},
        {"rdmad_message_stalls_total", "Messages that found no receive and waited.", m->stalls},
        {"rdmad_messages_lost_total", "Messages of unreliable channels that were dropped here.",
         m->lost},
        {"rdmad_wakeups_total", "Wakeups sent to sleeping clients.", c->wakeups_sent},
        {"rdmad_worker_sleeps_total", "Times a worker went to sleep.", c->sleeps},
    };
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        metric(out, counters[i].name, "counter", counters[i].help, counters[i].n);
}

/* A label's value: backslash, quote and line feed are escaped. */
static void print_label(FILE *out, const char *s) {
    for (; *s; s++) {
        if (*s == '\n')
            fputs("\\n", out);
        else
            fprintf(out, "%s%c", *s == '\\' || *s == '"' ? "\\" : "", *s);
    }
}

static void metrics_info(FILE *out, const struct state *st, const struct ctl_totals *t) {
    fprintf(out, "# HELP rdmad_info What runs here.\n# TYPE rdmad_info gauge\n"
                 "rdmad_info{version=\"" RDMAD_VERSION "\",node=\"");
    print_label(out, st->node_name);
    fprintf(out, "\",fabric=\"%s\"} 1\n", plane_fabric(st->plane, 0)->name);
    metric(out, "rdmad_peers_fallen_back", "gauge",
           "Control connections with daemons that lack this one's best fabric.",
           peers_fallen_back(st->peers));
    fprintf(out,
            "# HELP rdmad_uptime_seconds Since the daemon started.\n"
            "# TYPE rdmad_uptime_seconds gauge\nrdmad_uptime_seconds %.3f\n",
            t->uptime_s);
}

static void metrics_limits(FILE *out, const struct state *st) {
    static const char *const names[QUOTA_COUNT] = {
        [QUOTA_SESSIONS] = "sessions",   [QUOTA_BYTES] = "pool_bytes",
        [QUOTA_POOLS] = "pools",         [QUOTA_REGISTERED] = "registered_bytes",
        [QUOTA_RINGS] = "rings",         [QUOTA_LEASES] = "leases",
        [QUOTA_ATTACHES] = "attaches",   [QUOTA_SERVICES] = "services",
        [QUOTA_CHANNELS] = "channels",   [QUOTA_MAPPINGS] = "mappings",
        [QUOTA_QUESTIONS] = "questions",
    };
    fprintf(out, "# HELP rdmad_limit The daemon's own limit of a resource, where there is one.\n"
                 "# TYPE rdmad_limit gauge\n");
    for (unsigned r = 0; r < QUOTA_COUNT; r++) {
        if (st->quota.limits.total[r] != UINT64_MAX)
            fprintf(out, "rdmad_limit{resource=\"%s\"} %" PRIu64 "\n", names[r],
                    st->quota.limits.total[r]);
    }
}

void ctl_metrics(struct ctl_call *call, const json_t *params) {
    (void)params;
    struct state *st = ctl_state(call);
    struct plane_counters counters;
    struct ctl_totals t;
    ctl_totals(call, &t, &counters);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        ctl_reply(call, NULL);
        return;
    }
    metrics_info(out, st, &t);
    metrics_objects(out, &t);
    metrics_limits(out, st);
    metrics_traffic(out, &counters, &t.messages);
    fclose(out);
    ctl_reply(call, text ? json_pack("{s:s#}", "text", text, size) : NULL);
    free(text);
}
