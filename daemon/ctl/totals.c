/* SPDX-License-Identifier: MIT */
/*
 * totals.c - how much there is of everything right now. The numbers of objects come from the quota
 * ledger, which counts a thing until the last byte of it is given back.
 */
#include "daemon/ctl/totals.h"
#include "daemon/base/clock.h"
#include "daemon/peer/peer.h"
#include "daemon/plane/plane.h"
#include "daemon/state/channel.h"
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Open descriptors of this process. Linux 6.2 and later tell them as a size; before, each is
 * walked, some 0.5 us, without the one that walks. */
static uint64_t count_fds(void) {
    struct stat table;
    if (!stat("/proc/self/fd", &table) && table.st_size)
        return (uint64_t)table.st_size;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    uint64_t n = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir)))
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n ? n - 1 : 0;
}

static uint64_t resident_bytes(void) {
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f)
        return 0;
    unsigned long all, resident = 0;
    if (fscanf(f, "%lu %lu", &all, &resident) != 2)
        resident = 0;
    fclose(f);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void count_link(void *arg, const struct link_view *v) {
    (void)v;
    ++*(uint64_t *)arg;
}

static void objects_of(const uint64_t *used, struct ctl_totals *out) {
    out->objects.sessions = used[QUOTA_SESSIONS];
    out->objects.pools = used[QUOTA_POOLS];
    out->objects.pool_bytes = used[QUOTA_BYTES];
    out->objects.rings = used[QUOTA_RINGS];
    out->objects.leases = used[QUOTA_LEASES];
    out->objects.attaches = used[QUOTA_ATTACHES];
    out->objects.services = used[QUOTA_SERVICES];
    out->objects.channels = used[QUOTA_CHANNELS];
}

void ctl_totals_of(struct state *st, struct ctl_totals *out, struct plane_counters *plane) {
    const uint64_t *used = st->quota.total.used;
    plane_count(st->plane, plane);
    *out = (struct ctl_totals){0};
    objects_of(used, out);
    channels_count(st, &out->messages);
    out->objects.peers = peers_count(st->peers);
    links_view(st->peers, count_link, &out->objects.links);
    out->objects.lanes_in = plane->lanes_in;
    out->objects.lanes_in_encrypted = plane->lanes_in_encrypted;
    out->objects.ops_inflight = plane->ops_inflight;
    out->open_fds = count_fds();
    out->rss_bytes = resident_bytes();
    out->uptime_s = (double)(clock_now_ns() - st->started_ns) / 1e9;
}

void ctl_totals(const struct ctl_call *call, struct ctl_totals *out, struct plane_counters *plane) {
    ctl_totals_of(ctl_state(call), out, plane);
    out->objects.fds = out->open_fds - ctl_conns(call);
}

static void count_session(const struct session *s, struct plane_counters *out) {
    if (!s->plane || s->closing)
        return;
    const struct plane_session_stats stats = plane_session_stats_now(s->plane);
    out->ops += stats.ops;
    out->ops_failed += stats.ops_failed;
    out->ops_inflight += stats.ops_inflight;
    out->bytes_read += stats.bytes_read;
    out->bytes_written += stats.bytes_written;
}

void ctl_totals_own(const struct ctl_call *call, struct ctl_totals *out,
                    struct plane_counters *plane) {
    static const uint64_t nothing[QUOTA_COUNT];
    const struct state *st = ctl_state(call);
    const struct quota_account *own = quota_find(&st->quota, ctl_caller(call)->who.uid, 0);
    *out = (struct ctl_totals){.uptime_s = (double)(clock_now_ns() - st->started_ns) / 1e9};
    *plane = (struct plane_counters){0};
    objects_of(own ? own->used : nothing, out);
    list_for_each (node, &st->sessions) {
        const struct session *s = list_entry(node, struct session, node);
        if (ctl_sees(call, s))
            count_session(s, plane);
    }
    out->objects.ops_inflight = plane->ops_inflight;
}

void ctl_tally(const struct ctl_call *call, struct plane_tally *out) {
    const struct plane *plane = ctl_state(call)->plane;
    *out = (struct plane_tally){0};
    for (unsigned op = 0; op < RDMAD_OP_COUNT; op++) {
        for (enum plane_route route = 0; route < PLANE_ROUTES; route++) {
            struct histogram h;
            plane_latency(plane, (uint8_t)op, route, &h);
            histogram_sum(&out->latency, &h);
        }
    }
    plane_failures(plane, out->failed);
}

void ctl_tally_own(const struct ctl_call *call, struct plane_tally *out) {
    *out = (struct plane_tally){0};
    list_for_each (node, &ctl_state(call)->sessions) {
        const struct session *s = list_entry(node, struct session, node);
        struct plane_tally one;
        if (!ctl_sees(call, s) || !s->plane || s->closing)
            continue;
        plane_session_tally(s->plane, &one);
        histogram_sum(&out->latency, &one.latency);
        for (unsigned code = 0; code < PLANE_CODES; code++)
            out->failed[code] += one.failed[code];
    }
}
