/* SPDX-License-Identifier: MIT */
/*
 * metrics.c - the same numbers as status, and what metrics_rows.c adds, as one text.
 */
#include "daemon/ctl/metrics.h"
#include "daemon/base/offload.h"
#include "daemon/ctl/metrics_rows.h"
#include "daemon/ctl/totals.h"
#include "daemon/peer/peer.h"
#include "daemon/plane/plane.h"
#include "daemon/state/channel.h"
#include "daemon/state/thread_watch.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define KEPT_NS NSEC_PER_SEC

struct single {
    const char *name, *unit, *help;
    uint64_t n;
};

static void singles(struct metrics_writer *w, enum metrics_type type, const struct single *s,
                    unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        metrics_family(w, type, s[i].name, s[i].unit, s[i].help);
        metrics_number(w, NULL, s[i].n);
    }
}

#define SINGLES(w, type, list) singles((w), (type), (list), sizeof(list) / sizeof((list)[0]))

static void metrics_info(struct metrics_writer *w, const struct state *st,
                         const struct ctl_totals *t) {
    struct metrics_labels labels = {0};
    metrics_label(&labels, "version", RDMAD_VERSION);
    metrics_label(&labels, "node", st->node_name);
    metrics_label(&labels, "fabric", plane_fabric(st->plane, 0)->name);
    metrics_family(w, METRICS_INFO, "rdmad", NULL, "What runs here.");
    metrics_number(w, &labels, 1);
    metrics_family(w, METRICS_GAUGE, "rdmad_uptime_seconds", "seconds",
                   "Since the daemon started.");
    metrics_real(w, NULL, t->uptime_s);
}

static void metrics_objects(struct metrics_writer *w, const struct state *st,
                            const struct ctl_totals *t) {
    const struct single gauges[] = {
        {"rdmad_peers_fallen_back", NULL,
         "Control connections with daemons that lack this one's best fabric.",
         peers_fallen_back(st->peers)},
        {"rdmad_sessions", NULL, "Client sessions, those being closed included.",
         t->objects.sessions},
        {"rdmad_pools", NULL, "Memory pools.", t->objects.pools},
        {"rdmad_pool_bytes", "bytes", "Bytes of pools and rings.", t->objects.pool_bytes},
        {"rdmad_rings", NULL, "Rings of sessions.", t->objects.rings},
        {"rdmad_leases", NULL,
         "Leases granted here that have not ended, or whose owner has not read that they have.",
         t->objects.leases},
        {"rdmad_attaches", NULL, "Leases that sessions here are attached to.", t->objects.attaches},
        {"rdmad_services", NULL, "Names that sessions here listen on.", t->objects.services},
        {"rdmad_channels", NULL, "Ends of channels here, and connections that wait to be accepted.",
         t->objects.channels},
        {"rdmad_peers", NULL, "Control connections to and from other daemons.", t->objects.peers},
        {"rdmad_links", NULL, "Data paths on which this daemon initiates.", t->objects.links},
        {"rdmad_lanes_in", NULL, "Data connections accepted from peers.", t->objects.lanes_in},
        {"rdmad_lanes_in_encrypted", NULL, "Of those, the ones that are encrypted.",
         t->objects.lanes_in_encrypted},
        {"rdmad_ops_inflight", NULL, "Transfers in flight.", t->objects.ops_inflight},
        {"process_open_fds", NULL, "Open file descriptors.", t->open_fds},
        {"process_resident_memory_bytes", "bytes", "Resident memory.", t->rss_bytes},
    };
    SINGLES(w, METRICS_GAUGE, gauges);
}

static void metrics_traffic(struct metrics_writer *w, const struct plane_counters *c,
                            const struct channel_totals *m) {
    const struct single counters[] = {
        {"rdmad_ops", NULL, "Transfers completed, failed ones included.", c->ops},
        {"rdmad_ops_failed", NULL, "Transfers that failed.", c->ops_failed},
        {"rdmad_read_bytes", "bytes", "Bytes that READs of sessions here moved.", c->bytes_read},
        {"rdmad_written_bytes", "bytes", "Bytes that WRITEs of sessions here moved.",
         c->bytes_written},
        {"rdmad_messages_sent", NULL, "Messages that channels here delivered to the other end.",
         m->messages_sent},
        {"rdmad_messages_received", NULL, "Messages that came into receives here.",
         m->messages_received},
        {"rdmad_message_sent_bytes", "bytes", "Bytes of messages that were delivered.",
         m->bytes_sent},
        {"rdmad_message_received_bytes", "bytes", "Bytes of messages that came.",
         m->bytes_received},
        {"rdmad_message_stalls", NULL, "Messages that found no receive and waited.", m->stalls},
        {"rdmad_messages_lost", NULL, "Messages of unreliable channels that were dropped here.",
         m->lost},
        {"rdmad_wakeups", NULL, "Wakeups sent to sleeping clients.", c->wakeups_sent},
        {"rdmad_worker_sleeps", NULL, "Times a worker went to sleep.", c->sleeps},
    };
    SINGLES(w, METRICS_COUNTER, counters);
}

/* What waits for something of somebody else. */
static void metrics_queues(struct metrics_writer *w, const struct state *st) {
    struct channel_queues q;
    channels_queues(st, &q);
    const struct single gauges[] = {
        {"rdmad_sends_waiting", NULL, "SENDs that wait for a receive of the other end.",
         q.sends_waiting},
        {"rdmad_receives_posted", NULL, "RECVs that wait for a message.", q.receives_posted},
        {"rdmad_channels_away", NULL, "Channels whose other end is away, and waited for.", q.away},
        {"rdmad_registrations_waiting", NULL, "Users whose memory waits for a registration thread.",
         offload_waiting(st->offload)},
    };
    SINGLES(w, METRICS_GAUGE, gauges);
}

static void metrics_silent(struct metrics_writer *w, const struct state *st) {
    struct thread_watch_row row;
    metrics_family(w, METRICS_GAUGE, "rdmad_thread_silent_seconds", "seconds",
                   "For how long a worker, or registration of memory, has not gone on, as of some "
                   "seconds ago.");
    for (unsigned i = 0; thread_watch_row(st, i, &row); i++) {
        struct metrics_labels labels = {0};
        metrics_label(&labels, "thread", row.thread);
        metrics_real(w, &labels, (double)row.silent_ns / 1e9);
    }
}

struct limit {
    const char *resource;
    uint64_t used, most; /* UINT64_MAX: without a limit */
};

static void print_limits(struct metrics_writer *w, const struct limit *l, unsigned count,
                         bool used) {
    for (unsigned i = 0; i < count; i++) {
        struct metrics_labels labels = {0};
        if (l[i].most == UINT64_MAX)
            continue;
        metrics_label(&labels, "resource", l[i].resource);
        metrics_number(w, &labels, used ? l[i].used : l[i].most);
    }
}

static void metrics_limits(struct metrics_writer *w, const struct state *st,
                           const struct ctl_totals *t) {
    struct limit limits[QUOTA_COUNT + 2];
    struct rlimit files = {.rlim_cur = RLIM_INFINITY};
    getrlimit(RLIMIT_NOFILE, &files);
    for (unsigned r = 0; r < QUOTA_COUNT; r++)
        limits[r] = (struct limit){quota_name((enum quota_resource)r), st->quota.total.used[r],
                                   st->quota.limits.total[r]};
    limits[QUOTA_COUNT] = (struct limit){"peers", t->objects.peers, st->config->max_peers};
    limits[QUOTA_COUNT + 1] =
        (struct limit){"fds", t->open_fds,
                       files.rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)files.rlim_cur};
    metrics_family(w, METRICS_GAUGE, "rdmad_limit", NULL,
                   "The daemon's own limit of a resource, where there is one.");
    print_limits(w, limits, QUOTA_COUNT + 2, false);
    metrics_family(w, METRICS_GAUGE, "rdmad_limit_used", NULL,
                   "What of such a resource is in use, by all together.");
    print_limits(w, limits, QUOTA_COUNT + 2, true);
}

static void metrics_print(const struct metrics_source *m, struct metrics_writer *w,
                          const struct hw_counters *devices) {
    struct state *st = m->state;
    struct plane_counters counters;
    struct ctl_totals t;
    thread_watch_stir(st);
    ctl_totals_of(st, &t, &counters);
    metrics_info(w, st, &t);
    metrics_objects(w, st, &t);
    metrics_limits(w, st, &t);
    metrics_traffic(w, &counters, &t.messages);
    metrics_queues(w, st);
    metrics_silent(w, st);
    metrics_rows(w, st, devices);
    metrics_end(w);
}

/* ---- the text, kept for a second ------------------------------------------------------------ */

int metrics_source_init(struct metrics_source *m, struct state *st, struct error *err) {
    *m = (struct metrics_source){.state = st, .devices = hw_cache_new(st)};
    return m->devices ? 0 : error_set(err, RDMAD_E_NOMEM, "out of memory for metrics");
}

void metrics_text_put(struct metrics_text *text) {
    if (text && --text->refs == 0)
        free(text);
}

void metrics_source_fini(struct metrics_source *m) {
    hw_cache_free(m->devices);
    metrics_text_put(m->made[false]);
    metrics_text_put(m->made[true]);
    *m = (struct metrics_source){0};
}

static struct metrics_text *metrics_make(struct metrics_source *m, bool openmetrics,
                                         uint64_t now_ns) {
    const struct hw_counters *devices = hw_cache_look(m->devices, now_ns);
    char *bytes = NULL;
    size_t size = 0;
    struct metrics_writer w = {.out = open_memstream(&bytes, &size), .openmetrics = openmetrics};
    if (!w.out)
        return NULL;
    metrics_print(m, &w, devices);
    bool good = fclose(w.out) == 0;
    struct metrics_text *text = good && bytes ? malloc(sizeof(*text) + size) : NULL;
    if (text) {
        *text = (struct metrics_text){.refs = 1, .size = size};
        memcpy(text->bytes, bytes, size);
    }
    free(bytes);
    return text;
}

struct metrics_text *metrics_source_now(struct metrics_source *m, bool openmetrics) {
    uint64_t now_ns = state_now(m->state);
    struct metrics_text *text = metrics_make(m, openmetrics, now_ns);
    if (!text)
        return NULL;
    metrics_text_put(m->made[openmetrics]);
    m->made[openmetrics] = text;
    m->made_ns[openmetrics] = now_ns;
    text->refs++;
    return text;
}

struct metrics_text *metrics_source_kept(struct metrics_source *m, bool openmetrics) {
    struct metrics_text *text = m->made[openmetrics];
    if (!text || state_now(m->state) - m->made_ns[openmetrics] >= KEPT_NS)
        return metrics_source_now(m, openmetrics);
    text->refs++;
    return text;
}
