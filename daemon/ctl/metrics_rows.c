/* SPDX-License-Identifier: MIT */
/*
 * metrics_rows.c - families with labels: ops by kind and route, failures and events by cause,
 * users, peers, devices.
 *
 * Of users and peers there is a row each as usage.h has them, with what has ended, to which is
 * added what is still there.
 */
#include "daemon/ctl/metrics_rows.h"
#include "common/errors.h"
#include "daemon/base/audit.h"
#include "daemon/base/audit_count.h"
#include "daemon/base/audit_record.h"
#include "daemon/ctl/tally_json.h"
#include "daemon/peer/peer.h"
#include "daemon/plane/plane.h"
#include "daemon/state/ring_object.h"
#include "daemon/state/session.h"

#define OTHER "other"

static void rows_latency(struct metrics_writer *w, const struct plane *plane) {
    metrics_family(w, METRICS_HISTOGRAM, "rdmad_op_latency_seconds", "seconds",
                   "From the turn in which a worker took an op to the one that published its "
                   "completion, of ops that were done.");
    for (unsigned op = 0; op < RDMAD_OP_COUNT; op++) {
        for (enum plane_route route = 0; tally_op_name(op) && route < PLANE_ROUTES; route++) {
            struct metrics_labels labels = {0};
            struct histogram h;
            plane_latency(plane, (uint8_t)op, route, &h);
            if (!histogram_count(&h))
                continue;
            metrics_label(&labels, "op", tally_op_name(op));
            metrics_label(&labels, "route", tally_route_name(route));
            metrics_histogram(w, &labels, &h);
        }
    }
}

static void rows_failures(struct metrics_writer *w, const struct plane *plane) {
    uint64_t failed[PLANE_CODES];
    plane_failures(plane, failed);
    metrics_family(w, METRICS_COUNTER, "rdmad_op_failures", NULL,
                   "Ops that were not done, by the error code in their completion.");
    for (unsigned code = 1; code < PLANE_CODES; code++) {
        struct metrics_labels labels = {0};
        if (!failed[code])
            continue;
        metrics_label(&labels, "cause", rdmad_error_name(-(int)code));
        metrics_number(w, &labels, failed[code]);
    }
}

static void rows_audit(struct metrics_writer *w) {
    struct audit_counts counts;
    audit_count(&counts);
    metrics_family(w, METRICS_COUNTER, "rdmad_audit_events", NULL,
                   "Events of the audit, written or not: refusals, violations, throttling and what "
                   "was let in, by cause.");
    for (unsigned i = 0; i < counts.used; i++) {
        struct metrics_labels labels = {0};
        metrics_label(&labels, "event", audit_event_name(counts.row[i].event));
        metrics_label(&labels, "cause", counts.row[i].cause);
        metrics_number(w, &labels, counts.row[i].count);
    }
}

/* ---- users and peers ----------------------------------------------------------------------- */

struct rows_of {
    struct usage_sums sums[USAGE_ROWS + 1];
    uint64_t sessions[USAGE_ROWS + 1], inflight[USAGE_ROWS + 1]; /* of a user */
    uint64_t in_rings[USAGE_ROWS + 1];
    uint64_t links[USAGE_ROWS + 1]; /* of a peer */
    struct state *state;
};

struct sum_family {
    const char *name, *unit, *help;
    size_t at; /* in struct usage_sums */
};

static void label_user(struct metrics_labels *l, const struct usage *u, unsigned i) {
    char uid[16];
    if (i == USAGE_ROWS) {
        metrics_label(l, "uid", OTHER);
        return;
    }
    snprintf(uid, sizeof(uid), "%u", (unsigned)u->named[i]->who.uid);
    metrics_label(l, "uid", uid);
    if (u->named[i]->who.tenant)
        metrics_label(l, "tenant", u->named[i]->tenant);
}

static void label_peer(struct metrics_labels *l, const struct usage *u, unsigned i) {
    metrics_label(l, "peer", i == USAGE_ROWS ? OTHER : u->peers[i].name);
}

typedef void label_row(struct metrics_labels *l, const struct usage *u, unsigned i);

/* The rows in use; the last has nothing in it as long as there are others free. */
static void print_rows(struct metrics_writer *w, const struct usage *u, unsigned used,
                       label_row *label, const uint64_t *first, size_t step) {
    for (unsigned i = 0; i <= USAGE_ROWS; i++) {
        struct metrics_labels labels = {0};
        if (i >= used && (i < USAGE_ROWS || used < USAGE_ROWS))
            continue;
        label(&labels, u, i);
        metrics_number(w, &labels, *(const uint64_t *)((const char *)first + i * step));
    }
}

static void print_sums(struct metrics_writer *w, const struct usage *u, unsigned used,
                       label_row *label, const struct rows_of *r, const struct sum_family *families,
                       unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        const void *first = (const char *)r->sums + families[i].at;
        metrics_family(w, METRICS_COUNTER, families[i].name, families[i].unit, families[i].help);
        print_rows(w, u, used, label, first, sizeof(r->sums[0]));
    }
}

/* Of each row the statuses that there were. */
static void print_failures(struct metrics_writer *w, const struct usage *u, unsigned used,
                           label_row *label, const struct rows_of *r) {
    for (unsigned i = 0; i <= USAGE_ROWS; i++) {
        for (unsigned code = 1; code < PLANE_CODES; code++) {
            struct metrics_labels labels = {0};
            if (!r->sums[i].failed[code] || (i >= used && i < USAGE_ROWS))
                continue;
            label(&labels, u, i);
            metrics_label(&labels, "cause", rdmad_error_name(-(int)code));
            metrics_number(w, &labels, r->sums[i].failed[code]);
        }
    }
}

#define SUM(f) offsetof(struct usage_sums, f)

static void add_user(struct rows_of *r, const struct usage_user *user) {
    usage_add(&r->sums[user->row], &user->sums);
    list_for_each (node, &user->sessions) {
        const struct session *s = list_entry(node, struct session, usage_node);
        session_usage(s, &r->sums[user->row], NULL);
        r->sessions[user->row]++;
        if (!s->plane)
            continue;
        r->inflight[user->row] += plane_session_stats_now(s->plane).ops_inflight;
        r->in_rings[user->row] += ring_objects_unread(s);
    }
}

static void rows_users(struct metrics_writer *w, const struct state *st) {
    static const struct sum_family families[] = {
        {"rdmad_user_ops", NULL, "Transfers completed, failed ones included, by user.", SUM(ops)},
        {"rdmad_user_ops_failed", NULL, "Of those, the ones that failed.", SUM(ops_failed)},
        {"rdmad_user_read_bytes", "bytes", "Bytes that READs of the user's sessions moved.",
         SUM(bytes_read)},
        {"rdmad_user_written_bytes", "bytes", "Bytes that WRITEs of the user's sessions moved.",
         SUM(bytes_written)},
    };
    const struct usage *u = &st->usage;
    struct rows_of r = {0};
    list_for_each (node, &u->users)
        add_user(&r, list_entry(node, struct usage_user, node));
    add_user(&r, &u->others);
    print_sums(w, u, u->nusers, label_user, &r, families, 4);
    metrics_family(w, METRICS_COUNTER, "rdmad_user_op_failures", NULL,
                   "Ops of the user's sessions that were not done, by the error code in their "
                   "completion.");
    print_failures(w, u, u->nusers, label_user, &r);
    metrics_family(w, METRICS_GAUGE, "rdmad_user_sessions", NULL, "Sessions of the user.");
    print_rows(w, u, u->nusers, label_user, r.sessions, sizeof(r.sessions[0]));
    metrics_family(w, METRICS_GAUGE, "rdmad_user_ops_inflight", NULL,
                   "Transfers of the user's sessions that are in flight.");
    print_rows(w, u, u->nusers, label_user, r.inflight, sizeof(r.inflight[0]));
    metrics_family(w, METRICS_GAUGE, "rdmad_user_ops_in_rings", NULL,
                   "Ops that the user's programs have submitted and the daemon has not taken yet.");
    print_rows(w, u, u->nusers, label_user, r.in_rings, sizeof(r.in_rings[0]));
}

static void rows_throttled(struct metrics_writer *w, const struct state *st) {
    const struct usage *u = &st->usage;
    metrics_family(w, METRICS_COUNTER, "rdmad_user_throttled_seconds", "seconds",
                   "Time for which a rate held the user back, since its first session of those "
                   "that there are.");
    for (unsigned i = 0; i < u->nusers; i++) {
        struct metrics_labels labels = {0};
        struct plane_user_stats stats;
        plane_user_stats(st->plane, u->named[i]->who, &stats);
        label_user(&labels, u, i);
        metrics_real(w, &labels, (double)stats.throttled_ns / 1e9);
    }
}

static void user_limit(struct metrics_writer *w, const struct state *st, bool used) {
    const struct usage *u = &st->usage;
    for (unsigned i = 0; i < u->nusers; i++) {
        const struct user_id who = u->named[i]->who;
        const struct quota_account *a = quota_find(&st->quota, who.uid, who.tenant);
        for (unsigned r = 0; a && r < QUOTA_COUNT; r++) {
            uint64_t most = quota_limits_of(&st->quota, a)->uid[r];
            struct metrics_labels labels = {0};
            if (!a->used[r] || most == UINT64_MAX)
                continue;
            label_user(&labels, u, i);
            metrics_label(&labels, "resource", quota_name((enum quota_resource)r));
            metrics_number(w, &labels, used ? a->used[r] : most);
        }
    }
}

static void rows_limits(struct metrics_writer *w, const struct state *st) {
    metrics_family(w, METRICS_GAUGE, "rdmad_user_limit_used", NULL,
                   "What a user has of a resource, where it has some and there is a limit.");
    user_limit(w, st, true);
    metrics_family(w, METRICS_GAUGE, "rdmad_user_limit", NULL, "And how much it may have.");
    user_limit(w, st, false);
}

static void add_link(void *arg, const struct link_view *v) {
    struct rows_of *r = arg;
    struct plane_lane_stats stats;
    if (!v->lane)
        return; /* it is in the usage */
    unsigned row = usage_peer(&r->state->usage, v->node);
    plane_lane_stats(v->lane, &stats);
    plane_lane_look(v->lane);
    usage_add_link(&r->sums[row], &stats, v->rebuilds);
    r->links[row]++;
}

static void rows_peers(struct metrics_writer *w, struct state *st) {
    static const struct sum_family families[] = {
        {"rdmad_peer_ops", NULL, "Transfers to and from a peer's memory, failed ones included.",
         SUM(ops)},
        {"rdmad_peer_ops_failed", NULL, "Of those, the ones that failed.", SUM(ops_failed)},
        {"rdmad_peer_read_bytes", "bytes", "Bytes read from a peer's memory.", SUM(bytes_read)},
        {"rdmad_peer_written_bytes", "bytes", "Bytes written to a peer's memory.",
         SUM(bytes_written)},
        {"rdmad_peer_link_rebuilds", NULL, "How often links to the peer were made anew.",
         SUM(rebuilds)},
        {"rdmad_peer_link_retransmits", NULL,
         "Segments that TCP sent again on links to the peer, as of the scrape before.",
         SUM(retransmits)},
    };
    struct usage *u = &st->usage;
    struct rows_of r = {.state = st};
    links_view(st->peers, add_link, &r);
    for (unsigned i = 0; i <= USAGE_ROWS; i++)
        usage_add(&r.sums[i], &u->peers[i].sums);
    print_sums(w, u, u->npeers, label_peer, &r, families, 6);
    metrics_family(w, METRICS_COUNTER, "rdmad_peer_op_failures", NULL,
                   "Transfers to and from a peer's memory that were not done, by the error code in "
                   "their completion.");
    print_failures(w, u, u->npeers, label_peer, &r);
    metrics_family(w, METRICS_GAUGE, "rdmad_peer_links", NULL, "Links to the peer.");
    print_rows(w, u, u->npeers, label_peer, r.links, sizeof(r.links[0]));
}

/* ---- devices -------------------------------------------------------------------------------- */

static void rows_devices(struct metrics_writer *w, const struct hw_counters *c) {
    metrics_family(w, METRICS_ANY, "rdmad_device_hw_counter", NULL,
                   "What an RDMA device counts itself (hw_counters), as of some seconds ago.");
    for (unsigned i = 0; i < c->count; i++) {
        struct metrics_labels labels = {0};
        metrics_label(&labels, "device", c->row[i].device);
        metrics_label(&labels, "port", c->row[i].port);
        metrics_label(&labels, "counter", c->row[i].name);
        metrics_number(w, &labels, c->row[i].value);
    }
}

void metrics_rows(struct metrics_writer *w, struct state *st, const struct hw_counters *devices) {
    rows_latency(w, st->plane);
    rows_failures(w, st->plane);
    rows_audit(w);
    rows_users(w, st);
    rows_throttled(w, st);
    rows_limits(w, st);
    rows_peers(w, st);
    rows_devices(w, devices);
}
