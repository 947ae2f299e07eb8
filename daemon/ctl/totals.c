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
#include <unistd.h>

/* Open descriptors of this process, without the one that counts them. */
static uint64_t count_fds(void) {
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

void ctl_totals(const struct ctl_call *call, struct ctl_totals *out, struct plane_counters *plane) {
    struct state *st = ctl_state(call);
    const uint64_t *used = st->quota.total.used;
    plane_count(st->plane, plane);
    *out = (struct ctl_totals){0};
    out->objects.sessions = used[QUOTA_SESSIONS];
    out->objects.pools = used[QUOTA_POOLS];
    out->objects.pool_bytes = used[QUOTA_BYTES];
    out->objects.rings = used[QUOTA_RINGS];
    out->objects.leases = used[QUOTA_LEASES];
    out->objects.attaches = used[QUOTA_ATTACHES];
    out->objects.services = used[QUOTA_SERVICES];
    out->objects.channels = used[QUOTA_CHANNELS];
    channels_count(st, &out->messages);
    out->objects.peers = peers_count(st->peers);
    links_view(st->peers, count_link, &out->objects.links);
    out->objects.lanes_in = plane->lanes_in;
    out->objects.lanes_in_encrypted = plane->lanes_in_encrypted;
    out->objects.ops_inflight = plane->ops_inflight;
    out->open_fds = count_fds();
    out->objects.fds = out->open_fds - ctl_conns(call);
    out->rss_bytes = resident_bytes();
    out->uptime_s = (double)(clock_now_ns() - st->started_ns) / 1e9;
}
